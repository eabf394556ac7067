//! Storage locations: when to validate and when to sync them, and which one is the default
//! (velero: pkg/controller/backup_sync_controller.go, pkg/controller/backup_storage_location_controller.go).

use super::Decision;
use super::writable::lacks_note;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{Backup, BackupStorageLocation, BackupStorageLocationPhase, Duration, Time};
use std::collections::BTreeSet;
use std::fmt;

/// When to validate a location. `server` is the frequency of locations that name none.
pub fn validation(location: &BackupStorageLocation, server: Duration, now: Timestamp) -> Decision<()> {
    match due(location.status.last_validation_time, location.spec.validation_frequency, server, now, true) {
        // Its first hour would never be over, and nothing would go from it.
        Decision::Rest if lacks_note(location, now) => Decision::Do(()),
        due => due,
    }
}

/// When to sync a location with its bucket. `server` is the period of locations that name none; zero is a minute, which
/// is no switch as that of a location is (velero: pkg/controller/backup_sync_controller.go).
pub fn sync(location: &BackupStorageLocation, server: Duration, now: Timestamp) -> Decision<()> {
    if location.status.phase != Some(BackupStorageLocationPhase::Available) {
        return Decision::Rest;
    }
    let server = if server.nanoseconds() <= 0 { Duration::from_secs(60) } else { server };
    due(location.status.last_synced_time, location.spec.backup_sync_period, server, now, false)
}

/// Time before it is due at which a validation or sync joins the other one, in one visit and with one write.
const SOON: SignedDuration = SignedDuration::from_secs(5);

/// Returns true if a location is to be validated and synced in one visit: one of both is due, and the other is due
/// soon.
pub fn is_for_both(validation: &Decision<()>, sync: &Decision<()>, now: Timestamp) -> bool {
    let is_soon = |due: &Decision<()>| match due {
        Decision::Do(()) => true,
        Decision::Wait(until) => until.duration_since(now) <= SOON,
        Decision::Rest => false,
    };
    [validation, sync].into_iter().all(is_soon) && [validation, sync].contains(&&Decision::Do(()))
}

/// Times are kept in whole seconds: more often means for ever.
const SHORTEST: SignedDuration = SignedDuration::from_secs(1);

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
    let period = SignedDuration::from_nanos(period).max(SHORTEST);
    // A time to come is that of another clock.
    let last = last.map(Time::timestamp).filter(|last| *last <= now);
    match last.and_then(|last| last.checked_add(period).ok()) {
        Some(next) if next > now => Decision::Wait(next),
        _ => Decision::Do(()),
    }
}

/// Locations that are marked as the default but are not: of several in one namespace the newest stays.
pub fn surplus_defaults<'a>(
    locations: impl Iterator<Item = &'a BackupStorageLocation>,
) -> Vec<&'a BackupStorageLocation> {
    let mut marked: Vec<_> = locations.filter(|l| l.spec.default).collect();
    marked.sort_by_key(|l| (&l.metadata.namespace, l.metadata.creation_timestamp, &l.metadata.name));
    let is_of_one = |pair: &&[&BackupStorageLocation]| pair[0].metadata.namespace == pair[1].metadata.namespace;
    marked.windows(2).filter(is_of_one).map(|pair| pair[0]).collect()
}

/// The locations that the server's flag names as the default, in each namespace where none is marked.
pub fn unmarked_defaults<'a>(
    locations: impl Iterator<Item = &'a BackupStorageLocation>,
    named: &str,
) -> Vec<&'a BackupStorageLocation> {
    let all: Vec<_> = locations.collect();
    let marked: BTreeSet<&str> = all
        .iter()
        .filter(|location| location.spec.default)
        .map(|location| location.metadata.namespace.as_str())
        .collect();
    let is_meant =
        |l: &&BackupStorageLocation| l.metadata.name == named && !marked.contains(l.metadata.namespace.as_str());
    all.into_iter().filter(is_meant).collect()
}

/// The reason for which a backup has no location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoLocation {
    /// It is to be in this one, which there is not.
    Named(String),
    /// It names none, and none is the default.
    NoDefault,
}

impl fmt::Display for NoLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => write!(f, "there is no location {name}"),
            Self::NoDefault => {
                f.write_str("there is no default location (mark one with `backup-location set NAME --default`)")
            }
        }
    }
}

/// The name of the location of a backup: of that which it names, or else of the default one, which is the one of `locations` that is
/// marked, or else the one that the server's flag names (`default`). `locations` are those of its namespace.
pub fn location_name<'n, 'l: 'n>(
    backup: &'n Backup,
    mut locations: impl Iterator<Item = &'l BackupStorageLocation>,
    default: Option<&'n str>,
) -> Option<&'n str> {
    match backup.spec.storage_location.as_str() {
        "" => locations.find(|location| location.spec.default).map(|location| &*location.metadata.name).or(default),
        named => Some(named),
    }
}

/// The location of a backup, of all of its namespace, for those who do not know the server's flag.
///
/// # Errors
/// [`NoLocation`].
pub fn location_of<'l>(
    backup: &Backup,
    locations: &'l [BackupStorageLocation],
) -> Result<&'l BackupStorageLocation, NoLocation> {
    found(location_name(backup, locations.iter(), None), |name| {
        locations.iter().find(|location| location.metadata.name == name)
    })
}

/// The location of a name that [`location_name`] gave.
pub fn found<'l>(
    name: Option<&str>,
    get: impl FnOnce(&str) -> Option<&'l BackupStorageLocation>,
) -> Result<&'l BackupStorageLocation, NoLocation> {
    let name = name.ok_or(NoLocation::NoDefault)?;
    get(name).ok_or_else(|| NoLocation::Named(name.to_owned()))
}

/// Returns true if the contents of a location can be read, as far as is known.
pub fn is_readable(location: &BackupStorageLocation) -> bool {
    location.status.phase == Some(BackupStorageLocationPhase::Available)
}

/// Returns the reason for which no backup can go to a location; `None` when backups can.
pub fn refusal(location: &BackupStorageLocation) -> Option<String> {
    let name = &location.metadata.name;
    if location.is_read_only() {
        return Some(format!(
            "backup can't be created because backup storage location {name} is currently in read-only mode"
        ));
    }
    (location.status.phase != Some(BackupStorageLocationPhase::Available))
        .then(|| format!("backup can't be created because BackupStorageLocation {name} is in Unavailable status."))
}

#[cfg(test)]
mod tests {
    use super::super::writable::note_writable;
    use super::*;
    use lifeboat_api::{BackupStorageLocationAccessMode, well_known};

    const MINUTE: Duration = Duration::from_secs(60);
    const NEVER: Duration = Duration::from_secs(0);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_location_is_validated_when_its_time_has_come() {
        for (last, own, server, expected) in [
            (None, None, MINUTE, Decision::Do(())),
            (None, Some(NEVER), MINUTE, Decision::Do(())),
            (Some(100), None, MINUTE, Decision::Wait(at(160))),
            (Some(40), None, MINUTE, Decision::Do(())),
            (Some(40), Some(NEVER), MINUTE, Decision::Rest),
            (Some(40), Some(Duration::from_secs(90)), MINUTE, Decision::Wait(at(130))),
            (Some(70), Some(Duration::from_secs(-5)), MINUTE, Decision::Wait(at(130))),
            // A clock that was ahead, and a period that would never end.
            (Some(101), None, MINUTE, Decision::Do(())),
            (Some(100), Some("1ns".parse().unwrap()), MINUTE, Decision::Wait(at(101))),
        ] {
            let mut location = BackupStorageLocation::default();
            location.status.last_validation_time = last.map(|last| Time::new(at(last)));
            location.spec.validation_frequency = own;
            assert_eq!(validation(&location, server, at(100)), expected, "{last:?} {own:?}");
            // The same times for the sync, but that it never begins when it is switched off.
            location.status.last_synced_time = location.status.last_validation_time;
            location.spec.backup_sync_period = own;
            assert_eq!(sync(&location, server, at(100)), Decision::Rest, "not available");
            location.status.phase = Some(BackupStorageLocationPhase::Available);
            let expected = if own == Some(NEVER) { Decision::Rest } else { expected };
            assert_eq!(sync(&location, server, at(100)), expected, "{last:?} {own:?}");
        }
    }

    #[test]
    fn a_server_without_a_period_syncs_every_minute_and_validates_once() {
        let mut location = BackupStorageLocation::default();
        location.status.phase = Some(BackupStorageLocationPhase::Available);
        location.status.last_synced_time = Some(Time::new(at(90)));
        location.status.last_validation_time = Some(Time::new(at(90)));
        note_writable(&mut location, at(90));
        for none in [NEVER, Duration::from_secs(-1)] {
            assert_eq!(sync(&location, none, at(100)), Decision::Wait(at(150)), "{none:?}");
            assert_eq!(validation(&location, none, at(100)), Decision::Rest, "{none:?}");
        }
    }

    #[test]
    fn the_first_hour_of_a_location_that_is_validated_once_comes_to_an_end() {
        let mut location = BackupStorageLocation::default();
        location.metadata.uid = "u".into();
        location.status.phase = Some(BackupStorageLocationPhase::Available);
        location.status.last_validation_time = Some(Time::new(at(90)));
        let found = |location: &BackupStorageLocation| validation(location, NEVER, at(100));
        for noted in [None, Some("1970-01-01T00:00:10Z"), Some("1970-01-01T00:00:10Z of another")] {
            let annotation = noted.map(|noted| (well_known::ANNOTATION_WRITABLE_SINCE.to_owned(), noted.to_owned()));
            location.metadata.annotations = annotation.into_iter().collect();
            assert_eq!(found(&location), Decision::Do(()), "{noted:?}");
        }
        let mut unavailable = location.clone();
        unavailable.status.phase = Some(BackupStorageLocationPhase::Unavailable);
        let mut read_only = location.clone();
        read_only.spec.access_mode = Some(BackupStorageLocationAccessMode::ReadOnly);
        // Each is noted when a validation finds it well.
        note_writable(&mut location, at(100));
        for location in [unavailable, read_only, location] {
            assert_eq!(found(&location), Decision::Rest, "{location:?}");
        }
    }

    #[test]
    fn what_is_due_at_about_one_time_is_done_in_one_visit() {
        let (due, soon, later) = (Decision::Do(()), Decision::Wait(at(105)), Decision::Wait(at(106)));
        for (validation, sync, expected) in [
            (&due, &due, true),
            (&due, &soon, true),
            (&soon, &due, true),
            (&due, &later, false),
            (&later, &due, false),
            (&soon, &soon, false),
            (&due, &Decision::Rest, false),
            (&Decision::Rest, &due, false),
        ] {
            assert_eq!(is_for_both(validation, sync, at(100)), expected, "{validation:?} {sync:?}");
        }
    }

    fn names(locations: Vec<&BackupStorageLocation>) -> Vec<&str> {
        locations.into_iter().map(|location| location.metadata.name.as_str()).collect()
    }

    #[test]
    fn the_flag_names_a_default_when_none_is_marked() {
        let location = |name: &str, default: bool| {
            let mut out = BackupStorageLocation::default();
            out.metadata.name = name.into();
            out.spec.default = default;
            out
        };
        for (locations, expected) in [
            (vec![location("a", false), location("b", false)], Some("b")),
            (vec![location("a", true), location("b", false)], None),
            (vec![location("a", false), location("b", true)], None),
            (vec![location("a", false)], None),
        ] {
            let found = names(unmarked_defaults(locations.iter(), "b"));
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{locations:?}");
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
        assert_eq!(names(surplus_defaults(all.iter())), ["a", "d"]);
        assert!(surplus_defaults(all[1..3].iter()).is_empty());
        let mut elsewhere = location("b", true, 1);
        elsewhere.metadata.namespace = "other".into();
        let all = [&all[1], &elsewhere];
        assert!(surplus_defaults(all.into_iter()).is_empty(), "each namespace has its own");
    }

    #[test]
    fn a_backup_is_in_the_location_that_it_names_or_else_in_the_default_one() {
        let location = |name: &str, default: bool| {
            let mut out = BackupStorageLocation::default();
            out.metadata.name = name.into();
            out.spec.default = default;
            out
        };
        let marked = [location("a", false), location("b", true)];
        let named = |name: &str| Err(NoLocation::Named(name.to_owned()));
        for (name, locations, flag, expected) in [
            ("a", &marked[..], None, Ok("a")),
            ("gone", &marked, Some("a"), named("gone")),
            ("", &marked, None, Ok("b")),
            ("", &marked, Some("a"), Ok("b")),
            ("", &marked[..1], Some("a"), Ok("a")),
            ("", &marked[..1], Some("gone"), named("gone")),
            ("", &marked[..1], None, Err(NoLocation::NoDefault)),
        ] {
            let mut backup = Backup::default();
            backup.spec.storage_location = name.into();
            let get = |name: &str| locations.iter().find(|location| location.metadata.name == name);
            let of_server = found(location_name(&backup, locations.iter(), flag), get);
            let of_server = of_server.map(|found| found.metadata.name.as_str());
            assert_eq!(of_server, expected, "{name:?} {flag:?}");
            if flag.is_none() {
                let of_others = location_of(&backup, locations).map(|found| found.metadata.name.as_str());
                assert_eq!(of_others, expected, "without a flag: {name:?}");
            }
        }
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
