//! Typed reads and writes of the `velero.io` resources of one namespace.

use crate::Identity;
use base64::Engine;
use bytes::Bytes;
use lifeboat_api::{GROUP, Resource};
use lifeboat_cluster::{Cluster, ClusterError, Failure, ListRequest, MergePatch, Wanted};
use lifeboat_object::ApiResource;
use lifeboat_patch::merge_diff;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;

/// A resource of ours that can be sent and read.
pub trait Object: Resource + Serialize + DeserializeOwned + Clone + Send + Sync + 'static {}

impl<T: Resource + Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Object for T {}

/// The resources of one namespace: that of a server.
#[derive(Clone, Debug)]
pub struct Client {
    /// The cluster.
    pub cluster: Cluster,
    /// The namespace of the resources.
    pub namespace: String,
}

/// How our own types are addressed; discovery would be a request and could fail.
pub fn api_resource<T: Resource>() -> Arc<ApiResource> {
    Arc::new(ApiResource::new(GROUP, T::VERSION, T::PLURAL, T::KIND))
}

/// Whether the API server has refused a write for good: as long as neither the object changes nor who decides about it, it
/// would refuse it again.
pub fn is_refused(error: &ClusterError) -> bool {
    error.status().is_some_and(|status| matches!(status.code, 400 | 403 | 413 | 422))
}

impl Client {
    /// The object now; `None` when there is none.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn get<T: Object>(&self, name: &str) -> Result<Option<T>, ClusterError> {
        let found = self.cluster.get(&api_resource::<T>(), Some(&self.namespace), name).await?;
        found.map(|bytes| parse("get", name, &bytes)).transpose()
    }

    /// The objects that a label selector matches, all of them when it is empty, in the order of the API server.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn list<T: Object>(&self, selector: &str) -> Result<Vec<T>, ClusterError> {
        let mut list = self.cluster.list(ListRequest {
            resource: api_resource::<T>(),
            namespace: Some(self.namespace.clone()),
            selector: selector.to_owned(),
            metadata_only: false,
        });
        let mut out = Vec::new();
        while let Some(bodies) = list.next().await? {
            for body in bodies {
                out.push(parse("list", T::PLURAL, &body)?);
            }
        }
        Ok(out)
    }

    /// Changes `before` to `after`: sends what differs, on condition that nobody has changed the object meanwhile.
    ///
    /// Nothing is sent when nothing differs.
    ///
    /// # Errors
    /// [`ClusterError`]; a conflict says that another actor was there.
    pub async fn change<T: Object>(&self, before: &T, after: &T) -> Result<T, ClusterError> {
        match self.send_difference(before, after).await? {
            Some((name, stored)) => parse("patch", &name, &stored),
            None => Ok(after.clone()),
        }
    }

    /// The same of an object of which perhaps not all can be read: the answer is not looked at.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn note<T: Object>(&self, before: &T, after: &T) -> Result<(), ClusterError> {
        self.send_difference(before, after).await.map(drop)
    }

    /// Name and stored state; `None` when nothing differs.
    async fn send_difference<T: Object>(&self, before: &T, after: &T) -> Result<Option<(String, Bytes)>, ClusterError> {
        let (from, to) = (value(before)?, value(after)?);
        let Some(mut patch) = merge_diff(&from, &to) else { return Ok(None) };
        patch["metadata"]["resourceVersion"] = from["metadata"]["resourceVersion"].clone();
        let name = from["metadata"]["name"].as_str().unwrap_or_default();
        let (resource, namespace) = (api_resource::<T>(), Some(self.namespace.as_str()));
        let patch = Bytes::from(patch.to_string());
        let stored = self.cluster.patch(&resource, namespace, name, MergePatch::of(patch)).await?;
        Ok(Some((name.to_owned(), stored)))
    }

    /// The UID of an object, be the rest of it as it may; `None` when there is none.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn uid_of<T: Object>(&self, name: &str) -> Result<Option<String>, ClusterError> {
        let found = self.cluster.get(&api_resource::<T>(), Some(&self.namespace), name).await?;
        let uid = |bytes: &Bytes| {
            let object: Value = parse("get", name, bytes)?;
            Ok(object["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
        };
        found.as_ref().map(uid).transpose()
    }

    /// Patches an object of which nothing is known but its name.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn patch<T: Object>(&self, name: &str, patch: &Value) -> Result<(), ClusterError> {
        let (resource, namespace) = (api_resource::<T>(), Some(self.namespace.as_str()));
        let patch = Bytes::from(patch.to_string());
        self.cluster.patch(&resource, namespace, name, MergePatch::of(patch)).await.map(drop)
    }

    /// Creates an object; `None` when there is one of this name already.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn create<T: Object>(&self, name: &str, object: &T) -> Result<Option<T>, ClusterError> {
        let (resource, namespace) = (api_resource::<T>(), Some(self.namespace.as_str()));
        let body = Bytes::from(value(object)?.to_string());
        match self.cluster.create(&resource, namespace, name, Wanted::of(body)).await {
            Ok(stored) => parse("create", name, &stored).map(Some),
            Err(e) if e.is_already_exists() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Deletes an object; false when there is none.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn delete<T: Object>(&self, name: &str) -> Result<bool, ClusterError> {
        self.cluster.delete(&api_resource::<T>(), Some(&self.namespace), name).await
    }

    /// Deletes this very object; false when there is none, or another of its name.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn delete_exactly<T: Object>(&self, object: &Identity) -> Result<bool, ClusterError> {
        let (resource, namespace) = (api_resource::<T>(), Some(self.namespace.as_str()));
        self.cluster.delete_exactly(&resource, namespace, &object.key.name, &object.uid).await
    }

    /// A key of a Secret.
    ///
    /// # Errors
    /// Why it cannot be had, in Velero's words where it has some.
    pub async fn secret(&self, name: &str, key: &str) -> Result<Vec<u8>, String> {
        let secrets = ApiResource::new("", "v1", "secrets", "Secret");
        let found = self.cluster.get(&secrets, Some(&self.namespace), name).await;
        let found = found.map_err(|e| format!("unable to get secret {name}: {e}"))?;
        let bytes = found.ok_or_else(|| format!("unable to get secret {name}: secrets \"{name}\" not found"))?;
        let secret: Value = serde_json::from_slice(&bytes).map_err(|e| format!("secret {name} is no JSON: {e}"))?;
        let data = secret["data"][key]
            .as_str()
            .ok_or_else(|| format!("\"{name}\" secret is missing data for key \"{key}\""))?;
        base64::engine::general_purpose::STANDARD
            .decode(data)
            .map_err(|_| format!("secret {name}: key {key} is no base64"))
    }
}

fn value<T: Serialize>(object: &T) -> Result<Value, ClusterError> {
    serde_json::to_value(object).map_err(|e| invalid("encode", "an object of ours", &e))
}

fn parse<T: DeserializeOwned>(verb: &'static str, name: &str, bytes: &[u8]) -> Result<T, ClusterError> {
    serde_json::from_slice(bytes).map_err(|e| invalid(verb, name, &e))
}

fn invalid(verb: &'static str, what: &str, error: &serde_json::Error) -> ClusterError {
    ClusterError { verb, what: what.to_owned(), failure: Failure::Invalid(error.to_string()) }
}
