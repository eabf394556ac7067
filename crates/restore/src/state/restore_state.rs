//! All that happens while a restore runs, over all its levels and whatever types the cluster serves.

use crate::hooks::commands::PodCommands;
use crate::object::answer_cache::AnswerCache;
use crate::object::job_pods::LeftToJobs;
use crate::object::namespaces::Namespaces;
use crate::state::claimed_rows::ClaimedRows;
use crate::state::defined::Defined;
use crate::state::messages::Messages;
use crate::state::operations::Operations;
use crate::state::renamed::Renamed;
use crate::state::terminating::TerminationWaits;
use crate::state::wait::WaitBudget;
use crate::state::wait_slots::WaitSlots;
use crate::volumes::hold_back::LostClaims;
use crate::volumes::snapshot_groups::SnapshotGroups;
use lifeboat_volume::fs_backup::FileRestores;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

/// State of a restore, shared by all that work for it.
pub(crate) struct RestoreState {
    /// Warnings and errors per object.
    pub(crate) messages: Messages,
    /// Objects for which an attempt was begun.
    pub(crate) claimed: ClaimedRows,
    pub(crate) namespaces: Namespaces,
    pub(crate) attempts: AttemptMemory,
    pub(crate) notes: ItemNotes,
    /// The groups of snapshots that are restored.
    pub(crate) groups: SnapshotGroups,
    pub(crate) pods: PodWork,
    /// Set when resuming a restore of which an earlier run was cut off.
    pub(crate) is_resumed: bool,
}

/// The work that goes on in pods that are made, beside the levels that follow.
pub(crate) struct PodWork {
    /// Their commands.
    pub(crate) commands: PodCommands,
    /// The files that come into volumes through them.
    pub(crate) files: FileRestores,
}

/// State of all attempts: what is kept from one attempt at an object to the next, and the slots of those that wait.
pub(crate) struct AttemptMemory {
    /// Operations that actions have begun.
    pub(crate) operations: Arc<Operations>,
    /// Answers of actions about objects that are tried again.
    pub(crate) answers: AnswerCache,
    /// The waits for objects that are being deleted.
    pub(crate) terminating: TerminationWaits,
    /// Objects that wait for others.
    pub(crate) wait_slots: WaitSlots,
    /// The waits for claims that are filled through other pods.
    pub(crate) filling: WaitBudget,
}

/// Facts about objects that were handled, for other objects and for the end of the restore.
#[derive(Default)]
pub(crate) struct ItemNotes {
    pub(crate) renamed: Renamed,
    /// The types that the restore defines.
    pub(crate) defined: Defined,
    /// Claims that could not be restored.
    pub(crate) lost_claims: LostClaims,
    /// Rows of pods whose attempts have ended.
    pub(crate) ended_pods: Mutex<HashSet<usize>>,
    /// Pods that were left to the Jobs that make them.
    pub(crate) left_to_jobs: LeftToJobs,
    /// Objects that others need, that the backup does not have, and that were named in a warning.
    pub(crate) reported_missing: Mutex<HashSet<[u8; 16]>>,
}
