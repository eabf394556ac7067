//! Problems that somebody has to solve, each with the command to run next.

use super::failures::because;
use super::movers;
use super::state::{Attention, Coverage, Inventory, NamespaceState, ScheduleState};
use crate::next_backups::{NextBackup, NextBackups};
use crate::passed_over::{PassedOver, PassedOverMessage};
use crate::phase::backup_expiry::ExpiryInput;
use crate::phase::facts::saves_volumes;
use crate::phase::request::{ByBackup, claims_waited_for, way_out_of_claims};
use crate::phase::schedule::ScheduleStanding;
use crate::phase::shrunken::{LossOfNewest, losses_of_newest};
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{BackupPhase, BackupStorageLocation, BackupStorageLocationPhase, Time, well_known};
use lifeboat_object::counted;
use std::collections::BTreeSet;

/// Time by which a run may be late before that is reported.
const LATE: SignedDuration = SignedDuration::from_mins(5);
/// Time after which a location that was not validated is reported.
const UNSEEN: SignedDuration = SignedDuration::from_hours(1);
/// Number of missed validations after which a location that is validated more rarely is reported.
const MISSED: i64 = 3;
/// The most names that are listed one by one.
const LISTED: usize = 5;

/// Reports what needs attention in the cluster, beside the states in the coverage; includes these failures. `program`
/// is the first word of the commands.
pub(super) fn attention(
    inventory: &Inventory,
    coverage: &Coverage,
    failures: Vec<Attention>,
    now: Timestamp,
    program: &str,
) -> Vec<Attention> {
    let lists = &inventory.lists;
    let mut notes = AttentionList { attention: Vec::new(), program };
    notes.locations(lists, now);
    notes.schedules(&coverage.schedules, lists, now);
    notes.volumes(coverage, lists);
    notes.next_backups(inventory.next_backups.as_ref());
    notes.deletions(lists);
    notes.attention.extend(movers::attention(&inventory.movers, program));
    notes.attention.extend(failures);
    notes.namespaces(&coverage.namespaces);
    notes.volumes_to_come(&coverage.namespaces, lists);
    notes.hidden(inventory);
    notes.attention
}

/// Gathers what somebody has to do something about.
struct AttentionList<'a> {
    attention: Vec<Attention>,
    program: &'a str,
}

impl AttentionList<'_> {
    fn add(&mut self, what: String, next: String) {
        self.attention.push(Attention { what, next });
    }

    fn locations(&mut self, lists: &ExpiryInput, now: Timestamp) {
        let program = self.program;
        if lists.locations.is_empty() {
            let what = "there is no backup storage location: nothing can be backed up";
            let next = format!("`{program} backup-location create default --provider aws --bucket BUCKET --default`");
            return self.add(what.to_owned(), next);
        }
        for location in &lists.locations {
            let (name, status) = (&location.metadata.name, &location.status);
            if status.phase != Some(BackupStorageLocationPhase::Available) {
                let why = match status.message.is_empty() {
                    true => "no server has validated it yet".to_owned(),
                    false => status.message.clone(),
                };
                let next = format!("mend it, then `{program} backup-location get {name}`");
                self.add(format!("location {name} is not available: {why}"), next);
            } else if let Some(validated) = validated_long_ago(location, now) {
                let next = format!("look whether the server runs (`{program} version`), and whether the storage hangs");
                self.add(format!("location {name} was validated last at {validated}"), next);
            }
            for PassedOverMessage { what, next } in PassedOver::of(location).said(program) {
                self.add(format!("location {name}: {what}"), next);
            }
        }
    }

    fn schedules(&mut self, states: &[ScheduleState], lists: &ExpiryInput, now: Timestamp) {
        let program = self.program;
        for (state, schedule) in states.iter().zip(&lists.schedules) {
            let name = &state.name;
            if state.state == ScheduleStanding::FailedValidation {
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
            if let Some(last) = state.last_ended.as_ref().filter(|last| last.phase != BackupPhase::Completed) {
                let (backup, phase) = (&last.backup, last.phase.as_str());
                let what = format!("the last backup of schedule {name}, {backup}, is {phase}{}", reason(lists, backup));
                self.add(what, format!("`{program} backup describe {backup}`, `{program} backup logs {backup}`"));
            }
        }
        self.losses(lists);
    }

    /// Volumes whose data the last backups were to save and have not. Those of a namespace count where no schedule has made its last one.
    fn volumes(&mut self, coverage: &Coverage, lists: &ExpiryInput) {
        let program = self.program;
        let of_schedules = coverage.schedules.iter().filter_map(|state| state.last_ended.as_ref());
        let of_schedules: BTreeSet<&str> = of_schedules.map(|last| last.backup.as_str()).collect();
        let of_namespaces = coverage.namespaces.iter().filter_map(|state| state.last_good_with_volumes.as_ref());
        let of_namespaces: BTreeSet<&str> = of_namespaces.map(|last| last.backup.as_str()).collect();
        for backup in &lists.backups {
            let (name, count) = (backup.metadata.name.as_str(), backup.status.unprotected_volumes);
            let is_last = match backup.schedule_label() {
                Some(_) => of_schedules.contains(name),
                None => of_namespaces.contains(name),
            };
            // One that was to save none is told of by its namespaces.
            if !is_last || count <= 0 || !saves_volumes(&backup.spec) {
                continue;
            }
            let what = match backup.schedule_label() {
                Some(schedule) => format!("backup {name}, the last one of schedule {schedule},"),
                None => format!("backup {name}"),
            };
            self.add(
                format!("{what} has not saved the data of {}", counted(count.unsigned_abs(), "volume")),
                format!("`{program} backup describe {name} --details` names them with the reasons, `{program} volume explain` what would have to change"),
            );
        }
    }

    /// Volumes that the next backups would not save, as the server says.
    fn next_backups(&mut self, next: Option<&NextBackups>) {
        let program = self.program;
        let Some(NextBackups { schedules, unknown }) = next else { return };
        for (schedule, NextBackup { unprotected, first, trouble }) in schedules {
            if *unprotected > 0 {
                let more = unprotected.saturating_sub(first.len() as u64);
                let more = if more == 0 { String::new() } else { format!(" and {more} more") };
                let (count, first) = (counted(*unprotected, "volume"), first.join(", "));
                self.add(
                    format!("the next backup of schedule {schedule} would not save the data of {count}: {first}{more}"),
                    format!(
                        "`{program} volume explain CLAIM --object-namespace NAMESPACE` says what would have to change"
                    ),
                );
            }
            if !trouble.is_empty() {
                self.add(
                    format!("not all is well with the next backup of schedule {schedule}: {trouble}"),
                    format!("`{program} schedule describe {schedule}`, `{program} volume explain`"),
                );
            }
        }
        if !unknown.is_empty() {
            self.add(
                format!("it is not known of all schedules what their next backups would do with volumes: {unknown}"),
                format!("`{program} volume explain` says it by your own rights"),
            );
        }
    }

    /// Deletions that wait for claims.
    fn deletions(&mut self, lists: &ExpiryInput) {
        for request in &lists.requests {
            let Some(claims) = claims_waited_for(request) else { continue };
            let (backup, made) = (&request.spec.backup_name, request.metadata.creation_timestamp);
            let since = made.map_or_else(String::new, |made| format!(" since {made}"));
            self.add(
                format!("the deletion of backup {backup} waits{since} for claims from its snapshots that have no volume yet ({claims})"),
                way_out_of_claims(request),
            );
        }
    }

    fn losses(&mut self, lists: &ExpiryInput) {
        let program = self.program;
        let requests: ByBackup<'_> = lists.requests.iter().collect();
        let member = |backup| lists.member(backup, requests.of(backup));
        let losses = losses_of_newest(lists.schedules.iter(), lists.backups.iter(), member);
        for LossOfNewest { schedule, backup, loss } in losses.into_values() {
            let (name, namespace) = (&schedule.metadata.name, &schedule.metadata.namespace);
            let keeps = match schedule.retention() {
                Ok(None) => format!("no rules keep the earlier ones, but `{program} backup hold {}` does", loss.before),
                _ => "its rules keep the earlier ones meanwhile".to_owned(),
            };
            let next = format!(
                "look whether the namespaces of schedule {name} are there (`{program} backup describe {backup} --details`); {keeps}. If \
                 it is as it should be: `kubectl annotate --overwrite -n {namespace} schedules.velero.io {name} {}=0`",
                well_known::ANNOTATION_SHRINK_THRESHOLD
            );
            self.add(format!("the last good backup of schedule {name}, {backup}, {loss}"), next);
        }
    }

    fn namespaces(&mut self, states: &[NamespaceState]) {
        let program = self.program;
        let bare: Vec<&NamespaceState> = states.iter().filter(|state| state.schedules.is_empty()).collect();
        if !bare.is_empty() {
            let names: Vec<&str> = bare.iter().map(|state| state.name.as_str()).collect();
            let claims = bare.iter().map(|state| state.claims).sum::<Option<u64>>();
            let claims =
                claims.map_or_else(String::new, |claims| format!(" ({} of volumes)", counted(claims, "claim")));
            let next = format!(
                "`{program} schedule create NAME --schedule '0 3 * * *' --include-namespaces {}`, or label a namespace that is to stay \
                 out: {}=true",
                names.join(","),
                well_known::LABEL_EXCLUDE_FROM_BACKUP
            );
            self.add(format!("no schedule saves {}{claims}", listed(&names)), next);
        }
        let leaves = |state: &&NamespaceState| {
            !state.schedules.is_empty() && state.claims > Some(0) && !state.volumes_are_scheduled
        };
        let without_volumes: Vec<&NamespaceState> = states.iter().filter(leaves).collect();
        if !without_volumes.is_empty() {
            let names: Vec<&str> = without_volumes.iter().map(|state| state.name.as_str()).collect();
            let schedules: BTreeSet<&str> =
                without_volumes.iter().flat_map(|state| &state.schedules).map(String::as_str).collect();
            let schedules: Vec<&str> = schedules.into_iter().collect();
            let next =
                format!("set `spec.template.snapshotVolumes` of schedule {} to true, or remove it", listed(&schedules));
            self.add(format!("the schedules of {} leave the data of volumes out", listed(&names)), next);
        }
    }

    /// Namespaces in whose good backups no volumes are, though a schedule is to save them: it has not run yet, or never well.
    fn volumes_to_come(&mut self, states: &[NamespaceState], lists: &ExpiryInput) {
        let program = self.program;
        let lacks = |state: &&NamespaceState| {
            let is_saved_without = state.last_good.is_some() && state.last_good_with_volumes.is_none();
            is_saved_without && state.claims > Some(0) && state.volumes_are_scheduled
        };
        let lacking: Vec<&NamespaceState> = states.iter().filter(lacks).collect();
        let with_volumes = lists.schedules.iter().filter(|one| saves_volumes(&one.spec.template));
        let with_volumes: BTreeSet<&str> = with_volumes.map(|one| one.metadata.name.as_str()).collect();
        let schedules = lacking.iter().flat_map(|state| &state.schedules).map(String::as_str);
        let schedules: BTreeSet<&str> = schedules.filter(|name| with_volumes.contains(name)).collect();
        let schedules: Vec<&str> = schedules.into_iter().collect();
        let Some(first) = schedules.first() else { return };
        let names: Vec<&str> = lacking.iter().map(|state| state.name.as_str()).collect();
        self.add(
            format!(
                "the good backups of {} leave the data of volumes out, and schedule {}, which is to save it, has none yet",
                listed(&names),
                listed(&schedules)
            ),
            format!("`{program} backup create --from-schedule {first}` saves it now"),
        );
    }

    /// Reports the lists that the user may not read.
    fn hidden(&mut self, inventory: &Inventory) {
        let (what, consequence, type_of_it) = match &inventory.namespaces {
            None => ("the namespaces of the cluster", "which of them are not protected", "namespaces"),
            Some(namespaces) if namespaces.iter().any(|one| one.claims.is_none()) => {
                let claims = "persistentvolumeclaims --all-namespaces";
                ("the persistent volume claims of all namespaces", "whose volumes are not protected", claims)
            }
            Some(_) => return,
        };
        let program = self.program;
        self.add(
            format!("you may not list {what}, so nobody knows {consequence}"),
            format!(
                "ask for the right to list {what} (`kubectl auth can-i list {type_of_it}` tells whether you have it), or have somebody run \
                 `{program} status` who has it"
            ),
        );
    }
}

/// The first of these names, and how many more there are.
fn listed(names: &[&str]) -> String {
    let first = names.iter().take(LISTED).copied().collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(LISTED);
    if more == 0 { first } else { format!("{first} and {more} more") }
}

/// When a location was validated last, where that is long ago; `None` too for one that is to be validated once only.
fn validated_long_ago(location: &BackupStorageLocation, now: Timestamp) -> Option<Time> {
    let frequency = location.spec.validation_frequency.map(lifeboat_api::Duration::nanoseconds);
    if frequency.is_some_and(|frequency| frequency <= 0) {
        return None;
    }
    let most = SignedDuration::from_nanos(frequency.unwrap_or_default().saturating_mul(MISSED)).max(UNSEEN);
    location.status.last_validation_time.filter(|at| now.duration_since(at.timestamp()) > most)
}

fn reason(lists: &ExpiryInput, backup: &str) -> String {
    let found = lists.backups.iter().find(|one| one.metadata.name == backup);
    let status = found.map(|found| &found.status);
    status.map_or_else(String::new, |status| because(&status.failure_reason, &status.validation_errors, status.errors))
}
