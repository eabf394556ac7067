//! The expiry of a backup (velero: pkg/controller/gc_controller.go), and the steps that follow when its time is over,
//! or soon will be while something keeps it.

use super::Decision;
use super::facts::{expiration, is_running};
use super::hold;
use super::keep::{Keeper, lasts_until, margin};
use super::kept_by::is_released_unrecorded;
use super::location::NoLocation;
use super::request::Requests;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{Backup, BackupStorageLocation, BackupStorageLocationPhase, Duration, KeptBy, well_known};
use std::fmt;

/// The outcome for a backup, if nothing changes but the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpiryOutcome {
    /// It goes at this time, which may be over.
    Goes(Timestamp),
    /// Its deletion is asked for, and not withdrawn.
    Going,
    /// Something keeps it.
    Kept,
    /// It is in progress, and comes to its end first.
    Runs,
    /// Its time is over, and nothing can be deleted from its location, nor written there: not even that something keeps it.
    Blocked(Obstacle),
    /// Its time is over, and it goes when this restore, which reads it, has ended.
    Read {
        /// The name of the restore.
        restore: String,
    },
    /// Another cluster, of this UID, has made it: it is left to that one to let it go.
    Elsewhere {
        /// The UID.
        cluster: String,
    },
    /// It has no expiration.
    Stays,
}

/// The next step for a backup whose time is over, or that something keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Say by its label why it stays.
    LabelFailure(Obstacle),
    /// Ask for its deletion.
    Delete,
    /// Move its expiration, in its record in the bucket and then here: this keeps it.
    Prolong {
        /// To this time.
        until: Timestamp,
        /// The reasons that keep it.
        by: Vec<Keeper>,
        /// The rules that are to be written beside it meanwhile.
        note: Option<Box<KeptBy>>,
    },
    /// Make its record in the bucket say the same of what keeps it.
    Record {
        /// The rules that are to be written beside it.
        note: Option<Box<KeptBy>>,
    },
}

/// The reason for which nothing can be deleted from the location of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The backup has none.
    NoLocation(NoLocation),
    /// This location may only be read.
    ReadOnly(String),
    /// This location does not answer.
    Unavailable(String),
}

impl Obstacle {
    /// Returns the reason for which nothing can be deleted from the location of a backup; `None` when deletions are
    /// possible.
    #[must_use]
    pub fn of(location: Result<&BackupStorageLocation, NoLocation>) -> Option<Self> {
        let location = match location {
            Ok(location) => location,
            Err(none) => return Some(Self::NoLocation(none)),
        };
        let name = || location.metadata.name.clone();
        if location.status.phase != Some(BackupStorageLocationPhase::Available) {
            return Some(Self::Unavailable(name()));
        }
        let is_read_only = location.is_read_only();
        is_read_only.then(|| Self::ReadOnly(name()))
    }

    /// The name of the location; `None` where the backup names none, and none is the default.
    #[must_use]
    pub fn location(&self) -> Option<&str> {
        match self {
            Self::NoLocation(NoLocation::NoDefault) => None,
            Self::NoLocation(NoLocation::Named(name)) | Self::ReadOnly(name) | Self::Unavailable(name) => Some(name),
        }
    }

    /// The value of the label; the words are Velero's.
    pub fn label(&self) -> &'static str {
        match self {
            Self::NoLocation(_) => "BSLNotFound",
            Self::ReadOnly(_) => "BSLReadOnly",
            Self::Unavailable(_) => "BSLUnavailable",
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLocation(why) => why.fmt(f),
            Self::ReadOnly(name) => write!(f, "location {name} is read-only"),
            Self::Unavailable(name) => write!(f, "location {name} is not available"),
        }
    }
}

/// Pause before a failed deletion is requested anew, when the server's flag does not set it.
const FREQUENCY: Duration = Duration::from_secs(3600);
/// Longest pause before a deletion that fails again and again is requested anew, unless the flag says more.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);

/// The facts beside the object of a backup that its expiry depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpiryFacts {
    /// The reason for which nothing can be changed in its location.
    pub obstacle: Option<Obstacle>,
    /// The requests to delete it.
    pub requests: Requests,
    /// The reasons that keep it.
    pub keepers: Vec<Keeper>,
    /// The name of a restore that reads it.
    pub restore: Option<String>,
    /// The UID of the other cluster that lets it go.
    pub elsewhere: Option<String>,
    /// Until when its location is spared.
    pub spared_until: Option<Timestamp>,
    /// The rules of its schedule, where its record does not say them yet.
    pub note: Option<Note>,
}

/// Rules that are to be written beside a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The rules.
    pub rules: KeptBy,
    /// True when they are written at once, false when they wait until the backup is written for another reason.
    pub at_once: bool,
}

/// Returns true if the hold or the rules that keep a backup were changed here, and its record does not say so yet.
pub fn is_to_be_recorded(backup: &Backup) -> bool {
    hold::is_to_be_recorded(&backup.metadata, backup.status.phase)
        || is_released_unrecorded(&backup.metadata) && hold::has_record(backup.status.phase)
}

/// From when on it is looked at what keeps a backup: before its time is over.
pub fn begins(backup: &Backup) -> Option<Timestamp> {
    Some(expiration(backup)?.saturating_sub(margin(backup)).unwrap_or(Timestamp::MIN))
}

/// Decides about the expiry of a backup. All actions and all messages about its expiry follow from this.
pub fn becomes(backup: &Backup, around: &ExpiryFacts, now: Timestamp) -> ExpiryOutcome {
    if backup.metadata.deletion_timestamp.is_some() || around.requests.cannot_be_withdrawn() {
        return ExpiryOutcome::Going;
    }
    match outcome_without_requests(backup, around, now) {
        ExpiryOutcome::Goes(end) if end > now => ExpiryOutcome::Goes(end),
        outcome @ (ExpiryOutcome::Kept | ExpiryOutcome::Elsewhere { .. } | ExpiryOutcome::Stays) => outcome,
        _ if around.requests.is_open => ExpiryOutcome::Going,
        outcome => outcome,
    }
}

/// The outcome if its deletion were not asked for.
fn outcome_without_requests(backup: &Backup, around: &ExpiryFacts, now: Timestamp) -> ExpiryOutcome {
    if is_running(backup) {
        return ExpiryOutcome::Runs;
    }
    // Nothing goes in the first hour of a location.
    let end = expiration(backup).map(|end| end.max(around.spared_until.unwrap_or(end)));
    let is_over = expiration(backup).is_some_and(|end| end <= now);
    match (&around.obstacle, &around.restore) {
        _ if around.keepers.is_empty()
            && end.is_some()
            && let Some(cluster) = &around.elsewhere =>
        {
            ExpiryOutcome::Elsewhere { cluster: cluster.clone() }
        }
        (Some(obstacle), _) if is_over => ExpiryOutcome::Blocked(obstacle.clone()),
        _ if !around.keepers.is_empty() => ExpiryOutcome::Kept,
        (_, Some(restore)) if is_over => ExpiryOutcome::Read { restore: restore.clone() },
        _ => end.map_or(ExpiryOutcome::Stays, ExpiryOutcome::Goes),
    }
}

/// Decides about the expiry of a backup, and the next step for it.
pub fn decide(
    backup: &Backup,
    around: &ExpiryFacts,
    frequency: Duration,
    now: Timestamp,
) -> (ExpiryOutcome, Decision<Step>) {
    let becomes = becomes(backup, around, now);
    let decision = next(&becomes, backup, around, frequency, now);
    (becomes, decision)
}

/// That nothing can be changed in the location of a backup is said once, when its time is over.
fn next(
    becomes: &ExpiryOutcome,
    backup: &Backup,
    around: &ExpiryFacts,
    frequency: Duration,
    now: Timestamp,
) -> Decision<Step> {
    let is_soon = begins(backup).is_some_and(|begins| begins <= now);
    let note = around.note.as_ref();
    let wait = |until: Option<Timestamp>| until.map_or(Decision::Rest, Decision::Wait);
    match becomes {
        ExpiryOutcome::Going | ExpiryOutcome::Runs => return Decision::Rest,
        ExpiryOutcome::Blocked(obstacle) => return label_failure(backup, obstacle),
        ExpiryOutcome::Elsewhere { .. } if around.obstacle.is_some() => return Decision::Rest,
        _ if around.obstacle.is_some() => return wait(expiration(backup)),
        ExpiryOutcome::Kept if is_soon => {
            let until = lasts_until(backup, &around.keepers, now);
            if let Some(until) = until.filter(|until| Some(*until) > expiration(backup)) {
                let note = note.map(|note| Box::new(note.rules.clone()));
                return Decision::Do(Step::Prolong { until, by: around.keepers.clone(), note });
            }
        }
        _ => {}
    }
    let note = note.filter(|note| note.at_once).map(|note| Box::new(note.rules.clone()));
    if note.is_some() || is_to_be_recorded(backup) {
        return Decision::Do(Step::Record { note });
    }
    match becomes {
        ExpiryOutcome::Goes(end) if *end <= now => {
            delete(expiration(backup).unwrap_or(*end), around.requests, frequency, now)
        }
        ExpiryOutcome::Goes(end) => Decision::Wait(*end),
        ExpiryOutcome::Kept => wait(if is_soon { expiration(backup) } else { begins(backup) }),
        _ => Decision::Rest,
    }
}

fn label_failure(backup: &Backup, obstacle: &Obstacle) -> Decision<Step> {
    let label = backup.metadata.labels.get(well_known::LABEL_GC_FAILURE).map(String::as_str);
    let is_said = label == Some(obstacle.label());
    if is_said { Decision::Rest } else { Decision::Do(Step::LabelFailure(obstacle.clone())) }
}

/// The time of a backup is over since its end. What has failed is asked for again after as long as it has been failing, so that the pauses
/// become longer.
fn delete(end: Timestamp, requests: Requests, frequency: Duration, now: Timestamp) -> Decision<Step> {
    let frequency = if frequency.nanoseconds() <= 0 { FREQUENCY } else { frequency };
    let pause = |failed: Timestamp| {
        SignedDuration::from_nanos(frequency.nanoseconds()).max(failed.duration_since(end).min(LONGEST))
    };
    // A time to come is that of another clock.
    let failed = requests.failed.filter(|failed| *failed <= now);
    match failed.and_then(|failed| failed.checked_add(pause(failed)).ok()) {
        Some(again) if again > now => Decision::Wait(again),
        _ => Decision::Do(Step::Delete),
    }
}

#[cfg(test)]
mod tests {
    use super::super::hold::Hold;
    use super::*;
    use lifeboat_api::{BackupPhase, Time};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn step(backup: &Backup, around: &ExpiryFacts, frequency: Duration, now: Timestamp) -> Decision<Step> {
        decide(backup, around, frequency, now).1
    }

    /// A backup whose time is over.
    fn over() -> Backup {
        let mut backup = Backup::default();
        backup.status.expiration = Some(Time::new(at(0)));
        backup
    }

    #[test]
    fn a_backup_goes_when_its_time_is_over() {
        use BackupPhase as P;
        let delete = Decision::Do(Step::Delete);
        let minute = Duration::from_secs(60);
        for (phase, requests, now, expected) in [
            (P::Completed, Requests::default(), 500, delete.clone()),
            (P::Failed, Requests::default(), 500, delete.clone()),
            (P::FailedValidation, Requests::default(), 500, delete.clone()),
            (P::InProgress, Requests::default(), 500, Decision::Rest),
            (P::WaitingForPluginOperations, Requests::default(), 500, Decision::Rest),
            (P::Finalizing, Requests::default(), 500, Decision::Rest),
            (P::Completed, Requests { is_open: true, ..Requests::default() }, 500, Decision::Rest),
            // It has failed, and is tried again.
            (P::Deleting, Requests { failed: Some(at(40)), ..Requests::default() }, 50, Decision::Wait(at(100))),
            (P::Deleting, Requests { failed: Some(at(40)), ..Requests::default() }, 100, delete.clone()),
            // It fails since long.
            (P::Deleting, Requests { failed: Some(at(480)), ..Requests::default() }, 900, Decision::Wait(at(960))),
            (
                P::Deleting,
                Requests { failed: Some(at(90_000)), ..Requests::default() },
                90_000,
                Decision::Wait(at(176_400)),
            ),
            // By another clock, and before its time was over.
            (P::Deleting, Requests { failed: Some(at(9000)), ..Requests::default() }, 540, delete.clone()),
            (P::Completed, Requests { failed: Some(at(-40)), ..Requests::default() }, 10, Decision::Wait(at(20))),
        ] {
            let mut backup = over();
            backup.status.phase = Some(phase);
            let around = ExpiryFacts { requests, ..ExpiryFacts::default() };
            assert_eq!(step(&backup, &around, minute, at(now)), expected, "{phase:?} {requests:?}");
            backup.metadata.deletion_timestamp = Some(Time::new(at(1)));
            assert_eq!(step(&backup, &around, minute, at(now)), Decision::Rest, "deleted: {phase:?}");
        }
        let failed = Requests { failed: Some(at(0)), ..Requests::default() };
        for unset in [Duration::ZERO, Duration::from_secs(-5)] {
            let around = ExpiryFacts { requests: failed, ..ExpiryFacts::default() };
            let decided = step(&over(), &around, unset, at(10));
            assert_eq!(decided, Decision::Wait(at(3600)), "every hour");
        }
        let around =
            ExpiryFacts { requests: Requests { failed: Some(at(90_000)), ..failed }, ..ExpiryFacts::default() };
        let two_days = Duration::from_secs(2 * 86_400);
        assert_eq!(step(&over(), &around, two_days, at(90_000)), Decision::Wait(at(90_000 + 2 * 86_400)));
    }

    #[test]
    fn why_a_backup_stays_is_said_once() {
        let location = |phase, mode| {
            let mut location = BackupStorageLocation::default();
            (location.status.phase, location.spec.access_mode) = (phase, mode);
            location
        };
        use BackupStorageLocationPhase::{Available, Unavailable};
        use lifeboat_api::BackupStorageLocationAccessMode::{ReadOnly, ReadWrite};
        for (location, expected) in [
            (None, Some("BSLNotFound")),
            (Some(location(Some(Available), None)), None),
            (Some(location(Some(Available), Some(ReadWrite))), None),
            (Some(location(Some(Available), Some(ReadOnly))), Some("BSLReadOnly")),
            (Some(location(Some(Unavailable), Some(ReadOnly))), Some("BSLUnavailable")),
            (Some(location(None, None)), Some("BSLUnavailable")),
        ] {
            let obstacle = Obstacle::of(location.as_ref().ok_or(NoLocation::Named("gone".into())));
            assert_eq!(obstacle.as_ref().map(Obstacle::label), expected);
            let Some(obstacle) = obstacle else { continue };
            let mut backup = over();
            let around = |keepers| ExpiryFacts { obstacle: Some(obstacle.clone()), keepers, ..ExpiryFacts::default() };
            let decided = |backup: &Backup| {
                let kept = step(backup, &around(vec![Keeper::Hold(Hold::Forever)]), Duration::ZERO, at(1));
                assert_eq!(step(backup, &around(vec![]), Duration::ZERO, at(1)), kept, "whether it is kept or not");
                kept
            };
            assert_eq!(decided(&backup), Decision::Do(Step::LabelFailure(obstacle.clone())));
            backup.metadata.labels.insert(well_known::LABEL_GC_FAILURE.into(), "else".into());
            assert_eq!(decided(&backup), Decision::Do(Step::LabelFailure(obstacle.clone())));
            backup.metadata.labels.insert(well_known::LABEL_GC_FAILURE.into(), obstacle.label().into());
            assert_eq!(decided(&backup), Decision::Rest);
        }
    }

    #[test]
    fn a_backup_that_a_restore_reads_goes_after_it() {
        let around = ExpiryFacts { restore: Some("r".into()), ..ExpiryFacts::default() };
        let decided = |now: i64| (becomes(&over(), &around, at(now)), step(&over(), &around, Duration::ZERO, at(now)));
        assert_eq!(decided(-1), (ExpiryOutcome::Goes(at(0)), Decision::Wait(at(0))));
        assert_eq!(decided(0), (ExpiryOutcome::Read { restore: "r".into() }, Decision::Rest));
    }

    #[test]
    fn what_is_kept_is_prolonged_before_its_time_is_over() {
        use BackupPhase as P;
        const DAY: i64 = 24 * 3600;
        let (rules, forever) =
            (Keeper::WrongRules { schedule: "s".into(), why: "x".into() }, Keeper::Hold(Hold::Forever));
        let held = |until: i64| Keeper::Hold(Hold::Until(at(until)));
        let prolonged = |until: i64, by: &Keeper| {
            Decision::Do(Step::Prolong { until: at(until), by: vec![by.clone()], note: None })
        };
        // Of an hour: half of it before its end.
        for (what, phase, keeper, end, now, expected) in [
            ("not yet", P::Completed, &rules, 7200, 5399, Decision::Wait(at(5400))),
            ("half an hour before", P::Completed, &rules, 7200, 5400, prolonged(5400 + DAY + 1800, &rules)),
            ("it is over", P::Failed, &forever, 7200, 9000, prolonged(9000 + DAY + 1800, &forever)),
            ("it lasts", P::Completed, &rules, 5400 + DAY + 1800, 5400, Decision::Wait(at(5400 + DAY))),
            ("as long as it is held", P::Completed, &held(7300), 7200, 5400, prolonged(7300, &held(7300))),
            ("it lasts longer than it is held", P::Completed, &held(7100), 7200, 5400, Decision::Wait(at(7200))),
            ("it runs", P::InProgress, &forever, 7200, 9000, Decision::Rest),
        ] {
            let mut backup = Backup::default();
            backup.spec.ttl = Duration::from_secs(3600);
            backup.status.phase = Some(phase);
            backup.status.expiration = Some(Time::new(at(end)));
            let around = || ExpiryFacts { keepers: vec![keeper.clone()], ..ExpiryFacts::default() };
            assert_eq!(step(&backup, &around(), Duration::ZERO, at(now)), expected, "{what}");
            let asked = Requests { is_open: true, ..Requests::default() };
            let decided = step(&backup, &ExpiryFacts { requests: asked, ..around() }, Duration::ZERO, at(now));
            assert_eq!(decided, Decision::Rest, "its deletion is asked for: {what}");
        }
    }

    #[test]
    fn what_expiry_has_asked_for_goes_only_while_nothing_keeps_it() {
        let asked = Requests { is_open: true, may_be_withdrawn: true, ..Requests::default() };
        let facts = || ExpiryFacts { requests: asked, ..ExpiryFacts::default() };
        let kept = || ExpiryFacts { keepers: vec![Keeper::Hold(Hold::Forever)], ..facts() };
        let elsewhere = || ExpiryFacts { elsewhere: Some("c".into()), ..facts() };
        let read = || ExpiryFacts { restore: Some("r".into()), ..facts() };
        let obstacle = Some(Obstacle::ReadOnly("main".into()));
        for (what, around, now, expected) in [
            ("nothing keeps it", facts(), 10, ExpiryOutcome::Going),
            ("a restore reads it", read(), 10, ExpiryOutcome::Going),
            ("nothing can be deleted", ExpiryFacts { obstacle, ..facts() }, 10, ExpiryOutcome::Going),
            ("it is held since", kept(), 10, ExpiryOutcome::Kept),
            ("another cluster has it again", elsewhere(), 10, ExpiryOutcome::Elsewhere { cluster: "c".into() }),
            ("its time was moved", facts(), -10, ExpiryOutcome::Goes(at(0))),
            (
                "its location was found anew",
                ExpiryFacts { spared_until: Some(at(20)), ..facts() },
                10,
                ExpiryOutcome::Goes(at(20)),
            ),
        ] {
            assert_eq!(becomes(&over(), &around, at(now)), expected, "{what}");
            let for_good = Requests { may_be_withdrawn: false, ..asked };
            let around = ExpiryFacts { requests: for_good, ..around };
            assert_eq!(becomes(&over(), &around, at(now)), ExpiryOutcome::Going, "a user has asked: {what}");
        }
        let mut running = over();
        running.status.phase = Some(BackupPhase::InProgress);
        assert_eq!(becomes(&running, &kept(), at(10)), ExpiryOutcome::Going);
        let until = at(10 + 2 * 86_400);
        let prolonged = Step::Prolong { until, by: kept().keepers, note: None };
        assert_eq!(step(&over(), &kept(), Duration::ZERO, at(10)), Decision::Do(prolonged));
    }

    #[test]
    fn a_hold_is_recorded_when_the_backup_has_ended() {
        let mut backup = over();
        backup.metadata.annotations.insert(well_known::ANNOTATION_HOLD.into(), "forever".into());
        let around = || ExpiryFacts { keepers: vec![Keeper::Hold(Hold::Forever)], ..ExpiryFacts::default() };
        let decided = |backup: &Backup| step(backup, &around(), Duration::ZERO, at(-9_000_000));
        backup.status.phase = Some(BackupPhase::Queued);
        assert_eq!(decided(&backup), Decision::Wait(at(-24 * 3600)));
        backup.status.phase = Some(BackupPhase::PartiallyFailed);
        assert_eq!(decided(&backup), Decision::Do(Step::Record { note: None }));
        backup.status.expiration = None;
        assert_eq!(decided(&backup), Decision::Do(Step::Record { note: None }));
        backup.metadata.annotations.insert(well_known::ANNOTATION_HOLD_RECORDED.into(), "forever".into());
        assert_eq!(decided(&backup), Decision::Rest);
        // Released: the record is told before it goes.
        backup.metadata.annotations.remove(well_known::ANNOTATION_HOLD);
        backup.status.expiration = Some(Time::new(at(0)));
        assert_eq!(
            step(&backup, &ExpiryFacts::default(), Duration::ZERO, at(1)),
            Decision::Do(Step::Record { note: None })
        );
    }

    #[test]
    fn in_the_first_hour_of_a_location_nothing_goes_by_time_alone() {
        let around = ExpiryFacts { spared_until: Some(at(3600)), ..ExpiryFacts::default() };
        let decided = |now: i64| (becomes(&over(), &around, at(now)), step(&over(), &around, Duration::ZERO, at(now)));
        assert_eq!(decided(3599), (ExpiryOutcome::Goes(at(3600)), Decision::Wait(at(3600))));
        assert_eq!(decided(3600), (ExpiryOutcome::Goes(at(3600)), Decision::Do(Step::Delete)));
    }

    #[test]
    fn a_backup_of_another_cluster_is_left_to_that_one() {
        let elsewhere = || ExpiryFacts { elsewhere: Some("a".into()), ..ExpiryFacts::default() };
        let blocked = || ExpiryFacts { obstacle: Some(Obstacle::ReadOnly("l".into())), ..elsewhere() };
        for around in [elsewhere(), blocked()] {
            let decided = (becomes(&over(), &around, at(1)), step(&over(), &around, Duration::ZERO, at(1)));
            assert_eq!(decided, (ExpiryOutcome::Elsewhere { cluster: "a".into() }, Decision::Rest));
        }
        // Somebody here holds it.
        let held = ExpiryFacts { keepers: vec![Keeper::Hold(Hold::Forever)], ..elsewhere() };
        assert!(matches!(step(&over(), &held, Duration::ZERO, at(1)), Decision::Do(Step::Prolong { .. })));
    }

    #[test]
    fn rules_of_the_newest_are_recorded_at_once_and_others_when_prolonged() {
        let mut backup = over();
        backup.status.phase = Some(BackupPhase::Completed);
        backup.status.expiration = Some(Time::new(at(9_000_000)));
        let rules = || KeptBy { schedule: "s".into(), ..KeptBy::default() };
        let keepers = || vec![Keeper::Rules { schedule: "s".into(), rules: vec![] }];
        let around = |at_once| ExpiryFacts {
            keepers: keepers(),
            note: Some(Note { rules: rules(), at_once }),
            ..ExpiryFacts::default()
        };
        let decided = |at_once, now| step(&backup, &around(at_once), Duration::ZERO, at(now));
        let begins = 9_000_000 - 24 * 3600;
        assert_eq!(decided(true, 1), Decision::Do(Step::Record { note: Some(Box::new(rules())) }));
        assert_eq!(decided(false, 1), Decision::Wait(at(begins)));
        for at_once in [true, false] {
            let Decision::Do(Step::Prolong { note, .. }) = decided(at_once, begins) else { panic!("{at_once}") };
            assert_eq!(note, Some(Box::new(rules())));
        }
        let blocked = ExpiryFacts { obstacle: Some(Obstacle::ReadOnly("l".into())), ..around(true) };
        assert_eq!(step(&backup, &blocked, Duration::ZERO, at(1)), Decision::Wait(at(9_000_000)));
    }

    #[test]
    fn a_release_is_recorded_before_the_backup_goes() {
        let mut backup = over();
        backup.status.phase = Some(BackupPhase::Completed);
        let released = r#"{"schedule":"s","released":"2026-11-22T00:00:00Z"}"#;
        backup.metadata.annotations.insert(well_known::ANNOTATION_KEPT_BY.into(), released.into());
        let decided = |backup: &Backup| step(backup, &ExpiryFacts::default(), Duration::ZERO, at(1));
        assert_eq!(decided(&backup), Decision::Do(Step::Record { note: None }));
        let recorded = released.replace("}", r#","recorded":true}"#);
        backup.metadata.annotations.insert(well_known::ANNOTATION_KEPT_BY.into(), recorded);
        assert_eq!(decided(&backup), Decision::Do(Step::Delete));
    }
}
