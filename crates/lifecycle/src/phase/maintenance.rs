//! The maintenance of repositories: when it is due, and what is noted of its runs.

use super::Decision;
use super::repository::MAINTENANCE_FREQUENCY;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{
    BackupRepository, BackupRepositoryMaintenanceResult as Result, BackupRepositoryMaintenanceStatus,
    BackupRepositoryPhase, BackupRepositoryStatus, BackupStorageLocation, BackupStorageLocationPhase, Duration, Time,
    UploaderType,
};

/// The time after a run that failed, before the next one; less where the repository is maintained more often.
pub const RETRY: Duration = Duration::from_secs(300);
/// The most runs that the status of a repository keeps.
pub const MOST_RUNS: usize = 25;

/// The reason for which a repository, whose location is this one, is not maintained; `None` where it is.
#[must_use]
pub fn obstacle(repository: &BackupRepository, location: &BackupStorageLocation) -> Option<&'static str> {
    if repository.metadata.deletion_timestamp.is_some() {
        Some("the BackupRepository is being deleted")
    } else if repository.spec.repository_type != UploaderType::Kopia {
        Some("only repositories of kopia are maintained")
    } else if repository.status.phase != Some(BackupRepositoryPhase::Ready) {
        Some("the repository is not Ready")
    } else if location.is_read_only() {
        Some("the storage location is ReadOnly")
    } else if location.status.phase == Some(BackupStorageLocationPhase::Unavailable) {
        Some("the storage location is Unavailable")
    } else {
        None
    }
}

/// Tells when a repository is maintained next, whose location is this one. One with an [`obstacle`] is left alone.
#[must_use]
pub fn next(repository: &BackupRepository, location: &BackupStorageLocation, now: Timestamp) -> Decision<()> {
    let status = &repository.status;
    if obstacle(repository, location).is_some() {
        return Decision::Rest;
    }
    let frequency = match repository.spec.maintenance_frequency {
        none if none <= Duration::ZERO => MAINTENANCE_FREQUENCY,
        frequency => frequency,
    };
    let after = |time: Option<Time>, pause: Duration| {
        let pause = SignedDuration::from_nanos(pause.nanoseconds());
        time.map(|time| time.timestamp().checked_add(pause).unwrap_or(Timestamp::MAX))
    };
    let failed = status.recent_maintenance.last().filter(|run| run.result == Some(Result::Failed));
    let retry = after(failed.and_then(|run| run.complete_timestamp), RETRY.min(frequency));
    match after(status.last_maintenance_time, frequency).max(retry) {
        Some(due) if due > now => Decision::Wait(due),
        _ => Decision::Do(()),
    }
}

/// Adds runs that have ended to those that a status has, and gives the ones that were not there. The newest are kept, the oldest first.
/// The time of the last maintenance is that of the last success.
pub fn note_runs(
    status: &mut BackupRepositoryStatus,
    ended: Vec<BackupRepositoryMaintenanceStatus>,
) -> Vec<BackupRepositoryMaintenanceStatus> {
    let known: Vec<Option<Time>> = status.recent_maintenance.iter().map(|run| run.start_timestamp).collect();
    let is_new = |run: &BackupRepositoryMaintenanceStatus| !known.contains(&run.start_timestamp);
    let mut all = std::mem::take(&mut status.recent_maintenance);
    all.extend(ended.into_iter().filter(&is_new));
    all.sort_by_key(|run| run.start_timestamp);
    all.drain(..all.len().saturating_sub(MOST_RUNS));
    let new: Vec<_> = all.iter().filter(|run| is_new(run)).cloned().collect();
    let succeeded = new.iter().filter(|run| run.result == Some(Result::Succeeded));
    let last = succeeded.filter_map(|run| run.complete_timestamp).max();
    status.last_maintenance_time = status.last_maintenance_time.max(last);
    status.recent_maintenance = all;
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::BackupStorageLocationAccessMode;

    fn at(minute: i64) -> Time {
        Time::new(Timestamp::from_second(1_795_000_000 + minute * 60).unwrap())
    }

    fn run(minute: i64, result: Result) -> BackupRepositoryMaintenanceStatus {
        let message = if result == Result::Failed { "no".to_owned() } else { String::new() };
        BackupRepositoryMaintenanceStatus {
            result: Some(result),
            start_timestamp: Some(at(minute)),
            complete_timestamp: Some(at(minute + 1)),
            message,
            ..Default::default()
        }
    }

    /// Ready, maintained at minute 0, each hour.
    fn repository() -> BackupRepository {
        let mut repository = BackupRepository::default();
        repository.spec.repository_type = UploaderType::Kopia;
        repository.spec.maintenance_frequency = Duration::from_secs(3600);
        repository.status.phase = Some(BackupRepositoryPhase::Ready);
        repository.status.last_maintenance_time = Some(at(0));
        repository
    }

    fn after(change: impl Fn(&mut BackupRepository), minute: i64) -> Decision<()> {
        let mut repository = repository();
        change(&mut repository);
        next(&repository, &BackupStorageLocation::default(), at(minute).timestamp())
    }

    fn wait(minute: i64) -> Decision<()> {
        Decision::Wait(at(minute).timestamp())
    }

    #[test]
    fn a_repository_is_maintained_as_often_as_it_says() {
        let often = |minutes: i64| {
            move |repository: &mut BackupRepository| {
                repository.spec.maintenance_frequency = Duration::from_secs(minutes * 60);
            }
        };
        assert_eq!((after(|_| {}, 59), after(|_| {}, 60)), (wait(60), Decision::Do(())));
        assert_eq!((after(often(5), 4), after(often(5), 5)), (wait(5), Decision::Do(())));
        assert_eq!((after(often(0), 59), after(often(-1), 60)), (wait(60), Decision::Do(())));
        assert_eq!(after(|repository| repository.status.last_maintenance_time = None, 0), Decision::Do(()));
        assert_eq!(after(often(i64::MAX / 60_000_000_000), 1 << 20), wait(i64::MAX / 60_000_000_000));
    }

    #[test]
    fn a_run_that_failed_is_followed_by_another_in_five_minutes() {
        let failed = |minutes: i64| {
            move |repository: &mut BackupRepository| {
                repository.spec.maintenance_frequency = Duration::from_secs(minutes * 60);
                repository.status.recent_maintenance = vec![run(70, Result::Failed)];
            }
        };
        assert_eq!((after(failed(60), 75), after(failed(60), 76)), (wait(76), Decision::Do(())));
        assert_eq!((after(failed(1), 71), after(failed(1), 72)), (wait(72), Decision::Do(())));
        let mended = |repository: &mut BackupRepository| {
            repository.status.recent_maintenance = vec![run(10, Result::Failed), run(20, Result::Succeeded)];
            repository.status.last_maintenance_time = Some(at(21));
        };
        assert_eq!(after(mended, 30), wait(81));
    }

    #[test]
    fn repositories_that_cannot_be_maintained_are_left_alone() {
        let late = 1000;
        assert_eq!(after(|r| r.status.phase = Some(BackupRepositoryPhase::NotReady), late), Decision::Rest);
        assert_eq!(after(|r| r.status.phase = None, late), Decision::Rest);
        assert_eq!(after(|r| r.spec.repository_type = UploaderType::Restic, late), Decision::Rest);
        assert_eq!(after(|r| r.metadata.deletion_timestamp = Some(at(0)), late), Decision::Rest);
        let of = |change: &dyn Fn(&mut BackupStorageLocation)| {
            let mut location = BackupStorageLocation::default();
            change(&mut location);
            next(&repository(), &location, at(late).timestamp())
        };
        assert_eq!(of(&|l| l.spec.access_mode = Some(BackupStorageLocationAccessMode::ReadOnly)), Decision::Rest);
        assert_eq!(of(&|l| l.status.phase = Some(BackupStorageLocationPhase::Unavailable)), Decision::Rest);
        assert_eq!(of(&|l| l.status.phase = Some(BackupStorageLocationPhase::Available)), Decision::Do(()));
    }

    #[test]
    fn the_status_has_the_last_twenty_five_runs_the_oldest_first() {
        let mut status = BackupRepositoryStatus { last_maintenance_time: Some(at(0)), ..Default::default() };
        let first: Vec<_> = (0..20).map(|n| run(n * 10, Result::Succeeded)).collect();
        assert_eq!(note_runs(&mut status, first.clone()), first);
        assert_eq!((&status.recent_maintenance, status.last_maintenance_time), (&first, Some(at(191))));
        // A Job that was recorded is found again, and one that ended while no server ran.
        let more: Vec<_> = (19..30).rev().map(|n| run(n * 10, Result::Failed)).collect();
        let expected: Vec<_> = (20..30).map(|n| run(n * 10, Result::Failed)).collect();
        assert_eq!(note_runs(&mut status, more.clone()), expected);
        assert_eq!(status.recent_maintenance, [&first[5..], &expected[..]].concat());
        assert_eq!(status.last_maintenance_time, Some(at(191)), "a failure is no maintenance");
        let before = status.clone();
        assert_eq!(note_runs(&mut status, more), []);
        // One that is older than all that are kept is not noted again and again.
        assert_eq!(note_runs(&mut status, vec![run(1, Result::Succeeded)]), []);
        assert_eq!(status, before);
    }
}
