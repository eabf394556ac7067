//! Restores one object (restore.md 2.8).

use crate::action::Action;
use crate::apply::Actions;
use crate::aside::Aside;
use crate::check::{Lookout, Presence, Seen};
use crate::env::Env;
use crate::hold_back::lost_claim;
use crate::kept::Kept;
use crate::namespaces::{Missing, Namespaces};
use crate::notes::Notes;
use crate::operations::Operations;
use crate::read::{Facts, Kinds, State};
use crate::retry::can_pass;
use crate::running::Turn;
use crate::stop::Stop;
use crate::versions::Chosen;
use crate::write::Refused;
use bytes::Bytes;
use lifeboat_api::Restore;
use lifeboat_object::{Catalog, GroupResource, ObjectKey, Place};
use lifeboat_select::RestoreFilter;
use lifeboat_store::Archive;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinError;

/// How an attempt at one object ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Finished.
    Done {
        /// What was done.
        action: Action,
        /// Whether the resource list names it: completed pods and jobs are not there.
        listed: bool,
        /// Whether a run again has nothing to do and nothing to say about it.
        settled: bool,
    },
    /// It came as an additional item of another object.
    Elsewhere,
    /// It may go well later; nothing was reported yet.
    Later(Why),
}

/// Why an object is tried again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It was refused, or could not be read, for a reason that can pass.
    Refused,
    /// Its namespace was.
    Namespace,
    /// The one in the cluster is being deleted.
    Leaving,
    /// It needs to wait for others, and too many do.
    Crowded,
}

impl Attempt {
    /// It could not be restored.
    pub(crate) const FAILED: Self = Self::Done { action: Action::Failed, listed: true, settled: false };
}

/// An object out of the archive.
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
    pub(crate) restore: Arc<Restore>,
    pub(crate) catalog: Catalog,
    pub(crate) filter: RestoreFilter,
    pub(crate) actions: Actions,
    /// What actions have begun.
    pub(crate) operations: Arc<Operations>,
    /// What actions have answered about objects that are tried again.
    pub(crate) kept: Arc<Kept>,
    /// Objects that wait for others.
    pub(crate) aside: Arc<Aside>,
    pub(crate) namespaces: Arc<Namespaces>,
    pub(crate) archive: Archive,
    /// The rows of all objects, for additional items.
    pub(crate) chosen: Arc<Chosen>,
    /// Volumes that are provisioned anew.
    pub(crate) provisioned: Arc<BTreeSet<String>>,
    pub(crate) notes: Arc<Notes>,
    pub(crate) kinds: Arc<Kinds>,
    /// Whether an earlier run of this restore was cut off.
    pub(crate) resumed: bool,
    pub(crate) resource_timeout: Duration,
    /// Set when nothing more is to be begun.
    pub(crate) stop: Arc<Stop>,
    pub(crate) env: Env,
}

impl Context {
    /// Whether an object is in the cluster in the very state of the backup, and nobody wants it changed.
    pub(crate) fn stays(&self, target: &ObjectKey, in_backup: State, presence: &Presence) -> bool {
        presence.look(target, in_backup) == Seen::Unchanged && !self.actions.may_change(target)
    }

    /// Takes an object that needs nothing more: it stays as it is, or an earlier run did this with it. Nothing is read or written. Tells whether it is listed.
    pub(crate) fn settled(&self, one: Facts) -> bool {
        self.notes.begin(one.row) && !one.ended
    }

    /// Restores one object in its own turn. What goes wrong is in the journal, unless it may pass and there is a later
    /// turn.
    pub(crate) async fn restore(&self, source: &Source, turn: Turn) -> Attempt {
        if !self.notes.begin(source.row) && !turn.again {
            return Attempt::Elsewhere;
        }
        self.attempt(source, turn.last).await
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

    /// The row of an object of the backup.
    pub(crate) fn find(&self, key: &ObjectKey) -> Option<usize> {
        self.chosen.find(key, |number| self.archive.row(number))
    }

    /// Where an object of the backup goes.
    pub(crate) fn target_namespace(&self, key: &ObjectKey) -> Option<String> {
        Some(self.mapped(key.namespace.as_ref()?).to_owned())
    }

    /// What an object of the backup becomes.
    pub(crate) fn target_of(&self, key: &ObjectKey) -> ObjectKey {
        ObjectKey { namespace: self.target_namespace(key), ..key.clone() }
    }

    /// Restores one object whose turn somebody has taken.
    pub(crate) async fn attempt(&self, source: &Source, last: bool) -> Attempt {
        let key = &source.key;
        let target_key = self.target_of(key);
        let object: Value = match serde_json::from_slice(&source.body) {
            Ok(object) => object,
            Err(e) => {
                self.error(&target_key, &format!("error decoding {key}: {e}"));
                return Attempt::FAILED;
            }
        };
        if key.resource == GroupResource::new("", "namespaces") {
            return self.namespace(key, object, last).await;
        }
        if is_completed(&key.resource, &object) {
            return Attempt::Done { action: Action::Skipped, listed: false, settled: true };
        }
        match self.write(source, target_key.clone(), object).await {
            // It is there, and could not be changed.
            Ok(Action::Failed) => return Attempt::FAILED,
            Ok(action) => {
                let settled = !self.notes.is_noted(&target_key) && self.operations.are_noted(&target_key);
                return Attempt::Done { action, listed: true, settled };
            }
            Err(Refused::Reported) => {}
            Err(Refused::Stopped) => return Attempt::Later(Why::Refused),
            Err(Refused::Crowded) => return Attempt::Later(Why::Crowded),
            Err(Refused::Leaving(leaving)) => {
                match leaving.warning_after(&target_key, self.notes.leaving_wait(source.row)) {
                    None => return Attempt::Later(Why::Leaving),
                    Some(warning) => self.warning(&target_key, &warning),
                }
            }
            Err(Refused::Namespace(Missing::ForNow)) if !last => return Attempt::Later(Why::Namespace),
            Err(Refused::Namespace(_)) => {
                let Some(row) = self.archive.row(source.row) else { return Attempt::FAILED };
                return self.without_namespace(row).await;
            }
            Err(Refused::Because(refusal)) if !last && can_pass(&refusal) => {
                tracing::debug!(%key, %refusal, "refused for now");
                return Attempt::Later(Why::Refused);
            }
            Err(Refused::Because(e)) => {
                self.error(&target_key, &format!("error restoring {target_key}: {}", e.failure));
            }
        }
        self.lost(&target_key);
        Attempt::FAILED
    }

    /// Ends an object whose task died in the middle.
    pub(crate) fn died(&self, row: usize, error: &JoinError) -> Attempt {
        if let Some(key) = self.archive.row(row).map(|row| self.target_of(&row.key())) {
            self.error(&key, &format!("error restoring {key}: the task that was at it died: {error}"));
            self.lost(&key);
        }
        Attempt::FAILED
    }

    /// Remembers a claim that could not be restored.
    pub(crate) fn lost(&self, key: &ObjectKey) {
        if key.resource == GroupResource::new("", "persistentvolumeclaims") {
            self.notes.lose_claim(key.namespace.as_deref().unwrap_or_default(), &key.name);
        }
    }

    /// The claim whose loss holds a StatefulSet back.
    pub(crate) fn held_back_by(&self, key: &ObjectKey, object: &Value) -> Option<String> {
        if key.resource != GroupResource::new("apps", "statefulsets") {
            return None;
        }
        self.notes.lost_claims(key.namespace.as_deref()?, |lost| lost_claim(object, lost).map(str::to_owned))
    }

    pub(crate) fn error(&self, key: &ObjectKey, message: &str) {
        self.notes.note(key);
        self.env.operation.journal.error(&Place::of(key.namespace.as_deref()), message);
    }

    pub(crate) fn warning(&self, key: &ObjectKey, message: &str) {
        self.notes.note(key);
        self.env.operation.journal.warn(&Place::of(key.namespace.as_deref()), message);
    }
}

/// Pods and jobs that have ended are not started again (restore.md 2.8 step 4).
pub(crate) fn is_completed(resource: &GroupResource, object: &Value) -> bool {
    match (resource.group.as_str(), resource.resource.as_str()) {
        ("", "pods") => matches!(object["status"]["phase"].as_str(), Some("Failed" | "Succeeded")),
        ("batch", "jobs") => object["status"]["completionTime"].as_str().is_some_and(|t| !t.is_empty()),
        _ => false,
    }
}
