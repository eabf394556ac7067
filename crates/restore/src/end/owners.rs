//! Restores owner references, when all objects have been restored: an owner has another UID than in the backup, and may
//! have been restored after the objects that it owns.
//!
//! Nothing is noted of it: done again, it changes nothing in an object that has its owners.

use crate::object::owner_references::{Merged, OwnerReference, merge, name};
use crate::state::item_result::{HandledItem, ItemResult};
use crate::state::retry::can_pass;
use crate::state::terminating::TerminatingObject;
use crate::walk::context::RestoreContext;
use backon::{BackoffBuilder, ExponentialBuilder};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use lifeboat_cluster::{ClusterError, MergePatch};
use lifeboat_object::{ApiResource, ObjectKey, ResultScope};
use lifeboat_store::{ArchiveItem, Contents};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Time for retries of an object whose owners are refused for a reason that can pass.
const PATIENCE: Duration = Duration::from_secs(60);
/// The first pause; each one after it is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Gives objects their owners back.
pub(crate) struct Owners<'a> {
    context: &'a RestoreContext,
    /// Rows of objects that are there already, and that an earlier run may have changed before it was cut off.
    perhaps_changed: BTreeSet<usize>,
    /// Set when an object was tried again in vain: the others do not wait as long for the same answer.
    in_vain: AtomicBool,
    /// Number of objects that were looked at.
    ended: AtomicUsize,
}

/// The outcome of an attempt at one object.
enum OwnerOutcome {
    /// It has its owners, except some that are missing for these reasons, for people.
    Except(Vec<String>),
    /// It is not in the cluster any more, or it goes.
    Gone,
    /// The restore has not written it.
    NotOurs,
}

impl<'a> Owners<'a> {
    /// For a restore that begins, or that goes on where an earlier run was cut off.
    pub(crate) fn new(context: &'a RestoreContext) -> Self {
        let (in_vain, ended) = (AtomicBool::default(), AtomicUsize::default());
        Self { context, perhaps_changed: BTreeSet::new(), in_vain, ended }
    }

    /// Gives the objects among `with_owners`, which are rows of the archive in ascending order, their owners back, as far as the
    /// restore has written them.
    pub(crate) async fn give_back(mut self, with_owners: &[usize], done: &[HandledItem], is_resumed: bool) {
        let mut rows = Vec::new();
        for one in done.iter().filter(|one| with_owners.binary_search(&one.row).is_ok()) {
            match one.action {
                ItemResult::Created | ItemResult::Updated | ItemResult::Recreated => rows.push(one.row),
                ItemResult::Skipped if is_resumed => {
                    rows.push(one.row);
                    self.perhaps_changed.insert(one.row);
                }
                ItemResult::Skipped | ItemResult::Differs | ItemResult::Removed | ItemResult::Failed => {}
            }
        }
        if rows.is_empty() {
            return;
        }
        let count = rows.len();
        self.context.env.operation.journal.info("Restoring owner references", &[("objects", &count.to_string())]);
        let mut reading = JoinSet::new();
        let contents = self.context.scope.archive.read(rows, &mut reading);
        let most = self.context.env.cluster.pace().most();
        let all = self.items(contents).for_each_concurrent(most, |item| self.adopt(item));
        // What is cut off in the middle does no harm: a run again finds out what there is.
        tokio::select! {
            biased;
            () = self.context.stop.wait() => {}
            () = all => {}
        }
        let left = count.saturating_sub(self.ended.load(Ordering::Relaxed));
        if left > 0 {
            let whose = if left == 1 { "1 object has".to_owned() } else { format!("{left} objects have") };
            let why = self.context.stop.why_nothing_is_begun();
            let text = format!("{whose} perhaps not been given the owners of the backup: {why}");
            self.context.env.operation.journal.warn(&ResultScope::Velero, text);
        }
    }

    /// The objects of the backup. An archive that cannot be read any further breaks the restore off.
    fn items(&self, contents: Contents) -> impl Stream<Item = ArchiveItem> + Send + '_ {
        stream::unfold(contents, |mut contents| async {
            match contents.next().await {
                Ok(item) => item.map(|item| (item, contents)),
                Err(e) => {
                    self.context.stop.break_off(e);
                    None
                }
            }
        })
    }

    /// Restores the owner references of one object, and reports those that are missing.
    async fn adopt(&self, item: ArchiveItem) {
        if let Some(row) = self.context.scope.archive.row(item.row) {
            let key = self.context.scope.target_of(&row.key());
            let place = ResultScope::of(key.namespace.as_deref());
            let journal = &self.context.env.operation.journal;
            let warn = |why: &str| {
                journal.warn(&place, format!("{key} was not given all owners that it had in the backup: {why}"));
            };
            match self.adopt_with_patience(&key, &item).await {
                Ok(OwnerOutcome::NotOurs) => {}
                Ok(OwnerOutcome::Gone) => warn("it is not there any more, or it is being deleted"),
                Ok(OwnerOutcome::Except(why)) if why.is_empty() => {}
                Ok(OwnerOutcome::Except(why)) => warn(&why.join("; ")),
                Err(why) => journal.error(&place, format!("error restoring the owners of {key}: {why}")),
            }
        }
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes attempts at one object as long as that can help; the error is for people.
    async fn adopt_with_patience(&self, key: &ObjectKey, item: &ArchiveItem) -> Result<OwnerOutcome, String> {
        let from_backup: Value = serde_json::from_slice(&item.body).unwrap_or_default();
        let references = OwnerReference::all(&key.resource, &from_backup);
        if references.is_empty() {
            return Ok(OwnerOutcome::Except(Vec::new()));
        }
        let resource = self.context.scope.served(key, &from_backup)?;
        let object = Dependent {
            key,
            resource: &resource,
            references: &references,
            is_ours: !self.perhaps_changed.contains(&item.row),
        };
        let until = Instant::now() + PATIENCE;
        let pauses = ExponentialBuilder::default().with_min_delay(FIRST_PAUSE).with_max_delay(LONGEST_PAUSE);
        let mut pauses = pauses.without_max_times().build();
        loop {
            let error = match self.attempt(&object).await {
                Ok(adopted) => return Ok(adopted),
                Err(error) => error,
            };
            // One that has changed meanwhile is no reason to be impatient with others.
            let is_hopeless = self.in_vain.load(Ordering::Relaxed) && !error.is_conflict();
            if !can_pass(&error) || is_hopeless {
                return Err(error.to_string());
            }
            let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
            if Instant::now() + pause > until {
                self.in_vain.fetch_or(!error.is_conflict(), Ordering::Relaxed);
                return Err(error.to_string());
            }
            sleep(pause).await;
        }
    }

    async fn attempt(&self, object: &Dependent<'_>) -> Result<OwnerOutcome, ClusterError> {
        let Dependent { key, resource, references, is_ours } = *object;
        let namespace = key.namespace.as_deref();
        let Some(body) = self.context.env.cluster.get(resource, namespace, &key.name).await? else {
            return Ok(OwnerOutcome::Gone);
        };
        let in_cluster: Value = serde_json::from_slice(&body).unwrap_or_default();
        if TerminatingObject::of(&in_cluster).is_some() {
            return Ok(OwnerOutcome::Gone);
        }
        let metadata = &in_cluster["metadata"];
        if !is_ours && !self.context.scope.has_labels(&in_cluster) {
            return Ok(OwnerOutcome::NotOurs);
        }
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for reference in references {
            match self.owner(key, reference).await? {
                FoundOwner::Reference(owner) if owner["uid"] == metadata["uid"] => {
                    missing.push(format!("{} cannot own itself", name(&owner)));
                }
                FoundOwner::Reference(owner) => found.push(owner),
                FoundOwner::Missing(why) => missing.push(why),
            }
        }
        let Merged { references, left_out } = merge(&in_cluster, found);
        missing.extend(left_out);
        if let Some(references) = references {
            // Only this very object at this very revision gets them.
            let (uid, revision) = (&metadata["uid"], &metadata["resourceVersion"]);
            let patch = json!({"metadata": {"uid": uid, "resourceVersion": revision, "ownerReferences": references}});
            let patch = MergePatch::of(Bytes::from(patch.to_string()));
            self.context.env.cluster.patch(resource, namespace, &key.name, patch).await?;
        }
        Ok(OwnerOutcome::Except(missing))
    }

    /// Looks for an owner in the cluster. It is in the namespace of the object that it owns, or in none.
    async fn owner(&self, key: &ObjectKey, reference: &OwnerReference) -> Result<FoundOwner, ClusterError> {
        let (kind, name) = (reference.kind(), reference.name());
        let Some(resource) = reference.served(&self.context.scope.catalog) else {
            return Ok(FoundOwner::Missing(format!("the cluster does not serve the type of {kind} {name}")));
        };
        let namespace = key.namespace.as_deref().filter(|_| resource.namespaced);
        if resource.namespaced && namespace.is_none() {
            return Ok(FoundOwner::Missing(format!("{kind} {name} lies in a namespace, and it in none")));
        }
        let is_namespace = resource.group_resource().is_namespaces();
        let name = if is_namespace { self.context.scope.namespace(name) } else { name };
        let Some(body) = self.context.env.cluster.get(resource, namespace, name).await? else {
            return Ok(FoundOwner::Missing(format!("{kind} {name} is not in the cluster")));
        };
        let owner: Value = serde_json::from_slice(&body).unwrap_or_default();
        if TerminatingObject::of(&owner).is_some() {
            return Ok(FoundOwner::Missing(format!("{kind} {name} is being deleted")));
        }
        let uid = owner["metadata"]["uid"].as_str().unwrap_or_default();
        Ok(FoundOwner::Reference(reference.to(resource, name, uid)))
    }
}

/// The result of the look for one owner.
enum FoundOwner {
    /// The reference to it, with its UID in the cluster.
    Reference(Value),
    /// The reason why there is none, for people.
    Missing(String),
}

/// A restored object that had owners in the backup.
#[derive(Clone, Copy)]
struct Dependent<'a> {
    key: &'a ObjectKey,
    resource: &'a ApiResource,
    references: &'a [OwnerReference],
    /// Set when the restore has certainly written it.
    is_ours: bool,
}

#[cfg(test)]
mod tests;
