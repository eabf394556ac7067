//! Facts that the object of a backup tells, each computed in one place.

use super::CLOCK_SKEW;
use super::schedule::run_time;
use super::taken_over::is_of_another_cluster;
use jiff::Timestamp;
use lifeboat_api::{Backup, BackupPhase, BackupSpec, Time};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Returns true if a backup waits for its turn.
pub fn waits(backup: &Backup) -> bool {
    use BackupPhase as P;
    matches!(backup.status.phase, None | Some(P::New | P::Queued | P::ReadyToStart))
}

/// Returns true if a backup has begun and not ended. Decided by its phase, so that it is known after a restart too.
#[must_use]
pub fn is_running(backup: &Backup) -> bool {
    let runs =
        |phase: BackupPhase| phase == BackupPhase::InProgress || phase.waits_for_operations() || phase.is_finalizing();
    backup.status.phase.is_some_and(runs)
}

/// Returns true if a backup has ended with a known outcome. The phase `Deleting` hides the outcome.
pub fn has_ended(backup: &Backup) -> bool {
    use BackupPhase as P;
    matches!(backup.status.phase, Some(P::Completed | P::PartiallyFailed | P::Failed | P::FailedValidation))
}

/// Returns true if a backup can be restored and will stay, as far as its object tells. `deletion_is_asked`: a request
/// for its deletion exists.
pub fn is_good(backup: &Backup, deletion_is_asked: bool) -> bool {
    backup.status.phase == Some(BackupPhase::Completed) && is_good_or_with_errors(backup, deletion_is_asked)
}

/// As [`is_good`], also of a backup that ended with errors and lacks what they name.
pub fn is_good_or_with_errors(backup: &Backup, deletion_is_asked: bool) -> bool {
    let is_deleted = deletion_is_asked || backup.metadata.deletion_timestamp.is_some();
    backup.status.phase.is_some_and(BackupPhase::has_contents) && !is_deleted
}

/// Returns true if it saves the data of volumes, as far as it is not told to leave them out.
pub fn saves_volumes(spec: &BackupSpec) -> bool {
    spec.snapshot_volumes != Some(false)
}

/// Returns true if the deletion of a backup has begun. It may be half gone, and a hold comes too late.
#[must_use]
pub fn deletion_has_begun(backup: &Backup) -> bool {
    backup.status.phase == Some(BackupPhase::Deleting)
}

/// When its time is over; `None` for one that has not begun.
pub fn expiration(backup: &Backup) -> Option<Timestamp> {
    backup.status.expiration.map(Time::timestamp)
}

/// When it began, or else was made: one that was refused, or ended in the queue, never began.
fn began(backup: &Backup) -> Option<Timestamp> {
    backup.status.start_timestamp.or(backup.metadata.creation_timestamp).map(Time::timestamp)
}

/// The time that a backup of a schedule stands for: that of the run that it was made for, or else when it began. A run that is later
/// than the making of its backup is of a clock that was wrong, or of a name that somebody gave: with it, a backup would count as the
/// newest until that time comes, so it stands for the time when it was made, by the clock of the API server.
pub fn stands_for(schedule: &str, backup: &Backup) -> Option<Timestamp> {
    let made = backup.metadata.creation_timestamp.map(Time::timestamp);
    let Some(run) = run_time(schedule, &backup.metadata.name) else { return began(backup) };
    Some(made.filter(|made| run.duration_since(*made) > CLOCK_SKEW).unwrap_or(run))
}

/// The backups that this cluster, whose UID is `this`, has made, the newest first.
pub fn own_newest_first<'b>(backups: impl Iterator<Item = &'b Backup>, this: &str) -> Vec<&'b Backup> {
    let mut own: Vec<&Backup> = backups.filter(|backup| !is_of_another_cluster(backup, this)).collect();
    own.sort_by_key(|backup| Reverse((began(backup), &backup.metadata.name)));
    own
}

/// The newest backup of each schedule that has ended, by the label of the schedule; by an empty one that of no schedule. Those of
/// another cluster say nothing of a schedule of ours that has the name of one of its.
pub fn newest_ended<'b>(backups: impl Iterator<Item = &'b Backup>, this: &str) -> BTreeMap<&'b str, &'b Backup> {
    let mut newest: BTreeMap<&str, &Backup> = BTreeMap::new();
    for backup in backups.filter(|backup| has_ended(backup) && !is_of_another_cluster(backup, this)) {
        // A label that is too short for the name of its schedule has no runs: its backups stand for when they began, all of them.
        let label = backup.schedule_label().unwrap_or_default();
        let place = |backup: &'b Backup| (stands_for(label, backup), &backup.metadata.name);
        let other = newest.entry(label).or_insert(backup);
        if place(other) < place(backup) {
            *other = backup;
        }
    }
    newest
}

#[cfg(test)]
mod tests {
    use super::super::taken_over::note_taken_over;
    use super::*;
    use lifeboat_api::well_known;

    fn at(text: &str) -> Timestamp {
        format!("2026-11-{text}Z").parse().unwrap()
    }

    fn backup(name: &str, made: Option<&str>, began: Option<&str>) -> Backup {
        let mut backup = Backup::default();
        backup.metadata.name = name.into();
        let time = |text: Option<&str>| text.map(|text| Time::new(at(text)));
        backup.metadata.creation_timestamp = time(made);
        backup.status.start_timestamp = time(began);
        backup
    }

    #[test]
    fn a_phase_says_whether_a_backup_waits_runs_or_has_ended() {
        use BackupPhase as P;
        const WAITS: [bool; 4] = [true, false, false, false];
        const RUNS: [bool; 4] = [false, true, false, false];
        const ENDED: [bool; 4] = [false, false, true, false];
        const GOES: [bool; 4] = [false, false, false, true];
        for (phase, expected) in [
            (None, WAITS),
            (Some(P::New), WAITS),
            (Some(P::Queued), WAITS),
            (Some(P::ReadyToStart), WAITS),
            (Some(P::InProgress), RUNS),
            (Some(P::WaitingForPluginOperations), RUNS),
            (Some(P::WaitingForPluginOperationsPartiallyFailed), RUNS),
            (Some(P::Finalizing), RUNS),
            (Some(P::FinalizingPartiallyFailed), RUNS),
            (Some(P::FailedValidation), ENDED),
            (Some(P::Completed), ENDED),
            (Some(P::PartiallyFailed), ENDED),
            (Some(P::Failed), ENDED),
            (Some(P::Deleting), GOES),
        ] {
            let mut backup = Backup::default();
            backup.status.phase = phase;
            let found = [waits(&backup), is_running(&backup), has_ended(&backup), deletion_has_begun(&backup)];
            assert_eq!(found, expected, "{phase:?}");
            assert_eq!(is_good(&backup, false), phase == Some(P::Completed), "{phase:?}");
            assert!(!is_good(&backup, true), "{phase:?}");
            backup.metadata.deletion_timestamp = Some(Time::new(Timestamp::UNIX_EPOCH));
            assert!(!is_good(&backup, false), "{phase:?}");
        }
    }

    #[test]
    fn a_backup_stands_for_its_run_unless_that_is_later_than_its_making() {
        let (run, late) = ("nightly-20261122030000", Some("22T05:00:00"));
        for (name, made, began, expected) in [
            (run, None, None, Some("22T03:00:00")),
            (run, late, late, Some("22T03:00:00")),
            (run, Some("22T02:59:00"), late, Some("22T03:00:00")),
            (run, Some("22T02:58:59"), late, Some("22T02:58:59")),
            ("nightly-29991122030000", Some("22T02:58:59"), Some("30T00:00:00"), Some("22T02:58:59")),
            ("by-hand", Some("22T02:58:59"), late, late),
            ("by-hand", late, None, late),
            ("by-hand", None, None, None),
        ] {
            let found = stands_for("nightly", &backup(name, made, began));
            assert_eq!(found, expected.map(at), "{name} {made:?} {began:?}");
        }
    }

    #[test]
    fn the_newest_that_ended_of_a_schedule_is_that_of_its_last_run() {
        use BackupPhase as P;
        let of = |label: &str, name: &str, phase: P, began: Option<&str>| {
            let mut backup = backup(name, None, began);
            backup.status.phase = Some(phase);
            if !label.is_empty() {
                backup.metadata.labels.insert(well_known::LABEL_SCHEDULE_NAME.into(), label.into());
            }
            backup
        };
        let mut others = of("nightly", "nightly-20261125030000", P::Completed, None);
        note_taken_over(&mut others.metadata, false);
        let all = [
            of("nightly", "nightly-20261122030000", P::Completed, Some("22T03:00:01")),
            // It never began.
            of("nightly", "nightly-20261123030000", P::FailedValidation, None),
            of("nightly", "nightly-20261124030000", P::InProgress, Some("24T03:00:01")),
            of("nightly", "nightly-20261121030000", P::Deleting, Some("25T03:00:01")),
            others,
            of("short-label", "long-name-20261122030000", P::Completed, Some("22T03:00:01")),
            of("short-label", "long-name-20261121030000", P::Failed, Some("22T03:00:02")),
            of("", "by-hand", P::PartiallyFailed, Some("20T03:00:01")),
        ];
        let found: Vec<(&str, &str)> =
            newest_ended(all.iter(), "").into_iter().map(|(label, b)| (label, b.metadata.name.as_str())).collect();
        let expected =
            [("", "by-hand"), ("nightly", "nightly-20261123030000"), ("short-label", "long-name-20261121030000")];
        assert_eq!(found, expected);
    }
}
