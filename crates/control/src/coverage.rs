//! What is protected and what is not: a pure function of what lies in the cluster (an addition of Lifeboat).

mod attention;

use crate::phase::facts::{self, is_good, is_running, newest_ended, own_newest_first};
use crate::phase::fate::Lists;
use crate::phase::request::ByBackup;
use crate::phase::restore::has_ended;
use crate::phase::schedule::next_run;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use lifeboat_api::{
    Backup, BackupPhase, BackupSpec, BackupStorageLocation, BackupStorageLocationAccessMode,
    BackupStorageLocationPhase, RestorePhase, Schedule, SchedulePhase, Time,
};
use lifeboat_select::{NamespaceFacts, NamespaceFilter};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What lies in the cluster. Backups that another cluster has made protect nothing of this
/// one.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// The resources.
    pub lists: Lists,
    /// The namespaces of the cluster that are to be protected.
    pub namespaces: Vec<NamespaceInventory>,
}

/// A namespace of the cluster.
#[derive(Clone, Debug)]
pub struct NamespaceInventory {
    /// Its name and labels.
    pub facts: NamespaceFacts,
    /// When it was made: no older backup has it.
    pub created: Option<Timestamp>,
    /// How many claims of volumes it has.
    pub claims: u64,
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

/// Whether a schedule runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum ScheduleStanding {
    /// No server has looked at it yet.
    New,
    /// It does.
    Enabled,
    /// It is not valid.
    FailedValidation,
    /// It was told to rest.
    Paused,
}

impl ScheduleStanding {
    fn of(schedule: &Schedule) -> Self {
        match schedule.status.phase {
            _ if schedule.spec.paused => Self::Paused,
            None | Some(SchedulePhase::New) => Self::New,
            Some(SchedulePhase::Enabled) => Self::Enabled,
            Some(SchedulePhase::FailedValidation) => Self::FailedValidation,
        }
    }

    /// The word as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "New",
            Self::Enabled => "Enabled",
            Self::FailedValidation => "FailedValidation",
            Self::Paused => "Paused",
        }
    }
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
    /// How old that is.
    pub age_seconds: Option<i64>,
    /// The schedules that save all of it.
    pub schedules: Vec<String>,
    /// How many claims it has.
    pub claims: u64,
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

/// Says of each location, schedule, running operation and namespace in what state it is, and what needs attention. `zone` is that of
/// schedules that name none, as the server reads them; `program` is what the commands in `next` begin with.
#[must_use]
pub fn coverage(inventory: &Inventory, zone: &TimeZone, now: Timestamp, program: &str) -> Coverage {
    let lists = &inventory.lists;
    let newest = newest_ended(lists.backups.iter());
    let good = good_newest_first(lists.backups.iter(), &lists.requests.iter().collect());
    let mut coverage = Coverage {
        locations: lists.locations.iter().map(location).collect(),
        schedules: lists.schedules.iter().map(|one| schedule(one, &newest, zone)).collect(),
        running: running(lists),
        namespaces: namespaces(&good, lists.schedules.iter(), &inventory.namespaces, now),
        attention: Vec::new(),
    };
    coverage.attention = attention::attention(lists, &coverage, now, program);
    coverage
}

fn location(location: &BackupStorageLocation) -> LocationState {
    LocationState {
        name: location.metadata.name.clone(),
        default: location.spec.default,
        read_only: location.spec.access_mode == Some(BackupStorageLocationAccessMode::ReadOnly),
        phase: location.status.phase,
        last_validated: location.status.last_validation_time,
    }
}

fn schedule(schedule: &Schedule, newest_ended: &BTreeMap<&str, &Backup>, zone: &TimeZone) -> ScheduleState {
    let state = ScheduleStanding::of(schedule);
    let is_due = state == ScheduleStanding::Enabled;
    ScheduleState {
        name: schedule.metadata.name.clone(),
        state,
        last_ended: newest_ended.get(schedule.label().as_str()).and_then(|backup| ended(backup)),
        next_run: next_run(schedule, zone).filter(|_| is_due).map(Time::new),
    }
}

fn ended(backup: &Backup) -> Option<Ended> {
    let (backup, status) = (backup.metadata.name.clone(), &backup.status);
    Some(Ended { backup, phase: status.phase?, start: status.start_timestamp })
}

fn running(lists: &Lists) -> Vec<RunningState> {
    let backups = lists.backups.iter().filter(|backup| is_running(backup) || facts::waits(backup));
    let backups = backups.map(|backup| RunningState {
        kind: "Backup",
        name: backup.metadata.name.clone(),
        phase: backup.status.phase.map_or("New", BackupPhase::as_str),
        progress: backup.status.progress.map(|p| Progress { done: p.items_backed_up, total: p.total_items }),
        start: backup.status.start_timestamp,
    });
    let restores = lists.restores.iter().filter(|restore| !has_ended(restore)).map(|restore| RunningState {
        kind: "Restore",
        name: restore.metadata.name.clone(),
        phase: restore.status.phase.map_or("New", RestorePhase::as_str),
        progress: restore.status.progress.map(|p| Progress { done: p.items_restored, total: p.total_items }),
        start: restore.status.start_timestamp,
    });
    backups.chain(restores).collect()
}

/// Whether it saves everything in its namespaces. What a list excludes was left out on purpose, but for one that excludes all types.
fn saves_all_of_its_namespaces(spec: &BackupSpec) -> bool {
    let is_star = |one: &String| one == "*";
    let all = |list: &[String]| list.is_empty() || list.iter().any(is_star);
    let excludes_all = |list: &[String]| list.iter().any(is_star);
    let selects = spec.label_selector.is_some() || !spec.or_label_selectors.is_empty();
    let includes = all(&spec.included_resources) && all(&spec.included_namespace_scoped_resources);
    let excludes = excludes_all(&spec.excluded_resources) || excludes_all(&spec.excluded_namespace_scoped_resources);
    includes && !excludes && !selects
}

/// The backups that this cluster has made and that could be restored, the newest first. One whose deletion is asked for protects nothing.
pub(crate) fn good_newest_first<'b>(
    backups: impl Iterator<Item = &'b Backup>,
    requests: &ByBackup<'_>,
) -> Vec<&'b Backup> {
    own_newest_first(backups.filter(|backup| is_good(backup, requests.of(backup).is_open)))
}

/// What is known of each of these namespaces, those without a good backup first, then by the age of the last one; `good` are the good
/// backups of this cluster, the newest first.
pub(crate) fn namespaces<'a>(
    good: &[&Backup],
    schedules: impl Iterator<Item = &'a Schedule>,
    all: &[NamespaceInventory],
    now: Timestamp,
) -> Vec<NamespaceState> {
    let facts: Vec<NamespaceFacts> = all.iter().map(|one| one.facts.clone()).collect();
    let filter = |spec: &BackupSpec| {
        saves_all_of_its_namespaces(spec)
            .then(|| NamespaceFilter::resolve(&spec.included_namespaces, &spec.excluded_namespaces, &facts))
    };
    let schedules: Vec<(&Schedule, NamespaceFilter)> = schedules
        .filter(|schedule| !schedule.spec.paused && schedule.status.phase != Some(SchedulePhase::FailedValidation))
        .filter_map(|schedule| Some((schedule, filter(&schedule.spec.template)?)))
        .collect();
    let mut missing: BTreeMap<&str, &NamespaceInventory> =
        all.iter().map(|one| (one.facts.name.as_str(), one)).collect();
    let mut seen = BTreeSet::new();
    let mut found: BTreeMap<&str, &Backup> = BTreeMap::new();
    for backup in good {
        if missing.is_empty() {
            break;
        }
        // An older one with the same lists has no namespace that the newer one has not.
        let lists = (&backup.spec.included_namespaces, &backup.spec.excluded_namespaces);
        if !saves_all_of_its_namespaces(&backup.spec) || !seen.insert(lists) {
            continue;
        }
        let Some(filter) = filter(&backup.spec) else { continue };
        let start = backup.status.start_timestamp.map(Time::timestamp);
        let has = |one: &NamespaceInventory| {
            filter.includes(&one.facts.name) && (one.created.is_none() || start >= one.created)
        };
        let names: Vec<&str> = missing.iter().filter(|(_, one)| has(one)).map(|(name, _)| *name).collect();
        for name in names {
            missing.remove(name);
            found.insert(name, backup);
        }
    }
    let mut states: Vec<NamespaceState> = all
        .iter()
        .map(|one| {
            let name = &one.facts.name;
            let own: Vec<&Schedule> =
                schedules.iter().filter(|(_, filter)| filter.includes(name)).map(|(schedule, _)| *schedule).collect();
            let last_good = found.get(name.as_str()).and_then(|backup| ended(backup));
            let start = last_good.as_ref().and_then(|last| last.start).map(Time::timestamp);
            NamespaceState {
                name: name.clone(),
                age_seconds: start.map(|start| now.duration_since(start).as_secs().max(0)),
                last_good,
                volumes_are_scheduled: own.iter().any(|one| one.spec.template.snapshot_volumes != Some(false)),
                schedules: own.iter().map(|schedule| schedule.metadata.name.clone()).collect(),
                claims: one.claims,
            }
        })
        .collect();
    states.sort_by_key(|state| {
        (state.age_seconds.is_some(), state.age_seconds.map(Reverse), !state.schedules.is_empty(), state.name.clone())
    });
    states
}

#[cfg(test)]
mod tests;
