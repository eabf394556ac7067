//! Objects of Kubernetes as JSON values.

use bytes::Bytes;
use lifeboat_cluster::{Cluster, ClusterError, Failure, ListRequest, MergePatch, Preconditions, WriteBody};
use lifeboat_object::ApiResource;
use serde_json::Value;

/// The name of an object of a type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectName<'a> {
    pub(crate) resource: &'a ApiResource,
    /// `None` for types of the whole cluster.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: &'a str,
}

/// Reads and writes objects as JSON values.
#[derive(Clone, Debug)]
pub(crate) struct Kube(pub(crate) Cluster);

impl Kube {
    pub(crate) async fn get(&self, of: ObjectName<'_>) -> Result<Option<Value>, ClusterError> {
        let found = self.0.get(of.resource, of.namespace, of.name).await?;
        found.map(|bytes| parse("get", of.name, &bytes)).transpose()
    }

    /// Reads an object of a type, of a namespace where the type has them.
    pub(crate) async fn find(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, ClusterError> {
        self.get(ObjectName { resource, namespace, name }).await
    }

    /// Creates an object; `None` when there is one of this name.
    pub(crate) async fn create(&self, of: ObjectName<'_>, object: &Value) -> Result<Option<Value>, ClusterError> {
        let body = WriteBody::of(Bytes::from(object.to_string()));
        match self.0.create(of.resource, of.namespace, of.name, body).await {
            Ok(stored) => parse("create", of.name, &stored).map(Some),
            Err(e) if e.is_already_exists() => Ok(None),
            Err(e) => Err(e),
        }
    }

    pub(crate) async fn patch(&self, of: ObjectName<'_>, patch: &Value) -> Result<Bytes, ClusterError> {
        let patch = MergePatch::of(Bytes::from(patch.to_string()));
        self.0.patch(of.resource, of.namespace, of.name, patch).await
    }

    /// Deletes this very object; it may be gone.
    pub(crate) async fn delete(&self, of: ObjectName<'_>, uid: &str) -> Result<(), ClusterError> {
        self.0.delete_exactly(of.resource, of.namespace, of.name, uid).await.map(drop)
    }

    /// Deletes an object as it was read; `false` when it is gone, or has changed since.
    pub(crate) async fn delete_as_read(&self, of: ObjectName<'_>, read: &Value) -> Result<bool, ClusterError> {
        let exactly = Preconditions { uid: uid(read), resource_version: text(read, &["metadata", "resourceVersion"]) };
        self.0.delete_with_dependents(of.resource, of.namespace, of.name, exactly).await
    }

    /// The objects that a label selector and a field selector match; empty ones match all.
    pub(crate) async fn list(
        &self,
        resource: ApiResource,
        namespace: Option<&str>,
        selector: &str,
        fields: &str,
    ) -> Result<Vec<Value>, ClusterError> {
        let request = ListRequest::all(resource).in_namespace(namespace.map(str::to_owned)).labelled(selector);
        let mut list = self.0.list(request).with_fields(fields.to_owned());
        let mut all = Vec::new();
        while let Some(bodies) = list.next().await? {
            for body in bodies {
                all.push(parse("list", "objects", &body)?);
            }
        }
        Ok(all)
    }
}

/// A text of an object, by the names of its fields; empty where there is none.
pub(crate) fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    path.iter().fold(object, |value, field| &value[*field]).as_str().unwrap_or_default()
}

/// The UID of an object.
pub(crate) fn uid(object: &Value) -> &str {
    text(object, &["metadata", "uid"])
}

/// Returns true if an object names this UID as its owner.
pub(crate) fn is_owned_by(object: &Value, owner: &str) -> bool {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten().any(|reference| reference["uid"] == owner)
}

fn parse(verb: &'static str, name: &str, bytes: &[u8]) -> Result<Value, ClusterError> {
    serde_json::from_slice(bytes).map_err(|e| ClusterError {
        verb,
        what: name.to_owned(),
        failure: Failure::Invalid(e.to_string()),
    })
}
