//! Reads, lists and changes the objects of snapshots.

use super::content::DeletionPolicy;
use super::error::CsiError;
use super::objects::SnapshotTypes;
use crate::class::SnapshotClass;
use lifeboat_cluster::{Cluster, ListRequest, MergePatch};
use lifeboat_object::ApiResource;
use serde_json::{Value, json};
use std::sync::Arc;

/// The API of snapshots, as a cluster serves it.
#[derive(Clone, Copy)]
pub(crate) struct SnapshotApi<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) types: &'a SnapshotTypes,
}

impl SnapshotApi<'_> {
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

    /// The VolumeSnapshotClasses. A list that was interrupted may bring one twice.
    pub(crate) async fn classes(self) -> Result<Vec<SnapshotClass>, CsiError> {
        let mut classes = Vec::new();
        let request = selected(&self.types.classes, String::new());
        each(self.cluster, request, |class| classes.push(SnapshotClass::of(&class))).await?;
        Ok(classes)
    }

    /// Sets the deletion policy of a content of this type, and gives the content. A content that is gone is no error.
    pub(crate) async fn set_policy(
        self,
        resource: &ApiResource,
        content: &str,
        policy: DeletionPolicy,
    ) -> Result<Option<Value>, CsiError> {
        self.patch_content(resource, content, json!({"spec": {"deletionPolicy": policy.as_str()}})).await
    }

    /// Patches a content of this type, and gives it. A content that is gone is no error.
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

/// Gives each object of a list to `take`, also of a cluster that serves no single snapshots. A list that was
/// interrupted may bring an object twice.
///
/// # Errors
/// [`CsiError`], also when one object cannot be read: work on all of them must not overlook it.
pub(crate) async fn each(cluster: &Cluster, request: ListRequest, mut take: impl FnMut(Value)) -> Result<(), CsiError> {
    let resource = Arc::clone(&request.resource);
    let mut list = cluster.list(request);
    while let Some(bodies) = list.next().await? {
        for body in bodies {
            take(parsed(&resource, &body)?);
        }
    }
    Ok(())
}

/// A list of all objects of a type that a label selects; of all of the type for an empty one.
pub(crate) fn selected(resource: &Arc<ApiResource>, selector: String) -> ListRequest {
    ListRequest::all(Arc::clone(resource)).labelled(selector)
}

fn parsed(resource: &ApiResource, body: &[u8]) -> Result<Value, CsiError> {
    serde_json::from_slice(body).map_err(|why| CsiError::Unreadable { kind: resource.kind.clone(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_cannot_be_read_is_told_with_its_cause() {
        let resource = ApiResource::new("snapshot.storage.k8s.io", "v1", "volumesnapshots", "VolumeSnapshot");
        let error = parsed(&resource, b"{").unwrap_err().to_string();
        let expected = "the API server's answer for a VolumeSnapshot cannot be read: EOF while parsing an object at line 1 column 1";
        assert_eq!(error, expected);
    }
}
