//! An attempt at one object, and its outcome.

use crate::state::item_result::ItemResult;
use bytes::Bytes;
use lifeboat_object::ObjectKey;
use tokio::time::Instant;

/// The outcome of an attempt at one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Finished.
    Done {
        /// The outcome for the object.
        action: ItemResult,
        /// True when the resource list names it; completed pods and jobs are not in that list.
        listed: bool,
        /// True when a resumed restore has nothing more to do and nothing more to report for it.
        settled: bool,
    },
    /// It came as an additional item of another object.
    Elsewhere,
    /// It may go well later; nothing was reported yet.
    Later(Obstacle),
}

/// The condition that keeps an object from being restored for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// It was refused, could not be read, or the restore ends early: that can pass.
    Passing,
    /// Its namespace is not there yet.
    NamespaceMissing,
    /// The one in the cluster is being deleted.
    Leaving,
    /// It needs to wait for others, and too many do.
    Crowded,
    /// A claim that it mounts is being filled through another pod.
    Filling,
}

impl Obstacle {
    /// Returns true if the object gets the whole time for retries once this obstacle is gone, however long that took.
    pub(crate) fn restarts_patience(self) -> bool {
        matches!(self, Self::Leaving | Self::Crowded | Self::Filling)
    }
}

impl Attempt {
    /// It could not be restored.
    pub(crate) const FAILED: Self = Self::Done { action: ItemResult::Failed, listed: true, settled: false };
}

/// An object out of the archive.
pub(crate) struct SourceObject {
    /// Its number among the archive's rows.
    pub(crate) row: usize,
    /// Its key in the backup.
    pub(crate) key: ObjectKey,
    pub(crate) body: Bytes,
    /// True when it was found in the cluster: then it is read before it is created.
    pub(crate) exists: bool,
}

/// Which attempt at an object this is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AttemptNumber {
    /// It is not the first.
    pub(crate) again: bool,
    /// An object of this name was found in the cluster.
    pub(crate) exists: bool,
    /// The object came as an additional item: its own turn counts it.
    pub(crate) extra: bool,
    /// When the object is given up; not known before its first turn in the queue.
    pub(crate) until: Option<Instant>,
    /// There is no later one.
    pub(crate) last: bool,
}
