//! The first hour of a location: nothing is cleaned up in it, so that whoever has found a bucket, or has made it writable, can say what is
//! to stay there.

use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{BackupStorageLocation, Time, well_known};

/// So long no backup goes by time alone.
const FIRST_HOUR: SignedDuration = SignedDuration::from_hours(1);

const NAME: &str = well_known::ANNOTATION_WRITABLE_SINCE;

/// Until when no backup of a location goes by time alone; `None` when its first hour is over. One that no server has noted yet was found
/// just now.
pub(crate) fn spares_until(location: &BackupStorageLocation, now: Timestamp) -> Option<Timestamp> {
    let until = since(location, now).unwrap_or(now).saturating_add(FIRST_HOUR).unwrap_or(Timestamp::MAX);
    (until > now).then_some(until)
}

/// Notes on a location that was validated whether it can be written. A time to come is that of a clock that was wrong, and would spare
/// backups for too long.
pub(crate) fn note_writable(location: &mut BackupStorageLocation, now: Timestamp) {
    let is_read_only = location.is_read_only();
    let since = since(location, now).unwrap_or(now);
    let annotations = &mut location.metadata.annotations;
    match is_read_only {
        true => annotations.remove(NAME),
        false => annotations.insert(NAME.to_owned(), Time::new(since).to_string()),
    };
}

fn since(location: &BackupStorageLocation, now: Timestamp) -> Option<Timestamp> {
    let noted = location.metadata.annotations.get(NAME)?;
    noted.parse().ok().filter(|since: &Timestamp| *since <= now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::BackupStorageLocationAccessMode;

    #[test]
    fn nothing_goes_in_the_first_hour_after_a_location_was_found_or_became_writable() {
        let at = |text: &str| format!("2026-11-22T{text}Z").parse::<Timestamp>().unwrap();
        let now = at("12:00:00");
        let mut location = BackupStorageLocation::default();
        assert_eq!(spares_until(&location, now), Some(at("13:00:00")), "nobody has noted it yet");
        note_writable(&mut location, now);
        for (time, expected) in
            [("12:00:00", Some("13:00:00")), ("12:59:59", Some("13:00:00")), ("13:00:00", None), ("14:00:00", None)]
        {
            // A server that begins anew, or validates again, does not begin the hour anew.
            note_writable(&mut location, at(time));
            assert_eq!(spares_until(&location, at(time)), expected.map(at), "{time}");
        }
        location.spec.access_mode = Some(BackupStorageLocationAccessMode::ReadOnly);
        note_writable(&mut location, at("14:00:00"));
        assert!(location.metadata.annotations.is_empty());
        location.spec.access_mode = Some(BackupStorageLocationAccessMode::ReadWrite);
        note_writable(&mut location, at("15:00:00"));
        assert_eq!(spares_until(&location, at("15:00:00")), Some(at("16:00:00")));
        for wrong in ["2999-01-01T00:00:00Z", "yesterday"] {
            location.metadata.annotations.insert(NAME.into(), wrong.into());
            assert_eq!(spares_until(&location, now), Some(at("13:00:00")), "{wrong}");
            note_writable(&mut location, now);
            assert_eq!(location.metadata.annotations[NAME], "2026-11-22T12:00:00Z", "{wrong}");
        }
    }
}
