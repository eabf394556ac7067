//! Makes sure that the namespace of an object is there (restore.md 2.7).

use crate::env::Env;
use crate::managed_fields::{Owners, decide};
use crate::wait::{Waited, poll};
use bytes::Bytes;
use lifeboat_cluster::{ClusterError, Create, PatchKind};
use lifeboat_object::{ApiResource, Place};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;

/// The namespaces of one restore: each is ensured once, and who comes meanwhile waits for that.
#[derive(Debug)]
pub(crate) struct Namespaces {
    resource: Arc<ApiResource>,
    timeout: Duration,
    /// By target name; holds the namespace of the backup until it is needed.
    cells: Mutex<HashMap<String, Ensured>>,
}

/// Set once it is known whether the namespace is there, and whether we made it.
type Ensured = Arc<OnceCell<Result<bool, String>>>;

impl Namespaces {
    pub(crate) fn new(resource: Arc<ApiResource>, timeout: Duration) -> Self {
        Self { resource, timeout, cells: Mutex::new(HashMap::new()) }
    }

    /// Whether somebody has begun to ensure it: then the namespace of the backup is no longer needed.
    pub(crate) fn is_known(&self, name: &str) -> bool {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner).contains_key(name)
    }

    /// Whether one was not there, or is not yet: what was seen before that is no longer so.
    pub(crate) fn made_any(&self) -> bool {
        let cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        cells.values().any(|cell| cell.get() != Some(&Ok(false)))
    }

    /// Ensures that the namespace exists and is not being deleted; tells whether this call's restore made it.
    /// `source` is the namespace in the backup; without it a bare one is made.
    pub(crate) async fn ensure(&self, name: &str, source: Option<&Value>, env: &Env) -> Result<bool, String> {
        let cell = {
            let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(cells.entry(name.to_owned()).or_default())
        };
        cell.get_or_init(|| self.make(name, source, env)).await.clone()
    }

    async fn make(&self, name: &str, source: Option<&Value>, env: &Env) -> Result<bool, String> {
        let body = Bytes::from(target(name, source).to_string());
        let owners = source.map(|namespace| decide(&namespace["metadata"]["managedFields"])).unwrap_or_default();
        let how = || Create { field_manager: &owners.field_manager, ..Create::default() };
        let tried = poll(self.timeout, &env.cancel, || async {
            match env.cluster.create(&self.resource, None, name, body.clone(), how()).await {
                Ok(_) => Ok(Some(true)),
                Err(e) if e.is_already_exists() || is_terminating(&e) => match self.is_terminating(name, env).await? {
                    // Gone meanwhile, or being deleted: try again.
                    None | Some(true) => Ok(None),
                    Some(false) => Ok(Some(false)),
                },
                Err(e) => Err(e),
            }
        });
        match tried.await {
            Waited::Done(made) => {
                if let Some(source) = source.filter(|_| made) {
                    self.give_back(name, source, &owners, env).await;
                }
                Ok(made)
            }
            Waited::Failed(e) => Err(format!("error creating namespace {name}: {}", e.failure)),
            Waited::TimedOut => Err(format!(
                "timed out waiting for terminating namespace {name} to disappear before restoring: it is still there after {} s",
                self.timeout.as_secs()
            )),
            Waited::Cancelled => Err("the restore was cancelled".to_owned()),
        }
    }

    /// Gives the fields of a new namespace back to their owners, where the create could not.
    async fn give_back(&self, name: &str, source: &Value, owners: &Owners, env: &Env) {
        if !owners.second_write {
            return;
        }
        let managed_fields = &source["metadata"]["managedFields"];
        let patch = Bytes::from(json!({"metadata": {"managedFields": managed_fields}}).to_string());
        if let Err(e) = env.cluster.patch(&self.resource, None, name, None, PatchKind::Merge, patch).await {
            let message = format!("error restoring managedFields of namespaces/{name}: {}", e.failure);
            env.journal.warn(&Place::Cluster, message);
        }
    }

    /// `None` when there is no such namespace.
    async fn is_terminating(&self, name: &str, env: &Env) -> Result<Option<bool>, ClusterError> {
        let Some(body) = env.cluster.get(&self.resource, None, name).await? else { return Ok(None) };
        let value: Value = serde_json::from_slice(&body).unwrap_or_default();
        let deleting = !value["metadata"]["deletionTimestamp"].is_null() || value["status"]["phase"] == "Terminating";
        Ok(Some(deleting))
    }
}

fn is_terminating(error: &ClusterError) -> bool {
    error.is_conflict() || error.status().is_some_and(|s| s.code == 409)
}

/// The namespace to create: labels, annotations, finalizers and spec of the one in the backup.
fn target(name: &str, source: Option<&Value>) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), name.into());
    let mut out = json!({"apiVersion": "v1", "kind": "Namespace"});
    if let Some(source) = source {
        for key in ["labels", "annotations", "finalizers"] {
            if let Some(value) = source["metadata"].get(key) {
                metadata.insert(key.to_owned(), value.clone());
            }
        }
        if let Some(spec) = source.get("spec") {
            out["spec"] = spec.clone();
        }
        // The server sets this label to the name itself.
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.remove("kubernetes.io/metadata.name");
        }
    }
    out["metadata"] = metadata.into();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_keeps_what_a_person_wrote() {
        let source = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "old", "uid": "u", "labels": {"team": "red", "kubernetes.io/metadata.name": "old"}, "annotations": {"a": "b"}, "finalizers": ["f"]},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        assert_eq!(
            target("new", Some(&source)),
            json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": "new", "labels": {"team": "red"}, "annotations": {"a": "b"}, "finalizers": ["f"]}, "spec": {"finalizers": ["kubernetes"]}})
        );
        assert_eq!(target("new", None), json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}));
    }
}
