//! Restores one object (restore.md 2.8).

use crate::apply::Actions;
use crate::check::Lookout;
use crate::env::Env;
use crate::hold_back::lost_claim;
use crate::namespaces::Namespaces;
use crate::read::Kinds;
use crate::retry::can_pass;
use crate::write::Refused;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use lifeboat_api::Restore;
use lifeboat_cluster::ClusterError;
use lifeboat_object::{Catalog, GroupResource, ObjectKey, Place};
use lifeboat_select::RestoreFilter;
use lifeboat_store::Archive;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    /// Finished.
    Done {
        /// What to list; nothing for completed pods and jobs.
        done: Option<Done>,
        /// Whether a run again has nothing to do and nothing to say about it.
        settled: bool,
    },
    /// It came as an additional item of another object.
    Elsewhere,
    /// Refused for a reason that can pass; nothing was reported yet.
    Later(Source, Box<ClusterError>),
}

/// An object out of the archive.
#[derive(Clone)]
pub(crate) struct Source {
    /// Its number among the archive's rows.
    pub(crate) row: usize,
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
    pub(crate) namespaces: Arc<Namespaces>,
    pub(crate) archive: Archive,
    /// Rows by digest of the key, for additional items.
    pub(crate) rows: Arc<HashMap<[u8; 16], usize>>,
    /// Volumes that are provisioned anew.
    pub(crate) provisioned: Arc<BTreeSet<String>>,
    pub(crate) notes: Arc<Notes>,
    pub(crate) kinds: Arc<Kinds>,
    /// Whether an earlier run of this restore was cut off.
    pub(crate) resumed: bool,
    pub(crate) resource_timeout: Duration,
    pub(crate) env: Env,
}

/// What is noted of objects on the way, by all that are restored at the same time.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Objects that an attempt has begun; an additional item comes here before its own turn.
    begun: Mutex<HashSet<[u8; 16]>>,
    /// What was done with additional items.
    extra: Mutex<Vec<Done>>,
    /// Objects (target keys) that a message was about.
    noted: Mutex<HashSet<[u8; 16]>>,
    /// Claims that could not be restored, by target namespace.
    lost_claims: Mutex<BTreeMap<String, BTreeSet<String>>>,
}

impl Context {
    /// Takes an object that needs nothing more: it is in the very state of the backup, or an earlier run did this with
    /// it. Nothing is read or written.
    pub(crate) fn settled(&self, key: &ObjectKey, ended: bool, action: Action) -> Option<Done> {
        if !self.begin(key) || ended {
            return None;
        }
        let (api_version, kind) = self.kinds.of(&key.resource);
        Some(Done { api_version, kind, namespace: self.target_namespace(key), name: key.name.clone(), action })
    }

    /// Restores one object in its own turn. What goes wrong is in the journal, unless it may pass: then the caller
    /// decides whether there is a later turn (`last` says that there is none).
    pub(crate) async fn restore(&self, source: Source, again: bool, last: bool) -> Attempt {
        if !self.begin(&source.key) && !again {
            return Attempt::Elsewhere;
        }
        self.attempt(source, last).await
    }

    /// What was done with additional items since the last call.
    pub(crate) fn take_extra(&self) -> Vec<Done> {
        std::mem::take(&mut lock(&self.notes.extra))
    }

    fn begin(&self, key: &ObjectKey) -> bool {
        lock(&self.notes.begun).insert(key.digest())
    }

    /// Where to look for what is there already.
    pub(crate) fn lookout(&self) -> Lookout<'_> {
        Lookout {
            archive: &self.archive,
            catalog: &self.catalog,
            namespace_mapping: &self.restore.spec.namespace_mapping,
            env: &self.env,
        }
    }

    /// Where an object of the backup goes.
    pub(crate) fn target_namespace(&self, key: &ObjectKey) -> Option<String> {
        let namespace = key.namespace.as_ref()?;
        Some(self.restore.spec.namespace_mapping.get(namespace).unwrap_or(namespace).clone())
    }

    /// What an object of the backup becomes.
    pub(crate) fn target_of(&self, key: &ObjectKey) -> ObjectKey {
        ObjectKey { namespace: self.target_namespace(key), ..key.clone() }
    }

    async fn attempt(&self, source: Source, last: bool) -> Attempt {
        let key = &source.key;
        let target_key = self.target_of(key);
        let object: Value = match serde_json::from_slice(&source.body) {
            Ok(object) => object,
            Err(e) => {
                self.error(&target_key, &format!("error decoding {key}: {e}"));
                return Attempt::Done { done: None, settled: false };
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
            let ensured = self.namespace(key, &object).await;
            let settled = ensured.as_ref().is_none_or(|(_, action)| *action != Action::Failed);
            return Attempt::Done { done: ensured.map(|(name, action)| Done { name, action, ..done }), settled };
        }
        if is_completed(&key.resource, &object) {
            return Attempt::Done { done: None, settled: true };
        }
        match self.write(&source, target_key.clone(), object).await {
            Ok(action) => done.action = action,
            Err(Refused::Reported) => self.lost(&target_key),
            Err(Refused::Because(e)) if !last && can_pass(&e) => return Attempt::Later(source, e),
            Err(Refused::Because(e)) => {
                self.error(&target_key, &format!("error restoring {target_key}: {}", e.failure));
                self.lost(&target_key);
            }
        }
        let settled = done.action != Action::Failed && !lock(&self.notes.noted).contains(&target_key.digest());
        Attempt::Done { done: Some(done), settled }
    }

    /// Remembers a claim that could not be restored.
    fn lost(&self, key: &ObjectKey) {
        if key.resource == GroupResource::new("", "persistentvolumeclaims") {
            let namespace = key.namespace.clone().unwrap_or_default();
            lock(&self.notes.lost_claims).entry(namespace).or_default().insert(key.name.clone());
        }
    }

    /// The claim whose loss holds a StatefulSet back.
    pub(crate) fn held_back_by(&self, key: &ObjectKey, object: &Value) -> Option<String> {
        if key.resource != GroupResource::new("apps", "statefulsets") {
            return None;
        }
        let lost = lock(&self.notes.lost_claims);
        lost_claim(object, lost.get(key.namespace.as_deref()?)?).map(str::to_owned)
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

    pub(crate) async fn ensure_namespace(&self, source: &ObjectKey, target: &ObjectKey) -> Result<(), Refused> {
        self.try_ensure_namespace(source, target).await.map_err(|e| {
            self.env.journal.error(&Place::Velero, e);
            Refused::Reported
        })
    }

    /// Makes sure that the namespace of an object is there; the error is for who reports it.
    pub(crate) async fn try_ensure_namespace(&self, source: &ObjectKey, target: &ObjectKey) -> Result<(), String> {
        let (Some(original), Some(namespace)) = (&source.namespace, &target.namespace) else { return Ok(()) };
        // The namespace of the backup is read only for who comes first.
        let object = if self.namespaces.is_known(namespace) {
            None
        } else {
            let key = ObjectKey::new(GroupResource::new("", "namespaces"), None, original.as_str());
            self.load(&key).await.and_then(|body| serde_json::from_slice::<Value>(&body).ok())
        };
        self.namespaces.ensure(namespace, object.as_ref(), &self.env).await.map(drop)
    }

    /// Restores what an action named, before the object itself. Depth first; an object that was begun is not waited
    /// for, so a circle ends.
    pub(crate) fn additional<'a>(&'a self, parent: &'a ObjectKey, keys: Vec<ObjectKey>) -> BoxFuture<'a, ()> {
        async move {
            for key in keys {
                let place = crate::read::filter_namespace(&key);
                if !self.filter.includes_additional(&key.resource, place) || !self.begin(&key) {
                    continue;
                }
                let Some(body) = self.load(&key).await else {
                    self.warning(
                        &self.target_of(parent),
                        &format!("{key}, which {parent} needs, is not in the backup"),
                    );
                    continue;
                };
                let row = self.rows.get(&key.digest()).copied().unwrap_or(usize::MAX);
                let attempt = self.attempt(Source { row, key, body, exists: false }, true).await;
                if let Attempt::Done { done: Some(done), .. } = attempt {
                    lock(&self.notes.extra).push(done);
                }
            }
        }
        .boxed()
    }

    async fn load(&self, key: &ObjectKey) -> Option<Bytes> {
        let row = *self.rows.get(&key.digest())?;
        let mut reading = JoinSet::new();
        let mut contents = self.archive.read(vec![row], &mut reading);
        contents.next().await.ok()?.map(|item| item.body)
    }

    pub(crate) fn error(&self, key: &ObjectKey, message: &str) {
        lock(&self.notes.noted).insert(key.digest());
        self.env.journal.error(&Place::of(key.namespace.as_deref()), message);
    }

    pub(crate) fn warning(&self, key: &ObjectKey, message: &str) {
        lock(&self.notes.noted).insert(key.digest());
        self.env.journal.warn(&Place::of(key.namespace.as_deref()), message);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Pods and jobs that have ended are not started again (restore.md 2.8 step 4).
pub(crate) fn is_completed(resource: &GroupResource, object: &Value) -> bool {
    match (resource.group.as_str(), resource.resource.as_str()) {
        ("", "pods") => matches!(object["status"]["phase"].as_str(), Some("Failed" | "Succeeded")),
        ("batch", "jobs") => object["status"]["completionTime"].as_str().is_some_and(|t| !t.is_empty()),
        _ => false,
    }
}
