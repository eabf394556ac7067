//! Restores one object (restore.md 2.8).

use crate::env::Env;
use crate::existing::{is_same, strip};
use crate::managed_fields::{Owners, decide};
use crate::namespaces::Namespaces;
use crate::wait::established;
use bytes::Bytes;
use lifeboat_api::{Restore, label_value, well_known};
use lifeboat_cluster::{ClusterError, Create, PatchKind};
use lifeboat_object::{ApiResource, Catalog, GroupResource, ObjectKey, Place};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// What was done with an object, in the words of the resource list (restore.md 1.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// It was made.
    Created,
    /// It was there and was changed.
    Updated,
    /// It was there, or is not restored.
    Skipped,
    /// It could not be restored.
    Failed,
}

impl Action {
    /// The word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }
}

/// What came of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    /// `None`: not listed, as completed pods and jobs.
    pub(crate) action: Option<Action>,
}

/// What all objects of one restore share.
pub(crate) struct Context {
    pub(crate) restore: Restore,
    pub(crate) catalog: Catalog,
    pub(crate) namespaces: Namespaces,
    pub(crate) resource_timeout: Duration,
    pub(crate) env: Env,
}

/// An object out of the archive.
pub(crate) struct Source {
    pub(crate) key: ObjectKey,
    pub(crate) body: Bytes,
}

impl Context {
    /// Restores one object. What goes wrong is in the journal.
    pub(crate) async fn restore(&self, source: Source) -> Option<Done> {
        let Source { key, body } = source;
        let mut object: Value = match serde_json::from_slice(&body) {
            Ok(object) => object,
            Err(e) => {
                self.error(&key, &format!("error decoding {key}: {e}"));
                return None;
            }
        };
        drop(body);
        let text = |object: &Value, field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let mut done = Done {
            api_version: text(&object, "apiVersion"),
            kind: text(&object, "kind"),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            action: None,
        };
        if key.resource == GroupResource::new("", "namespaces") {
            done.action = self.namespace(&key, &object).await;
            return Some(done);
        }
        if is_completed(&key.resource, &object) {
            return Some(done);
        }
        done.action = Some(self.write(&key, &mut object).await);
        Some(done)
    }

    async fn namespace(&self, key: &ObjectKey, object: &Value) -> Option<Action> {
        match self.namespaces.ensure(&key.name, Some(object), &self.env).await {
            Ok(true) => Some(Action::Created),
            // Namespaces that were there are left untouched and not listed.
            Ok(false) => None,
            Err(e) => {
                self.env.journal.error(&Place::Velero, e);
                Some(Action::Failed)
            }
        }
    }

    async fn write(&self, key: &ObjectKey, object: &mut Value) -> Action {
        if is_mirror_pod(&key.resource, object) || is_made_by_controllers(key) {
            return Action::Skipped;
        }
        if let Some(namespace) = &key.namespace
            && let Err(e) = self.namespaces.ensure(namespace, None, &self.env).await
        {
            self.env.journal.error(&Place::Velero, e);
            return Action::Failed;
        }
        let Some(resource) = self.resource_of(key, object) else {
            self.error(key, &format!("error restoring {key}: the cluster does not serve {}", key.resource));
            return Action::Failed;
        };
        let owners = decide(&object["metadata"]["managedFields"]);
        let managed_fields = object["metadata"]["managedFields"].take();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        strip(object);
        self.label(object);
        let body = Bytes::from(object.to_string());
        let namespace = key.namespace.as_deref();
        let how = Create { field_manager: &owners.field_manager, dry_run: false };
        match self.env.cluster.create(&resource, namespace, &key.name, body, how).await {
            Ok(_) => {
                self.after_create(key, &resource, &owners, managed_fields).await;
                Action::Created
            }
            Err(e) => self.not_created(key, &resource, object, &e).await,
        }
    }

    /// Labels that say where the object came from (restore.md 2.8 step 13).
    fn label(&self, object: &mut Value) {
        let labels = &mut object["metadata"]["labels"];
        if !labels.is_object() {
            *labels = json!({});
        }
        labels[well_known::LABEL_BACKUP_NAME] = label_value(&self.restore.spec.backup_name).into();
        labels[well_known::LABEL_RESTORE_NAME] = label_value(&self.restore.metadata.name).into();
    }

    async fn after_create(&self, key: &ObjectKey, resource: &ApiResource, owners: &Owners, managed_fields: Value) {
        if owners.second_write {
            let patch = Bytes::from(json!({"metadata": {"managedFields": managed_fields}}).to_string());
            let namespace = key.namespace.as_deref();
            let written = self.env.cluster.patch(resource, namespace, &key.name, None, PatchKind::Merge, patch).await;
            match written {
                Ok(_) => {}
                Err(e) if e.is_not_found() => {
                    self.warning(key, &format!("error restoring managedFields of {key}: {e}"));
                }
                Err(e) => self.error(key, &format!("error restoring managedFields of {key}: {e}")),
            }
        }
        if key.resource.resource == "customresourcedefinitions"
            && let Err(e) = established(resource, &key.name, self.resource_timeout, &self.env).await
        {
            self.error(key, &e);
        }
    }

    async fn not_created(
        &self,
        key: &ObjectKey,
        resource: &ApiResource,
        desired: &Value,
        error: &ClusterError,
    ) -> Action {
        let found = self.env.cluster.get(resource, key.namespace.as_deref(), &key.name).await;
        let existing = match found {
            Ok(Some(body)) => serde_json::from_slice::<Value>(&body).unwrap_or_default(),
            Ok(None) => {
                self.error(key, &format!("error restoring {key}: {}", error.failure));
                return Action::Failed;
            }
            Err(e) => {
                self.error(key, &format!("error restoring {key}: {}; reading it: {}", error.failure, e.failure));
                return Action::Failed;
            }
        };
        if !is_same(desired, &existing) {
            self.warning(
                key,
                &format!(
                    "could not restore, {} {:?} already exists. Warning: the in-cluster version is different than the backed-up version",
                    resource.kind, key.name
                ),
            );
        }
        Action::Skipped
    }

    fn resource_of(&self, key: &ObjectKey, object: &Value) -> Option<Arc<ApiResource>> {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let version = api_version.rsplit('/').next().unwrap_or_default();
        self.catalog.find_version(&key.resource, version).cloned()
    }

    fn error(&self, key: &ObjectKey, message: &str) {
        self.env.journal.error(&Place::of(key.namespace.as_deref()), message);
    }

    fn warning(&self, key: &ObjectKey, message: &str) {
        self.env.journal.warn(&Place::of(key.namespace.as_deref()), message);
    }
}

/// Pods and jobs that have ended are not started again (restore.md 2.8 step 4).
fn is_completed(resource: &GroupResource, object: &Value) -> bool {
    match (resource.group.as_str(), resource.resource.as_str()) {
        ("", "pods") => matches!(object["status"]["phase"].as_str(), Some("Failed" | "Succeeded")),
        ("batch", "jobs") => object["status"]["completionTime"].as_str().is_some_and(|t| !t.is_empty()),
        _ => false,
    }
}

/// A mirror pod is the kubelet's shadow of a static one (restore.md 2.8 step 6).
fn is_mirror_pod(resource: &GroupResource, object: &Value) -> bool {
    *resource == GroupResource::new("", "pods")
        && object["metadata"]["annotations"]["kubernetes.io/config.mirror"].as_str().is_some_and(|v| !v.is_empty())
}

/// What the controllers of every cluster write themselves, with content of that cluster.
fn is_made_by_controllers(key: &ObjectKey) -> bool {
    key.resource == GroupResource::new("", "configmaps") && key.name == "kube-root-ca.crt"
}
