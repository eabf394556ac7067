//! What is protected and what is not: a pure function of what lies in the cluster (an addition of Lifeboat).

use crate::phase::backup::is_running;
use crate::phase::restore::has_ended;
use crate::phase::schedule::next_run;
use crate::phase::taken_over::is_of_another_cluster;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{
    Backup, BackupPhase, BackupSpec, BackupStorageLocation, BackupStorageLocationAccessMode,
    BackupStorageLocationPhase, ObjectMeta, Restore, RestorePhase, Schedule, SchedulePhase, Time, well_known,
};
use lifeboat_select::{NamespaceFacts, NamespaceFilter};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What lies in the cluster: of the resources those of one namespace. Backups that another cluster has made protect nothing of this
/// one.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// The backups.
    pub backups: Vec<Backup>,
    /// The restores.
    pub restores: Vec<Restore>,
    /// The schedules.
    pub schedules: Vec<Schedule>,
    /// The storage locations.
    pub locations: Vec<BackupStorageLocation>,
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
    /// Its phase: `Available`, `Unavailable`, or nothing when it was not looked at yet.
    pub phase: String,
    /// When it was looked at last.
    pub last_validated: Option<Time>,
}

/// A schedule.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleState {
    /// Its name.
    pub name: String,
    /// `Enabled`, `Paused`, `New` or `FailedValidation`.
    pub state: String,
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
    pub phase: String,
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
    pub phase: String,
    /// Objects that are done, and all of them, where that is known.
    pub progress: Option<(i64, i64)>,
    /// When it began.
    pub start: Option<Time>,
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

/// How late a run may be before that is told.
const LATE: SignedDuration = SignedDuration::from_mins(5);
/// A location that was not looked at for so long is told of.
const UNSEEN: SignedDuration = SignedDuration::from_hours(1);
/// Where it is checked more rarely: when so many checks are missing.
const MISSED: i64 = 3;
/// How long the failure of a backup or restore that no schedule has made is told.
const TOLD: SignedDuration = SignedDuration::from_hours(24);

/// Tells it. `zone` is that of schedules that name none; `program` is what commands begin with.
#[must_use]
pub fn coverage(inventory: &Inventory, zone: &TimeZone, now: Timestamp, program: &str) -> Coverage {
    let newest_first = own_newest_first(inventory.backups.iter());
    let mut coverage = Coverage {
        locations: inventory.locations.iter().map(location).collect(),
        schedules: inventory.schedules.iter().map(|one| schedule(one, &newest_first, zone)).collect(),
        running: running(inventory),
        namespaces: namespaces(&newest_first, inventory.schedules.iter(), &inventory.namespaces, now),
        attention: Vec::new(),
    };
    let mut notes = Notes { attention: Vec::new(), program };
    notes.locations(inventory, now);
    notes.schedules(&coverage.schedules, inventory, now);
    notes.failures(inventory, now);
    notes.namespaces(&coverage.namespaces);
    coverage.attention = notes.attention;
    coverage
}

fn location(location: &BackupStorageLocation) -> LocationState {
    LocationState {
        name: location.metadata.name.clone(),
        default: location.spec.default,
        read_only: location.spec.access_mode == Some(BackupStorageLocationAccessMode::ReadOnly),
        phase: location.status.phase.map_or("", BackupStorageLocationPhase::as_str).to_owned(),
        last_validated: location.status.last_validation_time,
    }
}

fn schedule(schedule: &Schedule, newest_first: &[&Backup], zone: &TimeZone) -> ScheduleState {
    let label = schedule.label();
    let own = |backup: &&&Backup| label_of(&backup.metadata) == Some(label.as_str());
    let last = newest_first.iter().filter(own).find(|backup| has_result(backup));
    let state = match schedule.status.phase {
        _ if schedule.spec.paused => "Paused",
        phase => phase.unwrap_or(SchedulePhase::New).as_str(),
    };
    let is_due = state == "Enabled";
    ScheduleState {
        name: schedule.metadata.name.clone(),
        state: state.to_owned(),
        last_ended: last.map(|backup| ended(backup)),
        next_run: next_run(schedule, zone).filter(|_| is_due).map(Time::new),
    }
}

fn label_of(meta: &ObjectMeta) -> Option<&str> {
    meta.labels.get(well_known::LABEL_SCHEDULE_NAME).map(String::as_str)
}

fn ended(backup: &Backup) -> Ended {
    Ended {
        backup: backup.metadata.name.clone(),
        phase: backup.status.phase.map_or("New", BackupPhase::as_str).to_owned(),
        start: backup.status.start_timestamp,
    }
}

fn running(inventory: &Inventory) -> Vec<RunningState> {
    use BackupPhase as P;
    let waits = |backup: &&Backup| matches!(backup.status.phase, None | Some(P::New | P::Queued | P::ReadyToStart));
    let backups =
        inventory.backups.iter().filter(|backup| is_running(backup) || waits(backup)).map(|backup| RunningState {
            kind: "Backup",
            name: backup.metadata.name.clone(),
            phase: backup.status.phase.map_or("New", BackupPhase::as_str).to_owned(),
            progress: backup.status.progress.map(|progress| (progress.items_backed_up, progress.total_items)),
            start: backup.status.start_timestamp,
        });
    let restores = inventory.restores.iter().filter(|restore| !has_ended(restore)).map(|restore| RunningState {
        kind: "Restore",
        name: restore.metadata.name.clone(),
        phase: restore.status.phase.map_or("New", RestorePhase::as_str).to_owned(),
        progress: restore.status.progress.map(|progress| (progress.items_restored, progress.total_items)),
        start: restore.status.start_timestamp,
    });
    backups.chain(restores).collect()
}

/// Whether everything in its namespaces is saved. What a list excludes was left out on purpose, but for one that excludes all types.
fn is_whole(spec: &BackupSpec) -> bool {
    let is_star = |one: &String| one == "*";
    let all = |list: &[String]| list.is_empty() || list.iter().any(is_star);
    let excludes_all = |list: &[String]| list.iter().any(is_star);
    let selects = spec.label_selector.is_some() || !spec.or_label_selectors.is_empty();
    let includes = all(&spec.included_resources) && all(&spec.included_namespace_scoped_resources);
    let excludes = excludes_all(&spec.excluded_resources) || excludes_all(&spec.excluded_namespace_scoped_resources);
    includes && !excludes && !selects
}

/// The backups that this cluster has made, the newest first.
pub(crate) fn own_newest_first<'b>(backups: impl Iterator<Item = &'b Backup>) -> Vec<&'b Backup> {
    let mut own: Vec<&Backup> = backups.filter(|backup| !is_of_another_cluster(backup)).collect();
    own.sort_by_key(|backup| Reverse((begun(backup), &backup.metadata.name)));
    own
}

/// When a backup began, or else was made: one that was refused, or ended in the queue, never began.
fn begun(backup: &Backup) -> Option<Timestamp> {
    backup.status.start_timestamp.or(backup.metadata.creation_timestamp).map(Time::timestamp)
}

/// Whether a backup has ended, and how is known.
pub(crate) fn has_result(backup: &Backup) -> bool {
    use BackupPhase as P;
    matches!(backup.status.phase, Some(P::Completed | P::PartiallyFailed | P::Failed | P::FailedValidation))
}

/// What is known of each of these namespaces, those without a good backup first, then by the age of the last one. The backups are those
/// of this cluster.
pub(crate) fn namespaces<'a>(
    newest_first: &[&Backup],
    schedules: impl Iterator<Item = &'a Schedule>,
    all: &[NamespaceInventory],
    now: Timestamp,
) -> Vec<NamespaceState> {
    let facts: Vec<NamespaceFacts> = all.iter().map(|one| one.facts.clone()).collect();
    let filter = |spec: &BackupSpec| {
        is_whole(spec).then(|| NamespaceFilter::resolve(&spec.included_namespaces, &spec.excluded_namespaces, &facts))
    };
    let schedules: Vec<(&Schedule, NamespaceFilter)> = schedules
        .filter(|schedule| !schedule.spec.paused && schedule.status.phase != Some(SchedulePhase::FailedValidation))
        .filter_map(|schedule| Some((schedule, filter(&schedule.spec.template)?)))
        .collect();
    let mut missing: BTreeMap<&str, &NamespaceInventory> =
        all.iter().map(|one| (one.facts.name.as_str(), one)).collect();
    let mut seen = BTreeSet::new();
    let mut found: BTreeMap<&str, &Backup> = BTreeMap::new();
    for backup in newest_first.iter().filter(|backup| is_good(backup)) {
        if missing.is_empty() {
            break;
        }
        // An older one with the same lists has no namespace that the newer one has not.
        let lists = (&backup.spec.included_namespaces, &backup.spec.excluded_namespaces);
        if !is_whole(&backup.spec) || !seen.insert(lists) {
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
            let last_good = found.get(name.as_str()).map(|backup| ended(backup));
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

fn is_good(backup: &Backup) -> bool {
    backup.status.phase == Some(BackupPhase::Completed) && backup.metadata.deletion_timestamp.is_none()
}

/// Gathers what somebody has to do something about.
struct Notes<'a> {
    attention: Vec<Attention>,
    program: &'a str,
}

impl Notes<'_> {
    fn add(&mut self, what: String, next: String) {
        self.attention.push(Attention { what, next });
    }

    fn locations(&mut self, inventory: &Inventory, now: Timestamp) {
        let program = self.program;
        if inventory.locations.is_empty() {
            let what = "there is no backup storage location: nothing can be backed up";
            return self.add(what.to_owned(), format!("`{program} backup-location create`"));
        }
        for location in &inventory.locations {
            let (name, status) = (&location.metadata.name, &location.status);
            if status.phase != Some(BackupStorageLocationPhase::Available) {
                let why = match status.message.is_empty() {
                    true => "no server has looked at it yet".to_owned(),
                    false => status.message.clone(),
                };
                let next = format!("mend it, then `{program} backup-location get {name}`");
                self.add(format!("location {name} is not available: {why}"), next);
            } else if let Some(looked) = looked_at_long_ago(location, now) {
                let next = format!("look whether the server runs (`{program} version`), and whether the storage hangs");
                self.add(format!("location {name} was looked at last at {looked}"), next);
            }
        }
    }

    fn schedules(&mut self, states: &[ScheduleState], inventory: &Inventory, now: Timestamp) {
        let program = self.program;
        for (state, schedule) in states.iter().zip(&inventory.schedules) {
            let name = &state.name;
            if state.state == "FailedValidation" {
                let why = schedule.status.validation_errors.join("; ");
                self.add(
                    format!("schedule {name} makes no backups: {why}"),
                    format!("mend it, then `{program} schedule describe {name}`"),
                );
            }
            let due = state.next_run.map(Time::timestamp);
            if let Some(due) = due.filter(|due| now.duration_since(*due) > LATE) {
                let (what, next) = match schedule.status.message.is_empty() {
                    true => (
                        format!("a run of schedule {name} is due since {due}, and no server has begun it"),
                        format!("look whether the server runs: `{program} version`"),
                    ),
                    false => {
                        (format!("schedule {name}: {}", schedule.status.message), format!("`{program} backup get`"))
                    }
                };
                self.add(what, next);
            }
            if let Some(last) = state.last_ended.as_ref().filter(|last| last.phase != "Completed") {
                let (backup, phase) = (&last.backup, &last.phase);
                let what =
                    format!("the last backup of schedule {name}, {backup}, is {phase}{}", reason(inventory, backup));
                self.add(what, format!("`{program} backup describe {backup}`, `{program} backup logs {backup}`"));
            }
        }
    }

    fn failures(&mut self, inventory: &Inventory, now: Timestamp) {
        let program = self.program;
        let is_new = |start: Option<Time>, meta: &ObjectMeta| {
            let when = start.or(meta.creation_timestamp).map(Time::timestamp);
            when.is_some_and(|when| now.duration_since(when) <= TOLD)
        };
        let own = inventory.backups.iter().filter(|backup| !is_of_another_cluster(backup));
        let alone = own.filter(|backup| label_of(&backup.metadata).is_none());
        for backup in alone.filter(|backup| has_result(backup) && !is_good(backup)) {
            let name = &backup.metadata.name;
            if is_new(backup.status.start_timestamp, &backup.metadata) {
                let phase = backup.status.phase.map_or("New", BackupPhase::as_str);
                let what = format!("backup {name} is {phase}{}", reason(inventory, name));
                self.add(what, format!("`{program} backup describe {name}`, `{program} backup logs {name}`"));
            }
        }
        for restore in inventory.restores.iter().filter(|restore| has_ended(restore)) {
            let (name, status) = (&restore.metadata.name, &restore.status);
            if status.phase != Some(RestorePhase::Completed) && is_new(status.start_timestamp, &restore.metadata) {
                let phase = status.phase.map_or("New", RestorePhase::as_str);
                let why = because(&status.failure_reason, &status.validation_errors, status.errors);
                let next = format!("`{program} restore describe {name}`, `{program} restore logs {name}`");
                self.add(format!("restore {name} is {phase}{why}"), next);
            }
        }
    }

    fn namespaces(&mut self, states: &[NamespaceState]) {
        let program = self.program;
        let listed = |states: &[&NamespaceState]| {
            let names: Vec<&str> = states.iter().take(5).map(|state| state.name.as_str()).collect();
            let more = states.len().saturating_sub(5);
            if more == 0 { names.join(", ") } else { format!("{} and {more} more", names.join(", ")) }
        };
        let bare: Vec<&NamespaceState> = states.iter().filter(|state| state.schedules.is_empty()).collect();
        if !bare.is_empty() {
            let claims: u64 = bare.iter().map(|state| state.claims).sum();
            let what = format!("no schedule saves {} ({claims} claims of volumes)", listed(&bare));
            let next = format!(
                "`{program} schedule create`, or label a namespace that is to stay out: {}=true",
                well_known::LABEL_EXCLUDE_FROM_BACKUP
            );
            self.add(what, next);
        }
        let leaves =
            |state: &&NamespaceState| !state.schedules.is_empty() && state.claims > 0 && !state.volumes_are_scheduled;
        let without_volumes: Vec<&NamespaceState> = states.iter().filter(leaves).collect();
        if !without_volumes.is_empty() {
            let what = format!("the schedules of {} leave the data of volumes out", listed(&without_volumes));
            self.add(what, format!("`{program} schedule describe`: Velero-Native Snapshot PVs"));
        }
    }
}

/// When a location was looked at last, where that is long ago; `None` too for one that is to be checked once only.
fn looked_at_long_ago(location: &BackupStorageLocation, now: Timestamp) -> Option<Time> {
    let frequency = location.spec.validation_frequency.map(lifeboat_api::Duration::nanoseconds);
    if frequency.is_some_and(|frequency| frequency <= 0) {
        return None;
    }
    let most = SignedDuration::from_nanos(frequency.unwrap_or_default().saturating_mul(MISSED)).max(UNSEEN);
    location.status.last_validation_time.filter(|looked| now.duration_since(looked.timestamp()) > most)
}

fn reason(inventory: &Inventory, backup: &str) -> String {
    let found = inventory.backups.iter().find(|one| one.metadata.name == backup);
    let status = found.map(|found| &found.status);
    status.map_or_else(String::new, |status| because(&status.failure_reason, &status.validation_errors, status.errors))
}

fn because(failure: &str, validation: &[String], errors: i64) -> String {
    match (failure, validation, errors) {
        ("", [], 0) => String::new(),
        ("", [], errors) => format!(", with {errors} errors"),
        ("", validation, _) => format!(": {}", validation.join("; ")),
        (failure, ..) => format!(": {failure}"),
    }
}

#[cfg(test)]
mod tests;
