//! The input and the output of [`coverage`](super::coverage), as the JSON of `lifeboat status` has them.

use crate::next_backups::NextBackups;
use crate::phase::backup_expiry::ExpiryInput;
use crate::phase::schedule::ScheduleStanding;
use jiff::Timestamp;
use lifeboat_api::{BackupPhase, BackupRepository, BackupStorageLocationPhase, Time};
use lifeboat_select::NamespaceFacts;
use serde::Serialize;

/// The objects of the cluster that coverage is computed from. Backups that another cluster has made protect nothing of
/// this one.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// The resources.
    pub lists: ExpiryInput,
    /// The namespaces of the cluster that are to be protected; `None` when the user may not list them.
    pub namespaces: Option<Vec<NamespaceInventory>>,
    /// The answer of the server about the next backups of schedules; `None` when it was not asked, or does not know the question.
    pub next_backups: Option<NextBackups>,
    /// The movers of the data of volumes.
    pub movers: MoverInventory,
}

/// The parts of an installation that move the data of volumes, as far as the user may list them.
#[derive(Clone, Debug, Default)]
pub struct MoverInventory {
    /// The repositories of volume data.
    pub repositories: Vec<BackupRepository>,
    /// The DaemonSets of node agents.
    pub node_agents: Vec<NodeAgentSet>,
}

/// A DaemonSet of node agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeAgentSet {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The number of nodes that are to have a pod of it.
    pub nodes: u64,
    /// The number of its pods that are ready; `None` before its controller has looked at it.
    pub ready: Option<u64>,
}

/// A namespace of the cluster.
#[derive(Clone, Debug)]
pub struct NamespaceInventory {
    /// Its name and labels.
    pub facts: NamespaceFacts,
    /// When it was made: no older backup has it.
    pub created: Option<Timestamp>,
    /// Number of its volume claims; `None` when the user may not list them.
    pub claims: Option<u64>,
}

/// The state of protection: of locations, schedules, running operations and namespaces.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Coverage {
    /// The storage locations.
    pub locations: Vec<LocationState>,
    /// The schedules.
    pub schedules: Vec<ScheduleState>,
    /// Backups and restores that wait or run.
    pub running: Vec<RunningState>,
    /// The namespaces, those without a good backup first, then by the age of the last one, the oldest first.
    pub namespaces: Vec<NamespaceState>,
    /// Problems that somebody has to solve, with the next step for each.
    pub attention: Vec<Attention>,
    /// Failures that are told no more.
    pub failed_earlier: FailedEarlier,
}

/// Failures of more than a week ago, and those for which a later success of the same makes up: so many are still in the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedEarlier {
    /// Backups that no schedule has made.
    pub backups: u64,
    /// Restores.
    pub restores: u64,
}

/// A storage location.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocationState {
    /// Its name.
    pub name: String,
    /// True when it is the default one.
    pub default: bool,
    /// True when it may only be read.
    pub read_only: bool,
    /// Its phase; `None` when it was not validated yet.
    pub phase: Option<BackupStorageLocationPhase>,
    /// When it was validated last.
    pub last_validated: Option<Time>,
}

/// A schedule.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleState {
    /// Its name.
    pub name: String,
    /// Its state: whether it makes backups.
    pub state: ScheduleStanding,
    /// The newest of its backups that has ended, and how.
    pub last_ended: Option<EndedBackup>,
    /// When the next run is due; a time that is over is one that no server has seen to.
    pub next_run: Option<Time>,
}

/// A backup that has ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndedBackup {
    /// Its name.
    pub backup: String,
    /// Its phase.
    pub phase: BackupPhase,
    /// When it began.
    pub start: Option<Time>,
}

/// A backup or restore that waits or runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningState {
    /// `Backup` or `Restore`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Its phase.
    pub phase: &'static str,
    /// Its progress, where that is known.
    pub progress: Option<ObjectProgress>,
    /// When it began.
    pub start: Option<Time>,
}

/// Progress of a backup or restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectProgress {
    /// Objects that are done.
    pub done: i64,
    /// All objects.
    pub total: i64,
}

/// A namespace of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceState {
    /// Its name.
    pub name: String,
    /// The newest good backup of all of it: `Completed`, without selectors or lists of types.
    pub last_good: Option<EndedBackup>,
    /// The newest one of these that saves what is in volumes, as far as it is not told to leave that out.
    pub last_good_with_volumes: Option<EndedBackup>,
    /// The age of that backup in seconds.
    pub age_seconds: Option<i64>,
    /// The schedules that save all of it.
    pub schedules: Vec<String>,
    /// Number of its volume claims; `None` when the user may not list them.
    pub claims: Option<u64>,
    /// True when one of these schedules saves the data of volumes: its template does not set `snapshotVolumes` to
    /// false.
    pub volumes_are_scheduled: bool,
}

/// A problem that somebody has to solve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attention {
    /// The problem, and the reason for it.
    pub what: String,
    /// The next step to take.
    pub next: String,
}
