//! Backups whose time is over (api-and-controllers.md 3.8).

use super::Decision;
use super::backup::is_running;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{
    Backup, BackupStorageLocation, BackupStorageLocationAccessMode, BackupStorageLocationPhase, Duration, Time,
    well_known,
};

/// What to do with a backup whose time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Say by its label why it stays.
    Keep(Obstacle),
    /// Ask for its deletion.
    Delete,
}

/// Why a backup stays whose time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// There is no such location.
    NoLocation,
    /// The location may only be read.
    ReadOnly,
    /// The location does not answer.
    Unavailable,
}

impl Obstacle {
    /// Why nothing can be deleted from this location; `None` when something can.
    pub(crate) fn of(location: Option<&BackupStorageLocation>) -> Option<Self> {
        let Some(location) = location else { return Some(Self::NoLocation) };
        if location.status.phase != Some(BackupStorageLocationPhase::Available) {
            return Some(Self::Unavailable);
        }
        (location.spec.access_mode == Some(BackupStorageLocationAccessMode::ReadOnly)).then_some(Self::ReadOnly)
    }

    /// The value of the label; the words are Velero's.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::NoLocation => "BSLNotFound",
            Self::ReadOnly => "BSLReadOnly",
            Self::Unavailable => "BSLUnavailable",
        }
    }
}

/// Whether there are requests to delete a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    /// One is not processed yet.
    pub(crate) is_open: bool,
    /// When the newest was made of those that have failed.
    pub(crate) failed: Option<Timestamp>,
}

/// A deletion that has failed is asked for again after so long when the server's flag does not say.
const FREQUENCY: Duration = Duration::from_secs(3600);

/// When the time of a backup is over; `None` for one that has not begun.
pub(crate) fn end(backup: &Backup) -> Option<Timestamp> {
    backup.status.expiration.map(Time::timestamp)
}

/// Decides for a backup whose time is over. What keeps it is said once.
pub(crate) fn step(
    backup: &Backup,
    obstacle: Option<Obstacle>,
    requests: Requests,
    frequency: Duration,
    now: Timestamp,
) -> Decision<Step> {
    // One in progress comes to its end first.
    if backup.metadata.deletion_timestamp.is_some() || is_running(backup) || requests.is_open {
        return Decision::Rest;
    }
    if let Some(obstacle) = obstacle {
        let said = backup.metadata.labels.get(well_known::LABEL_GC_FAILURE).map(String::as_str);
        let is_said = said == Some(obstacle.label());
        return if is_said { Decision::Rest } else { Decision::Do(Step::Keep(obstacle)) };
    }
    let frequency = if frequency.nanoseconds() <= 0 { FREQUENCY } else { frequency };
    let pause = SignedDuration::from_nanos(frequency.nanoseconds());
    // A time to come is that of another clock.
    let failed = requests.failed.filter(|failed| *failed <= now);
    match failed.and_then(|failed| failed.checked_add(pause).ok()) {
        Some(again) if again > now => Decision::Wait(again),
        _ => Decision::Do(Step::Delete),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::BackupPhase;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
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
            (P::Completed, Requests { is_open: true, failed: None }, 500, Decision::Rest),
            // It has failed, and is tried again.
            (P::Deleting, Requests { is_open: false, failed: Some(at(480)) }, 500, Decision::Wait(at(540))),
            (P::Deleting, Requests { is_open: false, failed: Some(at(480)) }, 540, delete.clone()),
            (P::Deleting, Requests { is_open: false, failed: Some(at(9000)) }, 540, delete.clone()),
        ] {
            let mut backup = Backup::default();
            backup.status.phase = Some(phase);
            assert_eq!(step(&backup, None, requests, minute, at(now)), expected, "{phase:?} {requests:?}");
            backup.metadata.deletion_timestamp = Some(Time::new(at(1)));
            assert_eq!(step(&backup, None, requests, minute, at(now)), Decision::Rest, "deleted: {phase:?}");
        }
        let failed = Requests { is_open: false, failed: Some(at(0)) };
        for unset in [Duration::ZERO, Duration::from_secs(-5)] {
            let decided = step(&Backup::default(), None, failed, unset, at(10));
            assert_eq!(decided, Decision::Wait(at(3600)), "every hour");
        }
    }

    #[test]
    fn why_a_backup_stays_is_said_once() {
        let location = |phase, mode| {
            let mut location = BackupStorageLocation::default();
            (location.status.phase, location.spec.access_mode) = (phase, mode);
            location
        };
        use BackupStorageLocationAccessMode::{ReadOnly, ReadWrite};
        use BackupStorageLocationPhase::{Available, Unavailable};
        for (location, expected) in [
            (None, Some("BSLNotFound")),
            (Some(location(Some(Available), None)), None),
            (Some(location(Some(Available), Some(ReadWrite))), None),
            (Some(location(Some(Available), Some(ReadOnly))), Some("BSLReadOnly")),
            (Some(location(Some(Unavailable), Some(ReadOnly))), Some("BSLUnavailable")),
            (Some(location(None, None)), Some("BSLUnavailable")),
        ] {
            let obstacle = Obstacle::of(location.as_ref());
            assert_eq!(obstacle.map(Obstacle::label), expected);
            let Some(obstacle) = obstacle else { continue };
            let mut backup = Backup::default();
            let decided = |backup: &Backup| step(backup, Some(obstacle), Requests::default(), Duration::ZERO, at(1));
            assert_eq!(decided(&backup), Decision::Do(Step::Keep(obstacle)));
            backup.metadata.labels.insert(well_known::LABEL_GC_FAILURE.into(), "else".into());
            assert_eq!(decided(&backup), Decision::Do(Step::Keep(obstacle)));
            backup.metadata.labels.insert(well_known::LABEL_GC_FAILURE.into(), obstacle.label().into());
            assert_eq!(decided(&backup), Decision::Rest);
        }
    }
}
