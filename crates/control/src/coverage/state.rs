//! The input and the output of [`coverage`](super::coverage), as the JSON of `lifeboat status` has them.

use crate::next_backups::NextBackups;
use crate::phase::fate::Lists;
use crate::phase::schedule::ScheduleStanding;
use jiff::Timestamp;
use lifeboat_api::{BackupPhase, BackupStorageLocationPhase, Time};
use lifeboat_select::NamespaceFacts;
use serde::Serialize;

/// What lies in the cluster. Backups that another cluster has made protect nothing of this one.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// The resources.
    pub lists: Lists,
    /// The namespaces of the cluster that are to be protected; `None` when who looks may not list them.
    pub namespaces: Option<Vec<NamespaceInventory>>,
    /// What the server says of the next backups of schedules; `None` when it was not asked, or does not know the question.
    pub next_backups: Option<NextBackups>,
}

/// A namespace of the cluster.
#[derive(Clone, Debug)]
pub struct NamespaceInventory {
    /// Its name and labels.
    pub facts: NamespaceFacts,
    /// When it was made: no older backup has it.
    pub created: Option<Timestamp>,
    /// How many claims of volumes it has; `None` when who looks may not list them.
    pub claims: Option<u64>,
}

/// What is protected and what is not.
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
    /// What somebody has to do something about, with what.
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
    /// Whether it is the default one.
    pub default: bool,
    /// Whether it may only be read.
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
    /// Whether it runs.
    pub state: ScheduleStanding,
    /// The newest of its backups that has ended, and how.
    pub last_ended: Option<Ended>,
    /// When the next run is due; a time that is over is one that no server has seen to.
    pub next_run: Option<Time>,
}

/// A backup that has ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
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
    /// How far it is, where that is known.
    pub progress: Option<Progress>,
    /// When it began.
    pub start: Option<Time>,
}

/// How far a backup or restore is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Progress {
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
    pub last_good: Option<Ended>,
    /// The newest one of these that saves what is in volumes, as far as it is not told to leave that out.
    pub last_good_with_volumes: Option<Ended>,
    /// How old the last good one is.
    pub age_seconds: Option<i64>,
    /// The schedules that save all of it.
    pub schedules: Vec<String>,
    /// How many claims it has; `None` when who looks may not list them.
    pub claims: Option<u64>,
    /// Whether one of these schedules saves what is in volumes, as far as it is not told to leave that out.
    pub volumes_are_scheduled: bool,
}

/// What somebody has to do something about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attention {
    /// What is not as it should be, and why.
    pub what: String,
    /// What to do next.
    pub next: String,
}
