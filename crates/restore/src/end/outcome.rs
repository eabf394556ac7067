//! The outcome of a restore, and the errors with which it did not begin.

use crate::request::settings::ValidationErrors;
use crate::state::item_result::{HandledItem, ItemResult};
use crate::state::operations::Operations;
use crate::state::stop::BrokenOff;
use crate::volumes::restored::RestoredVolumes;
use crate::walk::read::Kinds;
use lifeboat_api::Restore;
use lifeboat_cluster::ClusterError;
use lifeboat_hook::HookTally;
use lifeboat_object::{ObjectKey, Results};
use lifeboat_operation::RecordsError;
use lifeboat_store::{Archive, StoreError};
use lifeboat_volume::fs_backup::FileOutcome;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The outcome of a restore.
#[derive(Debug)]
pub struct Outcome {
    /// The resource in its final state, unless it waits for something ([`Outcome::is_pending`]); of one that broke off, the one
    /// that it has when it is not run again.
    pub restore: Restore,
    /// Warnings and errors.
    pub results: Results,
    /// Files of the restore that could not be stored, each with the reason. What was restored is there.
    pub unstored: Vec<String>,
    /// Number of objects that the resource list names, by their outcome.
    pub done: BTreeMap<ItemResult, u64>,
    /// The reason why it did not come to its end. The checkpoint is saved then, and the next run of the same
    /// restore goes on from there as long as the caller keeps it. `None` when it came to its end, and when the user
    /// cancelled the restore.
    pub broken_off: Option<BrokenOff>,
}

impl Outcome {
    /// Returns true if the restore waits: for operations that actions have begun, whose end
    /// [`crate::look_after_operations`] detects, or for the volumes of its claims. [`crate::end::finalize`] ends it then.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.restore.status.phase.is_some_and(|phase| phase.waits_for_operations() || phase.is_finalizing())
    }
}

/// A restore that did not begin, or lost the cluster.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Refused before anything was done.
    #[error(transparent)]
    Invalid(#[from] ValidationErrors),
    /// The bucket, or an object in it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The cluster as a whole did not answer.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The cluster serves no namespaces.
    #[error("the cluster at {0} does not serve namespaces: is it a Kubernetes API server?")]
    NoNamespaces(String),
    /// It is pinned to a plan, and would do something else now.
    #[error(
        "nothing was changed: the restore is pinned to the plan {pinned}, and the plan is {now} now ({counts}); {place} in the bucket \
         has it: `restore plan --compare` with the plan that you saved says what differs"
    )]
    PlanChanged {
        /// The digest of the plan that it is pinned to.
        pinned: String,
        /// The digest of the plan that it would carry out now.
        now: String,
        /// Number of objects that the plan would create, update and so on, as a text.
        counts: String,
        /// The key of that plan in the bucket.
        place: String,
    },
    /// It is pinned to a plan of more objects than such a restore can hold.
    #[error(
        "nothing was changed: the lines of the plan that the restore is pinned to take more than {most} bytes, and that is the most \
         that it can be held to; restore fewer namespaces or types at once"
    )]
    PlanTooLarge {
        /// The most bytes.
        most: u64,
    },
    /// It is pinned to a plan, and it is not known whether an earlier run of it has begun.
    #[error(
        "whether an earlier run of the restore has begun is not known, because its notes cannot be read; without that it is not held \
         to the plan {pinned}, and this run has changed nothing"
    )]
    Notes {
        /// The digest of the plan.
        pinned: String,
        /// The reason why they cannot be read.
        #[source]
        source: RecordsError,
    },
    /// It is pinned to a plan, and that it begins cannot be noted.
    #[error(
        "that the restore begins cannot be noted; without that a run again would not know that it is held to the plan {pinned}, and \
         this run has changed nothing"
    )]
    Unnoted {
        /// The digest of the plan.
        pinned: String,
        /// The reason why it cannot be noted.
        #[source]
        source: RecordsError,
    },
    /// It is pinned to a plan, was cut off after it had begun, and the plan is not there any more.
    #[error(
        "the restore was cut off after it had begun, and the plan {pinned} that it is pinned to is no longer in the bucket at {place}, \
         or not whole: what it has done stays; make another plan, and another restore of it"
    )]
    PlanLost {
        /// The digest of the plan.
        pinned: String,
        /// The key under which it was.
        place: String,
    },
    /// Stopped by the user.
    #[error("the restore was cancelled before anything was changed in the cluster")]
    Cancelled,
}

impl RestoreError {
    /// Returns true if the same restore may succeed later.
    #[must_use]
    pub fn can_pass(&self) -> bool {
        match self {
            Self::Store(why) => why.can_pass(),
            Self::Notes { source, .. } | Self::Unnoted { source, .. } => matches!(source, RecordsError::Unavailable(_)),
            _ => false,
        }
    }
}

/// The outcome for objects and volumes, of all levels or of those before the restore ended early.
pub(crate) struct ObjectsOutcome {
    pub(crate) done: Vec<HandledItem>,
    /// Names in the cluster that are others than in the backup, by row.
    pub(crate) renamed: BTreeMap<usize, String>,
    /// Namespaces that were made, or could not be.
    pub(crate) namespaces: Vec<(String, ItemResult)>,
    /// Objects that the backup lacks, with `<apiVersion>/<Kind>` in two parts.
    pub(crate) removed: Vec<((String, String), ObjectKey, ItemResult)>,
    pub(crate) archive: Archive,
    pub(crate) kinds: Kinds,
    pub(crate) volumes: Arc<RestoredVolumes>,
    /// Set when a stub stands for a group of snapshots until these are ready.
    pub(crate) has_stubs: bool,
    /// Operations that actions have begun.
    pub(crate) operations: Arc<Operations>,
    /// Commands that were due in pods.
    pub(crate) hooks: HookTally,
    /// Notes for the results.
    pub(crate) notes: Vec<String>,
    /// Files that came into volumes through pods.
    pub(crate) files: Vec<FileOutcome>,
    /// Objects that were not looked at, because it ended early.
    pub(crate) not_looked_at: u64,
    /// The reason why it did not come to its end.
    pub(crate) broken_off: Option<BrokenOff>,
}

impl ObjectsOutcome {
    /// Objects of the cluster that are stored as they were, because they were recreated or removed.
    pub(crate) fn originals(&self) -> usize {
        let recreated = self.done.iter().filter(|one| one.action == ItemResult::Recreated).count();
        recreated + self.removed.iter().filter(|(_, _, action)| *action == ItemResult::Removed).count()
    }
}
