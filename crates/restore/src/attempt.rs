//! An attempt at one object, and how it ended.

use crate::action::Action;
use bytes::Bytes;
use lifeboat_object::ObjectKey;
use tokio::time::Instant;

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
    Later(Obstacle),
}

/// What keeps an object from being restored for now.
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
}

impl Obstacle {
    /// Whether an object has all the time before it once this is out of its way, however long that took.
    pub(crate) fn restarts_patience(self) -> bool {
        matches!(self, Self::Leaving | Self::Crowded)
    }
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

/// Which attempt at an object this is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    /// It is not the first.
    pub(crate) again: bool,
    /// One of this name was seen in the cluster.
    pub(crate) exists: bool,
    /// The object came as an additional item: its own turn counts it.
    pub(crate) extra: bool,
    /// When the object is given up; not known before its first turn in the queue.
    pub(crate) until: Option<Instant>,
    /// There is no later one.
    pub(crate) last: bool,
}
