//! Storage locations: when to check and when to search them, and which one is the default (api-and-controllers.md 3.6,
//! 5.1 and 5.2).

use super::Decision;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{
    BackupStorageLocation, BackupStorageLocationAccessMode, BackupStorageLocationPhase, Duration, Time,
};

/// When to check a location. `server` is the frequency of locations that name none.
pub(crate) fn validation(location: &BackupStorageLocation, server: Duration, now: Timestamp) -> Decision<()> {
    due(location.status.last_validation_time, location.spec.validation_frequency, server, now, true)
}

/// When to search a location for backups. `server` is the period of locations that name none.
pub(crate) fn sync(location: &BackupStorageLocation, server: Duration, now: Timestamp) -> Decision<()> {
    if location.status.phase != Some(BackupStorageLocationPhase::Available) {
        return Decision::Rest;
    }
    due(location.status.last_synced_time, location.spec.backup_sync_period, server, now, false)
}

/// A period of zero means never again; a negative one is taken as none.
fn due(
    last: Option<Time>,
    own: Option<Duration>,
    server: Duration,
    now: Timestamp,
    first_anyway: bool,
) -> Decision<()> {
    let period = own.filter(|own| own.nanoseconds() >= 0).unwrap_or(server).nanoseconds();
    if period <= 0 && !(first_anyway && last.is_none()) {
        return Decision::Rest;
    }
    let next = last.and_then(|last| last.timestamp().checked_add(SignedDuration::from_nanos(period)).ok());
    match next {
        Some(next) if next > now => Decision::Wait(next),
        _ => Decision::Do(()),
    }
}

/// Locations that are marked as the default but are not: of several the newest stays.
pub(crate) fn surplus_defaults<'a>(locations: impl Iterator<Item = &'a BackupStorageLocation>) -> Vec<String> {
    let mut marked: Vec<_> = locations.filter(|l| l.spec.default).collect();
    marked.sort_by_key(|l| (l.metadata.creation_timestamp, l.metadata.name.clone()));
    marked.pop();
    marked.into_iter().map(|l| l.metadata.name.clone()).collect()
}

/// Why no backup can go to a location; `None` when one can.
pub(crate) fn refusal(location: &BackupStorageLocation) -> Option<String> {
    let name = &location.metadata.name;
    if location.spec.access_mode == Some(BackupStorageLocationAccessMode::ReadOnly) {
        return Some(format!(
            "backup can't be created because backup storage location {name} is currently in read-only mode"
        ));
    }
    (location.status.phase != Some(BackupStorageLocationPhase::Available))
        .then(|| format!("backup can't be created because BackupStorageLocation {name} is in Unavailable status."))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const NEVER: Duration = Duration::from_secs(0);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_location_is_checked_when_its_time_has_come() {
        for (last, own, server, expected) in [
            (None, None, MINUTE, Decision::Do(())),
            (None, Some(NEVER), MINUTE, Decision::Do(())),
            (Some(100), None, MINUTE, Decision::Wait(at(160))),
            (Some(40), None, MINUTE, Decision::Do(())),
            (Some(40), Some(NEVER), MINUTE, Decision::Rest),
            (Some(40), None, NEVER, Decision::Rest),
            (Some(40), Some(Duration::from_secs(90)), MINUTE, Decision::Wait(at(130))),
            (Some(70), Some(Duration::from_secs(-5)), MINUTE, Decision::Wait(at(130))),
        ] {
            let mut location = BackupStorageLocation::default();
            location.status.last_validation_time = last.map(|last| Time::new(at(last)));
            location.spec.validation_frequency = own;
            assert_eq!(validation(&location, server, at(100)), expected, "{last:?} {own:?}");
            // The same times for the search, but that it never begins when it is switched off.
            location.status.last_synced_time = location.status.last_validation_time;
            location.spec.backup_sync_period = own;
            assert_eq!(sync(&location, server, at(100)), Decision::Rest, "not available");
            location.status.phase = Some(BackupStorageLocationPhase::Available);
            let expected = if own == Some(NEVER) { Decision::Rest } else { expected };
            assert_eq!(sync(&location, server, at(100)), expected, "{last:?} {own:?}");
        }
    }

    #[test]
    fn the_newest_default_stays() {
        let location = |name: &str, default: bool, made: i64| {
            let mut out = BackupStorageLocation::default();
            out.metadata.name = name.into();
            out.metadata.creation_timestamp = Some(Time::new(at(made)));
            out.spec.default = default;
            out
        };
        let all = [location("a", true, 5), location("b", true, 9), location("c", false, 10), location("d", true, 7)];
        assert_eq!(surplus_defaults(all.iter()), ["a", "d"]);
        assert!(surplus_defaults(all[1..3].iter()).is_empty());
    }

    #[test]
    fn only_an_available_location_that_can_be_written_takes_backups() {
        let mut location = BackupStorageLocation::default();
        location.metadata.name = "x".into();
        let unavailable = "backup can't be created because BackupStorageLocation x is in Unavailable status.";
        assert_eq!(refusal(&location).as_deref(), Some(unavailable));
        location.status.phase = Some(BackupStorageLocationPhase::Available);
        assert_eq!(refusal(&location), None);
        location.spec.access_mode = Some(BackupStorageLocationAccessMode::ReadOnly);
        let read_only = "backup can't be created because backup storage location x is currently in read-only mode";
        assert_eq!(refusal(&location).as_deref(), Some(read_only));
    }
}
