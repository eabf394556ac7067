//! The fast lane: decides about objects that no action looks at, and gives their bytes on as they came.

use crate::collect::spool::Batch;
use crate::collect::tally::Tally;
use crate::output::entry::{ArchiveEntry, Entries, tell_too_deep};
use crate::output::limits::tell_too_large;
use crate::request::scope::Scope;
use crate::stage_error::StageError;
use lifeboat_object::{ApiResource, GroupResource, Item, ObjectKey, is_too_deep};
use lifeboat_operation::Operation;
use lifeboat_store::{StreamReceiver, StreamSender};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// The number of objects of each type that were left out, by reason.
pub(crate) type LeftOut = BTreeMap<(GroupResource, &'static str), u64>;

/// Namespaces and types of which something is in the backup.
#[derive(Debug, Default)]
pub(crate) struct SavedScopes {
    /// Namespaces that hold an object.
    pub(crate) namespaces: HashSet<String>,
    /// Types of objects.
    pub(crate) types: BTreeSet<String>,
    /// The type of the last object, which is in that set.
    last_type: Option<Arc<ApiResource>>,
}

impl SavedScopes {
    pub(crate) fn note(&mut self, item: &Item) {
        if let Some(namespace) = &item.head.namespace
            && !self.namespaces.contains(namespace)
        {
            self.namespaces.insert(namespace.clone());
        }
        if !self.last_type.as_ref().is_some_and(|last| Arc::ptr_eq(last, &item.resource)) {
            self.types.insert(item.resource.group_resource().to_string());
            self.last_type = Some(Arc::clone(&item.resource));
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.namespaces.extend(other.namespaces);
        self.types.extend(other.types);
    }
}

/// The state of the fast lane.
pub(crate) struct FastLane {
    scope: Arc<Scope>,
    operation: Operation,
    tally: Arc<Tally>,
    /// Objects that went through, by digest: a list that was interrupted may bring one twice.
    seen: HashSet<[u8; 16]>,
    pub(crate) left_out: LeftOut,
    pub(crate) used: SavedScopes,
}

impl FastLane {
    pub(crate) fn new(scope: Arc<Scope>, operation: Operation, tally: Arc<Tally>) -> Self {
        let (seen, left_out, used) = Default::default();
        Self { scope, operation, tally, seen, left_out, used }
    }

    /// Takes all batches, until their end is said. The end of its own is for the caller to say.
    pub(crate) async fn run(
        mut self,
        mut batches: StreamReceiver<Batch>,
        sender: &StreamSender<Entries>,
    ) -> Result<Self, StageError> {
        while let Some(batch) = batches.next().await? {
            if self.operation.cancel.is_cancelled() {
                return Err(StageError::OperationEnded);
            }
            let entries = batch.items.into_iter().filter_map(|item| self.take_listed(item)).collect();
            sender.send(Entries { entries, budget: Some(batch.budget) }).await?;
        }
        Ok(self)
    }

    /// Takes an object that a list has brought. An object that was not asked for may still be asked for later.
    fn take_listed(&mut self, item: Item) -> Option<ArchiveEntry> {
        if let Err(reason) = self.scope.includes_listed(&item) {
            *self.left_out.entry((item.resource.group_resource(), reason)).or_default() += 1;
            self.tally.settled(1);
            return None;
        }
        self.take(item, false)
    }

    /// Returns true if the object went through already.
    pub(crate) fn has_seen(&self, key: &ObjectKey) -> bool {
        self.seen.contains(&key.digest())
    }

    /// The entry to write for an object; `None` when it is out of scope or was saved before. An object that must be
    /// included is in scope unless it is being deleted.
    pub(crate) fn take(&mut self, item: Item, must_include: bool) -> Option<ArchiveEntry> {
        let entry = self.entry(item, must_include);
        if entry.is_none() {
            self.tally.settled(1);
        }
        entry
    }

    fn entry(&mut self, item: Item, must_include: bool) -> Option<ArchiveEntry> {
        if let Err(reason) = self.scope.includes(&item, must_include) {
            *self.left_out.entry((item.resource.group_resource(), reason)).or_default() += 1;
            return None;
        }
        if !self.seen.insert(version_digest(&item)) {
            return None;
        }
        self.used.note(&item);
        tell_too_large(&item, &self.operation.journal);
        if is_too_deep(&item.body) {
            tell_too_deep(&item.key(), &self.operation.journal);
        }
        Some(ArchiveEntry::as_sent(item))
    }
}

/// Each version of an object goes through once; by the digest of its key the preferred one is asked for.
fn version_digest(item: &Item) -> [u8; 16] {
    let mut digest = item.digest();
    if !item.resource.preferred {
        let of_version = Sha256::digest([&digest[..], item.resource.version.as_bytes()].concat());
        digest.copy_from_slice(&of_version[..16]);
    }
    digest
}
