//! The reasons for which nothing begins with an object.

use super::key::{Key, Subject};
use crate::options::Controller;
use jiff::Timestamp;
use lifeboat_api::NamespacedName;
use lifeboat_lifecycle::phase::expiry::Obstacle;
use lifeboat_lifecycle::phase::keep::Keeper;
use lifeboat_lifecycle::phase::queue::Blocked;
use tokio::time::Instant;

/// An object for which nothing begins now, and what it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) subject: Subject,
    pub(super) why: Reason,
}

/// The reason for which an object waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Work on it runs.
    Runs(Key),
    /// The same thing is worked on by other work, or will be by a step of the same plan.
    Excluded(Key),
    /// It has failed so many times in a row, and is tried again at this moment.
    Failed { times: u32, until: Instant },
    /// It was looked at, and there is nothing to do with it before this moment.
    Paused(Instant),
    /// As many tasks of its kind (and of its location) run as may run at once.
    NoPlace { run: usize, most: usize },
    /// It is due at this time.
    Due(Timestamp),
    /// It waits in the queue of backups, at this position.
    Queued { position: usize, why: Blocked },
    /// It is a backup that has left the queue and failed again and again, or a restore, and has no place to run.
    NoSlot(Blocked),
    /// This location was never validated, which is a matter of a moment.
    Unvalidated(NamespacedName),
    /// The first sync of this location, which is the default, goes first until this moment.
    FirstSync { location: NamespacedName, until: Instant },
    /// The part of the server that would do it is left out.
    Disabled(Controller),
    /// It is being deleted, which is left to the API server and to those of whom these finalizers are.
    Deleted { finalizers: Vec<String> },
    /// It cannot be read, for this reason, and there is nothing in it by which it could be refused.
    Unreadable(String),
    /// It is a schedule of which a run is due since this time, and this backup of it has not ended.
    EarlierRun { backup: NamespacedName, since: Timestamp },
    /// It is a backup whose time is over, and nothing can be deleted from its location.
    Blocked(Obstacle),
    /// It is a backup whose hold was set or released here, and nothing can be written into its location, so that no other cluster
    /// on the bucket knows of it.
    Unrecorded(Obstacle),
    /// It is a backup whose time is over, and this restore reads it.
    ReadBy(NamespacedName),
    /// It is a backup whose time is over, and the cluster with this UID, which has made it, lets it go.
    GoesElsewhere(String),
    /// It is a request to delete a backup, and waits for this restore of it.
    Restored(NamespacedName),
    /// It is a request to delete a backup, and waits for these claims from its snapshots.
    NeededByClaims { claims: String, way_out: String },
    /// It is a backup whose time would be over, and this keeps it.
    KeptBy(Vec<Keeper>),
}

impl Reason {
    /// Which of two reasons says more about an object, the lowest rank first: what holds back a step that is due already, then
    /// the time of a step that will be, then a part of the server that is disabled, then what only a user or another program
    /// can change.
    pub(super) fn rank(&self) -> (u8, Option<Timestamp>) {
        match self {
            Self::Due(at) => (1, Some(*at)),
            Self::Disabled(_) => (2, None),
            Self::Deleted { .. }
            | Self::Unreadable(_)
            | Self::Blocked(_)
            | Self::Unrecorded(_)
            | Self::GoesElsewhere(_)
            | Self::KeptBy(_) => (3, None),
            _ => (0, None),
        }
    }
}
