//! Snapshots of which a deletion cannot tell whether they are gone. CSI drivers answer OK when they are to delete what they do not know:
//! the snapshot of another cluster's backup may be in a storage that the driver here does not reach.

use crate::method::csi::answer::text;
use crate::method::csi::reference::Reference;
use lifeboat_archive::unproven::UnprovenSnapshot;
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};

/// Unproven snapshots that the deletion of a backup has found so far. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Unproven {
    all: Arc<Mutex<Vec<UnprovenSnapshot>>>,
}

impl Unproven {
    /// Takes the snapshots that were found so far, each once.
    #[must_use]
    pub fn take(&self) -> Vec<UnprovenSnapshot> {
        let mut all = std::mem::take(&mut *self.all.lock().unwrap_or_else(PoisonError::into_inner));
        all.sort_by(|a, b| (&a.driver, &a.handle).cmp(&(&b.driver, &b.handle)));
        all.dedup_by(|a, b| (&a.driver, &a.handle) == (&b.driver, &b.handle));
        all
    }

    /// Adds the snapshot of an archived content, by this name of the driver's.
    pub(crate) fn add(&self, content: &Value, handle: &str, why: String) {
        let Reference { namespace, name, .. } = Reference::to_snapshot(content);
        let snapshot = if name.is_empty() { String::new() } else { format!("{namespace}/{name}") };
        let (driver, handle) = (text(content, "/spec/driver").to_owned(), handle.to_owned());
        let one = UnprovenSnapshot { driver, handle, snapshot, why };
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(one);
    }
}

/// The reason when a driver has said OK to the deletion of a snapshot that it may not know.
pub(crate) fn not_seen_before() -> String {
    "the backup is of another cluster, and the driver says that the snapshot is gone without having shown that it knew it: when the driver \
     here does not reach the storage of that cluster, the snapshot is there still"
        .to_owned()
}

/// The reason when an object of somebody else is of the same snapshot, so that both stay.
pub(crate) fn used_by(kind: &str, namespace: &str, name: &str) -> String {
    format!("the {kind} {namespace}/{name}, which is not this backup's, stands for the same snapshot, and both stay")
}

/// The reason when nothing but the name of the backup says whose a snapshot is, so that it stays.
pub(crate) fn only_named() -> String {
    "it has the name of this backup, and not its UID as the other snapshots that the backup has taken: it may be of an earlier backup of \
     this name, and stays"
        .to_owned()
}
