//! Restores one object (restore.md 2.8).

use crate::apply::{Actions, Applied};
use crate::env::Env;
use crate::existing::{merge_service_account, strip};
use crate::managed_fields::{Owners, decide};
use crate::namespaces::Namespaces;
use crate::retry::can_pass;
use crate::volumes::{reset_claim, reset_volume};
use crate::wait::established;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use lifeboat_api::{ExistingResourcePolicy, Restore, label_value, well_known};
use lifeboat_cluster::{ClusterError, Create, PatchKind};
use lifeboat_object::{ApiResource, Catalog, GroupResource, Head, ObjectKey, Place};
use lifeboat_select::RestoreFilter;
use lifeboat_store::Archive;
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

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
    pub(crate) action: Action,
}

/// How an attempt at one object ended.
pub(crate) enum Attempt {
    /// Finished; nothing to list for completed pods and jobs.
    Done(Option<Done>),
    /// Refused for a reason that can pass; nothing was reported yet.
    Later(Source, Box<ClusterError>),
}

/// An object out of the archive.
#[derive(Clone)]
pub(crate) struct Source {
    /// Its key in the backup.
    pub(crate) key: ObjectKey,
    pub(crate) body: Bytes,
    /// Whether it was seen in the cluster: then reading it comes before trying to create it.
    pub(crate) exists: bool,
}

/// What all objects of one restore share.
pub(crate) struct Context {
    pub(crate) restore: Restore,
    pub(crate) catalog: Catalog,
    pub(crate) filter: RestoreFilter,
    pub(crate) actions: Actions,
    pub(crate) namespaces: Namespaces,
    pub(crate) archive: Archive,
    /// Rows by digest of the key, for additional items.
    pub(crate) rows: Arc<HashMap<[u8; 16], usize>>,
    /// Volumes that are provisioned anew.
    pub(crate) provisioned: Arc<BTreeSet<String>>,
    /// Objects that an attempt has begun; an additional item comes here before its own turn.
    pub(crate) begun: Arc<Mutex<HashSet<[u8; 16]>>>,
    /// What was done with additional items.
    pub(crate) extra: Arc<Mutex<Vec<Done>>>,
    pub(crate) resource_timeout: Duration,
    pub(crate) env: Env,
}

/// An object on its way, with what messages need.
struct Target<'a> {
    /// `resource/target namespace/name`.
    key: ObjectKey,
    source: &'a ObjectKey,
    resource: Arc<ApiResource>,
}

impl Context {
    /// Takes an object that is in the very state of the backup: nothing is read or written.
    pub(crate) fn unchanged(&self, key: &ObjectKey, head: &Head, body: &[u8]) -> Option<Done> {
        let may_have_ended = matches!(key.resource.resource.as_str(), "pods" | "jobs");
        let ended =
            may_have_ended && serde_json::from_slice(body).is_ok_and(|object| is_completed(&key.resource, &object));
        if !self.begin(key) || ended {
            return None;
        }
        Some(Done {
            api_version: head.api_version.clone().unwrap_or_default(),
            kind: head.kind.clone().unwrap_or_default(),
            namespace: self.target_namespace(key),
            name: key.name.clone(),
            action: Action::Skipped,
        })
    }

    /// Restores one object in its own turn. What goes wrong is in the journal, unless it may pass: then the caller
    /// decides whether there is a later turn (`last` says that there is none).
    pub(crate) async fn restore(&self, source: Source, again: bool, last: bool) -> Attempt {
        if !self.begin(&source.key) && !again {
            return Attempt::Done(None);
        }
        self.attempt(source, last).await
    }

    fn begin(&self, key: &ObjectKey) -> bool {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).insert(key.digest())
    }

    /// Where an object of the backup goes.
    pub(crate) fn target_namespace(&self, key: &ObjectKey) -> Option<String> {
        let namespace = key.namespace.as_ref()?;
        Some(self.restore.spec.namespace_mapping.get(namespace).unwrap_or(namespace).clone())
    }

    async fn attempt(&self, source: Source, last: bool) -> Attempt {
        let key = &source.key;
        let target_key =
            ObjectKey { namespace: self.target_namespace(key), resource: key.resource.clone(), name: key.name.clone() };
        let object: Value = match serde_json::from_slice(&source.body) {
            Ok(object) => object,
            Err(e) => {
                self.error(&target_key, &format!("error decoding {key}: {e}"));
                return Attempt::Done(None);
            }
        };
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let mut done = Done {
            api_version: text("apiVersion"),
            kind: text("kind"),
            namespace: target_key.namespace.clone(),
            name: key.name.clone(),
            action: Action::Failed,
        };
        if key.resource == GroupResource::new("", "namespaces") {
            return Attempt::Done(self.namespace(key, &object).await.map(|(name, action)| Done {
                name,
                action,
                ..done
            }));
        }
        if is_completed(&key.resource, &object) {
            return Attempt::Done(None);
        }
        match self.write(&source, target_key.clone(), object).await {
            Ok(action) => done.action = action,
            Err(Refused::Reported) => {}
            Err(Refused::Because(e)) if !last && can_pass(&e) => return Attempt::Later(source, e),
            Err(Refused::Because(e)) => {
                self.error(&target_key, &format!("error restoring {target_key}: {}", e.failure));
            }
        }
        Attempt::Done(Some(done))
    }

    /// A namespace object: its target is ensured. One that was there is left untouched and not listed.
    async fn namespace(&self, key: &ObjectKey, object: &Value) -> Option<(String, Action)> {
        let target = self.restore.spec.namespace_mapping.get(&key.name).unwrap_or(&key.name);
        match self.namespaces.ensure(target, Some(object), &self.env).await {
            Ok(true) => Some((target.clone(), Action::Created)),
            Ok(false) => None,
            Err(e) => {
                self.env.journal.error(&Place::Velero, e);
                Some((target.clone(), Action::Failed))
            }
        }
    }

    async fn write(&self, source: &Source, key: ObjectKey, from_backup: Value) -> Result<Action, Refused> {
        if is_mirror_pod(&key.resource, &from_backup) || is_made_by_controllers(&key) {
            return Ok(Action::Skipped);
        }
        self.ensure_namespace(&source.key, &key).await?;
        let mut item = from_backup.clone();
        let status = strip(&mut item);
        let mut item =
            match self.actions.run(&key.resource, key.namespace.as_deref(), item, &from_backup, &self.restore).await {
                Ok(Applied::Go { item, additional }) => {
                    self.additional(&source.key, additional).await;
                    item
                }
                Ok(Applied::Skip) => return Ok(Action::Skipped),
                Err(e) => {
                    self.error(&key, &format!("error preparing {key}: {e}"));
                    return Err(Refused::Reported);
                }
            };
        match (key.resource.group.as_str(), key.resource.resource.as_str()) {
            ("", "persistentvolumes") if self.provisioned.contains(&key.name) => return Ok(Action::Skipped),
            ("", "persistentvolumes") => reset_volume(&mut item, &self.restore.spec.namespace_mapping),
            ("", "persistentvolumeclaims") => reset_claim(&mut item, &self.provisioned),
            _ => {}
        }
        let Some(resource) = self.resource_of(&key, &item) else {
            let version = item["apiVersion"].as_str().unwrap_or_default().to_owned();
            self.error(
                &key,
                &format!("error restoring {key}: the cluster does not serve {} in {version}", key.resource),
            );
            return Err(Refused::Reported);
        };
        let owners = decide(&from_backup["metadata"]["managedFields"]);
        self.finish(&key, &mut item);
        let target = Target { key, source: &source.key, resource };
        if source.exists
            && let Ok(Some(body)) =
                self.env.cluster.get(&target.resource, target.key.namespace.as_deref(), &target.key.name).await
        {
            let existing = serde_json::from_slice::<Value>(&body).unwrap_or_default();
            return self.existing(&target, &item, &existing).await;
        }
        let body = Bytes::from(item.to_string());
        let how = Create { field_manager: &owners.field_manager, dry_run: false };
        let namespace = target.key.namespace.as_deref();
        match self.env.cluster.create(&target.resource, namespace, &target.key.name, body, how).await {
            Ok(_) => {
                self.after_create(&target, &owners, &from_backup, status.as_ref()).await;
                Ok(Action::Created)
            }
            Err(e) => self.not_created(&target, &item, e).await,
        }
    }

    async fn ensure_namespace(&self, source: &ObjectKey, target: &ObjectKey) -> Result<(), Refused> {
        let (Some(original), Some(namespace)) = (&source.namespace, &target.namespace) else { return Ok(()) };
        // The namespace of the backup is read only for who comes first.
        let object = if self.namespaces.is_known(namespace) {
            None
        } else {
            let key = ObjectKey::new(GroupResource::new("", "namespaces"), None, original.as_str());
            self.load(&key).await.and_then(|body| serde_json::from_slice::<Value>(&body).ok())
        };
        self.namespaces.ensure(namespace, object.as_ref(), &self.env).await.map(drop).map_err(|e| {
            self.env.journal.error(&Place::Velero, e);
            Refused::Reported
        })
    }

    /// Namespace and labels of the restored object (restore.md 2.8 steps 12 and 13).
    fn finish(&self, key: &ObjectKey, item: &mut Value) {
        let Some(metadata) = item.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        metadata.remove("managedFields");
        if let Some(namespace) = &key.namespace {
            metadata.insert("namespace".to_owned(), namespace.as_str().into());
        }
        let labels = metadata.entry("labels").or_insert_with(|| Value::Object(Map::new()));
        if !labels.is_object() {
            *labels = Value::Object(Map::new());
        }
        labels[well_known::LABEL_BACKUP_NAME] = label_value(&self.restore.spec.backup_name).into();
        labels[well_known::LABEL_RESTORE_NAME] = label_value(&self.restore.metadata.name).into();
    }

    /// Restores what an action named, before the object itself. Depth first; an object that was begun is not waited
    /// for, so a circle ends.
    fn additional<'a>(&'a self, parent: &'a ObjectKey, keys: Vec<ObjectKey>) -> BoxFuture<'a, ()> {
        async move {
            for key in keys {
                let place = crate::read::filter_namespace(&key);
                if !self.filter.includes_additional(&key.resource, place) || !self.begin(&key) {
                    continue;
                }
                let Some(body) = self.load(&key).await else {
                    let place = Place::of(self.target_namespace(parent).as_deref());
                    self.env.journal.warn(&place, format!("{key}, which {parent} needs, is not in the backup"));
                    continue;
                };
                if let Attempt::Done(Some(done)) = self.attempt(Source { key, body, exists: false }, true).await {
                    self.extra.lock().unwrap_or_else(PoisonError::into_inner).push(done);
                }
            }
        }
        .boxed()
    }

    async fn load(&self, key: &ObjectKey) -> Option<Bytes> {
        let row = *self.rows.get(&key.digest())?;
        let mut reading = JoinSet::new();
        let mut contents = self.archive.read(vec![row], &mut reading);
        contents.recv().await?.ok().map(|item| item.body)
    }

    async fn after_create(&self, target: &Target<'_>, owners: &Owners, from_backup: &Value, status: Option<&Value>) {
        let Target { key, source, resource } = target;
        let namespace = key.namespace.as_deref();
        if let Some(status) = status
            && self.wants_status(source, from_backup)
        {
            let patch = Bytes::from(json!({ "status": status }).to_string());
            let subresource = resource.has_subresource("status").then_some("status");
            let written =
                self.env.cluster.patch(resource, namespace, &key.name, subresource, PatchKind::Merge, patch).await;
            if let Err(e) = written {
                self.warning(key, &format!("status of {key} could not be restored: {}", e.failure));
            }
        }
        if owners.second_write {
            let managed_fields = &from_backup["metadata"]["managedFields"];
            let patch = Bytes::from(json!({"metadata": {"managedFields": managed_fields}}).to_string());
            let written = self.env.cluster.patch(resource, namespace, &key.name, None, PatchKind::Merge, patch).await;
            match written {
                Ok(_) => {}
                Err(e) if e.is_not_found() => {
                    self.warning(key, &format!("error restoring managedFields of {key}: {}", e.failure));
                }
                Err(e) => self.error(key, &format!("error restoring managedFields of {key}: {}", e.failure)),
            }
        }
        if key.resource.resource == "customresourcedefinitions"
            && let Err(e) = established(resource, &key.name, self.resource_timeout, &self.env).await
        {
            self.error(key, &e);
        }
    }

    /// The annotation on the object decides, then the restore's list of types (restore.md 2.14).
    fn wants_status(&self, source: &ObjectKey, from_backup: &Value) -> bool {
        let annotation = from_backup["metadata"]["annotations"][well_known::ANNOTATION_RESTORE_STATUS].as_str();
        match annotation.map(|v| v.trim().to_lowercase()).as_deref() {
            Some("true") => true,
            Some("false") => false,
            _ => self.filter.restores_status(&source.resource),
        }
    }

    /// The object is there already, or it was refused.
    async fn not_created(&self, target: &Target<'_>, desired: &Value, error: ClusterError) -> Result<Action, Refused> {
        let Target { key, resource, .. } = target;
        match self.env.cluster.get(resource, key.namespace.as_deref(), &key.name).await {
            Ok(Some(body)) => {
                let existing = serde_json::from_slice::<Value>(&body).unwrap_or_default();
                self.existing(target, desired, &existing).await
            }
            Ok(None) => Err(Refused::Because(Box::new(error))),
            Err(e) => {
                self.error(key, &format!("error restoring {key}: {}; reading it: {}", error.failure, e.failure));
                Err(Refused::Reported)
            }
        }
    }

    async fn existing(&self, target: &Target<'_>, desired: &Value, existing: &Value) -> Result<Action, Refused> {
        let Target { key, resource, .. } = target;
        let Some(difference) = crate::update::patch(desired, existing) else { return Ok(Action::Skipped) };
        let policy = &self.restore.spec.existing_resource_policy;
        let patch = if key.resource == GroupResource::new("", "serviceaccounts") {
            merge_service_account(desired, existing)
        } else if *policy == ExistingResourcePolicy::Update {
            Some(difference)
        } else {
            // compat: two wordings, as Velero's; scripts look for them.
            let subject = match policy {
                ExistingResourcePolicy::None => format!("{} {:?}", resource.kind, key.name),
                _ => format!("{}:{}", resource.kind, key.name),
            };
            self.warning(
                key,
                &format!(
                    "could not restore, {subject} already exists. Warning: the in-cluster version is different than the backed-up version"
                ),
            );
            None
        };
        let Some(patch) = patch else { return Ok(Action::Skipped) };
        let body = Bytes::from(patch.to_string());
        let namespace = key.namespace.as_deref();
        match self.env.cluster.patch(resource, namespace, &key.name, None, PatchKind::Merge, body).await {
            Ok(_) => Ok(Action::Updated),
            Err(e) => {
                self.warning(key, &format!("could not update {key} to match the backup: {}", e.failure));
                Ok(Action::Failed)
            }
        }
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

/// Why an object was not written.
enum Refused {
    /// The journal has it.
    Reported,
    /// The server's word; nobody has reported it yet.
    Because(Box<ClusterError>),
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
