//! A cluster with the types of its snapshots: how their objects are read, listed and changed.

use super::error::CsiError;
use super::objects::SnapshotTypes;
use crate::class::SnapshotClass;
use lifeboat_cluster::{Cluster, ClusterError, ListRequest, MergePatch};
use lifeboat_object::ApiResource;
use serde_json::{Value, json};
use std::sync::Arc;

/// A cluster with the types of its snapshots.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) types: &'a SnapshotTypes,
}

impl At<'_> {
    /// An object, if it is there.
    pub(crate) async fn read(
        self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, CsiError> {
        let body = self.cluster.get(resource, namespace, name).await?;
        body.map(|body| parsed(resource, &body)).transpose()
    }

    /// Gives each object of a list to `take`. A list that was interrupted may bring one twice.
    pub(crate) async fn list(self, request: ListRequest, take: impl FnMut(Value)) -> Result<(), ClusterError> {
        each(self.cluster, request, take).await
    }

    /// The VolumeSnapshotClasses.
    pub(crate) async fn classes(self) -> Result<Vec<SnapshotClass>, ClusterError> {
        let mut classes = Vec::new();
        self.list(selected(&self.types.classes, String::new()), |class| classes.push(SnapshotClass::of(&class)))
            .await?;
        Ok(classes)
    }

    /// Sets the deletion policy of a content of this type, and gives the content. One that is gone is no error.
    pub(crate) async fn set_policy(
        self,
        resource: &ApiResource,
        content: &str,
        policy: &str,
    ) -> Result<Option<Value>, CsiError> {
        self.patch_content(resource, content, json!({"spec": {"deletionPolicy": policy}})).await
    }

    /// Patches a content of this type, and gives it. One that is gone is no error.
    pub(crate) async fn patch_content(
        self,
        resource: &ApiResource,
        content: &str,
        patch: Value,
    ) -> Result<Option<Value>, CsiError> {
        match self.cluster.patch(resource, None, content, MergePatch::of(patch.to_string().into())).await {
            Ok(body) => parsed(resource, &body).map(Some),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}

/// Gives each object of a list to `take`, also of a cluster that serves no single snapshots.
pub(crate) async fn each(
    cluster: &Cluster,
    request: ListRequest,
    mut take: impl FnMut(Value),
) -> Result<(), ClusterError> {
    let mut list = cluster.list(request);
    while let Some(bodies) = list.next().await? {
        bodies.iter().filter_map(|body| serde_json::from_slice(body).ok()).for_each(&mut take);
    }
    Ok(())
}

/// A list of all objects of a type that a label selects; of all of the type for an empty one.
pub(crate) fn selected(resource: &Arc<ApiResource>, selector: String) -> ListRequest {
    ListRequest { resource: Arc::clone(resource), namespace: None, selector, metadata_only: false }
}

fn parsed(resource: &ApiResource, body: &[u8]) -> Result<Value, CsiError> {
    serde_json::from_slice(body).map_err(|_| CsiError::Odd(resource.kind.clone()))
}
