//! Tells which parts of the cluster are protected: a pure function of the objects of the cluster (an addition of
//! Lifeboat).

mod attention;
mod failures;
mod movers;
mod namespace;
mod state;

pub use namespace::namespace_to_protect;
pub use state::{
    Attention, Coverage, EndedBackup, FailedEarlier, Inventory, LocationState, MoverInventory, NamespaceInventory,
    NamespaceState, NodeAgentSet, ObjectProgress, RunningState, ScheduleState,
};

use crate::phase::backup_expiry::ExpiryInput;
use crate::phase::facts::{self, is_good, is_running, newest_ended, own_newest_first, saves_volumes};
use crate::phase::request::ByBackup;
use crate::phase::restore::has_ended;
use crate::phase::schedule::{ScheduleStanding, next_run};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use lifeboat_api::{Backup, BackupPhase, BackupSpec, BackupStorageLocation, RestorePhase, Schedule, Time};
use lifeboat_select::{NamespaceFacts, NamespaceFilter};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Says of each location, schedule, running operation and namespace in what state it is, and what needs attention. `zone` is that of
/// schedules that name none, as the server reads them; `program` is what the commands in `next` begin with.
#[must_use]
pub fn coverage(inventory: &Inventory, zone: &TimeZone, now: Timestamp, program: &str) -> Coverage {
    let lists = &inventory.lists;
    let newest = newest_ended(lists.backups.iter(), &lists.cluster);
    let good = good_newest_first(lists.backups.iter(), &lists.requests.iter().collect(), &lists.cluster);
    let (failed, failed_earlier) = failures::failures(lists, now, program);
    let mut coverage = Coverage {
        locations: lists.locations.iter().map(location).collect(),
        schedules: lists.schedules.iter().map(|one| schedule(one, &newest, zone)).collect(),
        running: running(lists),
        namespaces: namespaces(&good, lists.schedules.iter(), inventory.namespaces.as_deref().unwrap_or_default(), now),
        attention: Vec::new(),
        failed_earlier,
    };
    coverage.attention = attention::attention(inventory, &coverage, failed, now, program);
    coverage
}

fn location(location: &BackupStorageLocation) -> LocationState {
    LocationState {
        name: location.metadata.name.clone(),
        default: location.spec.default,
        read_only: location.is_read_only(),
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

fn ended(backup: &Backup) -> Option<EndedBackup> {
    let (backup, status) = (backup.metadata.name.clone(), &backup.status);
    Some(EndedBackup { backup, phase: status.phase?, start: status.start_timestamp })
}

fn running(lists: &ExpiryInput) -> Vec<RunningState> {
    let backups = lists.backups.iter().filter(|backup| is_running(backup) || facts::waits(backup));
    let backups = backups.map(|backup| RunningState {
        kind: "Backup",
        name: backup.metadata.name.clone(),
        phase: backup.status.phase.map_or("New", BackupPhase::as_str),
        progress: backup
            .status
            .progress
            .as_ref()
            .map(|p| ObjectProgress { done: p.items_backed_up, total: p.total_items }),
        start: backup.status.start_timestamp,
    });
    let restores = lists.restores.iter().filter(|restore| !has_ended(restore)).map(|restore| RunningState {
        kind: "Restore",
        name: restore.metadata.name.clone(),
        phase: restore.status.phase.map_or("New", RestorePhase::as_str),
        progress: restore
            .status
            .progress
            .as_ref()
            .map(|p| ObjectProgress { done: p.items_restored, total: p.total_items }),
        start: restore.status.start_timestamp,
    });
    backups.chain(restores).collect()
}

/// Returns true if a backup saves everything in its namespaces. Types on a list of exclusions were left out on purpose,
/// unless the list excludes all types.
fn saves_all_of_its_namespaces(spec: &BackupSpec) -> bool {
    let is_star = |one: &String| one == "*";
    let all = |list: &[String]| list.is_empty() || list.iter().any(is_star);
    let excludes_all = |list: &[String]| list.iter().any(is_star);
    let selects = spec.label_selector.is_some() || !spec.or_label_selectors.is_empty();
    let includes = all(&spec.included_resources) && all(&spec.included_namespace_scoped_resources);
    let excludes = excludes_all(&spec.excluded_resources) || excludes_all(&spec.excluded_namespace_scoped_resources);
    includes && !excludes && !selects
}

/// The backups that this cluster, whose UID is `this`, has made and that could be restored, the newest first. One whose deletion is asked for protects nothing.
pub fn good_newest_first<'b>(
    backups: impl Iterator<Item = &'b Backup>,
    requests: &ByBackup<'_>,
    this: &str,
) -> Vec<&'b Backup> {
    own_newest_first(backups.filter(|backup| is_good(backup, requests.of(backup).is_open)), this)
}

/// The protection of each of these namespaces: first those without a good backup, then by the age of the last one.
/// `good` are the good backups of this cluster, the newest first.
pub fn namespaces<'a>(
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
        .filter(|schedule| matches!(ScheduleStanding::of(schedule), ScheduleStanding::New | ScheduleStanding::Enabled))
        .filter_map(|schedule| Some((schedule, filter(&schedule.spec.template)?)))
        .collect();
    let newest = |counts: fn(&BackupSpec) -> bool| {
        newest_of_each(good.iter().copied().filter(|backup| counts(&backup.spec)), all, &filter)
    };
    let (found, with_volumes) = (newest(|_| true), newest(saves_volumes));
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
                last_good_with_volumes: with_volumes.get(name.as_str()).and_then(|backup| ended(backup)),
                volumes_are_scheduled: own.iter().any(|one| saves_volumes(&one.spec.template)),
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

/// Of these backups, the newest first, the first one that has each of the namespaces; `filter` tells which a backup has.
fn newest_of_each<'b, 'n>(
    backups: impl Iterator<Item = &'b Backup>,
    all: &'n [NamespaceInventory],
    filter: &impl Fn(&BackupSpec) -> Option<NamespaceFilter>,
) -> BTreeMap<&'n str, &'b Backup> {
    let mut missing: BTreeMap<&str, &NamespaceInventory> =
        all.iter().map(|one| (one.facts.name.as_str(), one)).collect();
    let mut seen = BTreeSet::new();
    let mut found: BTreeMap<&str, &Backup> = BTreeMap::new();
    for backup in backups {
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
    found
}

#[cfg(test)]
mod tests;
