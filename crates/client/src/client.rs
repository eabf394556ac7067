//! Typed reads and writes of the `velero.io` resources of one namespace.

use crate::ObjectIdentity;
use base64::Engine;
use bytes::Bytes;
use lifeboat_api::{GROUP, Resource};
use lifeboat_cluster::{Cluster, ClusterError, Failure, ListRequest, MergePatch, WriteBody};
use lifeboat_object::ApiResource;
use lifeboat_patch::merge_diff;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;

/// A `velero.io` resource that can be sent and read.
pub trait Object: Resource + Serialize + DeserializeOwned + Clone + Send + Sync + 'static {}

impl<T: Resource + Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Object for T {}

/// Reads and writes the `velero.io` resources of one namespace.
#[derive(Clone, Debug)]
pub struct Client {
    /// The cluster.
    pub cluster: Cluster,
    /// The namespace of the resources.
    pub namespace: String,
}

/// The address of a `velero.io` type at the API server. It is made from the type alone: discovery would take a request,
/// which can fail.
pub fn api_resource<T: Resource>() -> Arc<ApiResource> {
    Arc::new(ApiResource::new(GROUP, T::VERSION, T::PLURAL, T::KIND))
}

/// Returns true if the API server has refused a write for good: it would refuse the same write again, unless the rules
/// by which it decides change.
pub fn is_refused(error: &ClusterError) -> bool {
    error.status().is_some_and(|status| matches!(status.code, 400 | 403 | 413 | 422))
}

impl Client {
    /// Reads an object; `None` when there is none.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn get<T: Object>(&self, name: &str) -> Result<Option<T>, ClusterError> {
        let found = self.cluster.get(&api_resource::<T>(), Some(&self.namespace), name).await?;
        found.map(|bytes| object("get", name, &bytes)).transpose()
    }

    /// Reads the objects that a label selector matches, in the order of the API server; an empty selector matches all.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn list<T: Object>(&self, selector: &str) -> Result<Vec<T>, ClusterError> {
        let mut list = self
            .cluster
            .list(ListRequest::all(api_resource::<T>()).in_namespace(self.namespace.clone()).labelled(selector));
        let mut out = Vec::new();
        while let Some(bodies) = list.next().await? {
            for body in bodies {
                out.push(object("list", T::PLURAL, &body)?);
            }
        }
        Ok(out)
    }

    /// Changes `before` to `after` and gives the object as stored. Sends the fields that differ, and nothing when none do. The
    /// API server refuses the change when the object is not the one that `before` was read from any more.
    ///
    /// # Errors
    /// [`ClusterError`]; a conflict says that another client has changed the object meanwhile.
    pub async fn change<T: Object>(&self, before: &T, after: &T) -> Result<T, ClusterError> {
        match self.send_difference(before, after).await? {
            Some((name, stored)) => object("patch", &name, &stored),
            None => Ok(after.clone()),
        }
    }

    /// Does what [`Client::change`] does, without reading the answer: for an object that `T` cannot hold as a whole.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn change_unread<T: Object>(&self, before: &T, after: &T) -> Result<(), ClusterError> {
        self.send_difference(before, after).await.map(drop)
    }

    /// Sends the fields that differ. Gives the object's name and its stored JSON; `None` when nothing differs.
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

    /// Reads the UID of an object, also of one that `T` cannot hold; `None` when there is none.
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

    /// Applies a merge patch to the object of this name, whatever state it is in.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn patch<T: Object>(&self, name: &str, patch: &Value) -> Result<(), ClusterError> {
        let (resource, namespace) = (api_resource::<T>(), Some(self.namespace.as_str()));
        let patch = Bytes::from(patch.to_string());
        self.cluster.patch(&resource, namespace, name, MergePatch::of(patch)).await.map(drop)
    }

    /// Creates an object and gives it as stored; `None` when there is one of this name already.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn create<T: Object>(&self, name: &str, object: &T) -> Result<Option<T>, ClusterError> {
        let (resource, namespace) = (api_resource::<T>(), Some(self.namespace.as_str()));
        let body = Bytes::from(value(object)?.to_string());
        match self.cluster.create(&resource, namespace, name, WriteBody::of(body)).await {
            Ok(stored) => self::object("create", name, &stored).map(Some),
            Err(e) if e.is_already_exists() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Does what [`Client::create`] does, but only where the cluster's definition has every field of the object.
    ///
    /// # Errors
    /// [`ClusterError`]; [`ClusterError::unknown_fields`] names the fields that the definition lacks.
    pub async fn create_strictly<T: Object>(&self, name: &str, object: &T) -> Result<Option<T>, ClusterError> {
        let (resource, namespace) = (api_resource::<T>(), Some(self.namespace.as_str()));
        let body = Bytes::from(value(object)?.to_string());
        match self.cluster.create_strictly(&resource, namespace, name, body).await {
            Ok(stored) => self::object("create", name, &stored).map(Some),
            Err(e) if e.is_already_exists() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Gives an object as it would be stored if it were created now: with the time of the API server's clock.
    ///
    /// # Errors
    /// [`ClusterError`]: why it would not be.
    pub async fn would_create<T: Object>(&self, name: &str, object: &T) -> Result<T, ClusterError> {
        let (resource, namespace) = (api_resource::<T>(), Some(self.namespace.as_str()));
        let body = Bytes::from(value(object)?.to_string());
        let stored = self.cluster.dry_run_create(&resource, namespace, name, body).await?;
        self::object("create (as a dry run)", name, &stored)
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
    pub async fn delete_exactly<T: Object>(&self, object: &ObjectIdentity) -> Result<bool, ClusterError> {
        let (resource, namespace) = (api_resource::<T>(), Some(self.namespace.as_str()));
        self.cluster.delete_exactly(&resource, namespace, &object.key.name, &object.uid).await
    }

    /// Reads the value of one key of a Secret.
    ///
    /// # Errors
    /// The reason for which it cannot be read, in Velero's words where Velero has such an error.
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

/// Reads an object out of its JSON.
pub(crate) fn object<T: Object>(verb: &'static str, name: &str, bytes: &[u8]) -> Result<T, ClusterError> {
    T::from_json(bytes).map_err(|e| invalid(verb, name, &e))
}

fn parse<T: DeserializeOwned>(verb: &'static str, name: &str, bytes: &[u8]) -> Result<T, ClusterError> {
    serde_json::from_slice(bytes).map_err(|e| invalid(verb, name, &e))
}

fn invalid(verb: &'static str, what: &str, error: &serde_json::Error) -> ClusterError {
    ClusterError { verb, what: what.to_owned(), failure: Failure::Invalid(error.to_string()) }
}
