//! The first hour of a location: nothing is cleaned up in it, so that whoever has found a bucket, or has made it writable, can say what is
//! to stay there.
//!
//! The annotation says since when, of which object and of which place: `<time> <UID> <digest of the place>`. One that has come along with
//! an object that was exported and applied elsewhere, or was restored, or that is of the bucket that was named before, says nothing.

use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{BackupStorageLocation, BackupStorageLocationPhase, Time, well_known};
use sha2::{Digest, Sha256};

/// Time for which no backup is deleted by time alone.
const FIRST_HOUR: SignedDuration = SignedDuration::from_hours(1);

const NAME: &str = well_known::ANNOTATION_WRITABLE_SINCE;

/// Bytes of the digest of a place.
const DIGEST: usize = 8;

/// The time until which no backup of a location goes by time alone; `None` when its first hour is over. One that no server has noted yet
/// was found just now.
pub fn spares_until(location: &BackupStorageLocation, now: Timestamp) -> Option<Timestamp> {
    let until = since(location, now).unwrap_or(now).saturating_add(FIRST_HOUR).unwrap_or(Timestamp::MAX);
    (until > now).then_some(until)
}

/// Notes on a location that was validated whether it can be written. A time to come is that of a clock that was wrong, and would spare
/// backups for too long.
pub fn note_writable(location: &mut BackupStorageLocation, now: Timestamp) {
    let is_read_only = location.is_read_only();
    let since = since(location, now).unwrap_or(now);
    let noted = format!("{} {}", Time::new(since), of(location));
    let annotations = &mut location.metadata.annotations;
    match is_read_only {
        true => annotations.remove(NAME),
        false => annotations.insert(NAME.to_owned(), noted),
    };
}

/// Tells whether a location that can be used lacks the note since when it can be written, which a validation makes.
pub fn lacks_note(location: &BackupStorageLocation, now: Timestamp) -> bool {
    let is_available = location.status.phase == Some(BackupStorageLocationPhase::Available);
    is_available && !location.is_read_only() && since(location, now).is_none()
}

fn since(location: &BackupStorageLocation, now: Timestamp) -> Option<Timestamp> {
    let (since, noted_of) = location.metadata.annotations.get(NAME)?.split_once(' ')?;
    since.parse().ok().filter(|since: &Timestamp| *since <= now && noted_of == of(location))
}

/// The location and its place, as they are told from others.
fn of(location: &BackupStorageLocation) -> String {
    let spec = &location.spec;
    let place = [&*spec.provider, &*spec.object_storage.bucket, &*spec.object_storage.prefix];
    let mut digest = Sha256::new();
    let config = spec.config.iter().flat_map(|(key, value)| [key.as_str(), value.as_str()]);
    for part in place.into_iter().chain(config) {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    let digest: String = digest.finalize()[..DIGEST].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{} {digest}", location.metadata.uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::BackupStorageLocationAccessMode;

    #[test]
    fn no_backup_goes_in_the_first_hour_of_a_location_found_or_made_writable() {
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
        let of = of(&location);
        for wrong in ["2999-01-01T00:00:00Z", "2026-11-22T09:00:00Z", "yesterday"] {
            for wrong in [wrong.to_owned(), format!("{wrong} {of}")] {
                if wrong.starts_with("2026") && wrong.contains(' ') {
                    continue;
                }
                location.metadata.annotations.insert(NAME.into(), wrong.clone());
                assert_eq!(spares_until(&location, now), Some(at("13:00:00")), "{wrong}");
                note_writable(&mut location, now);
                assert_eq!(location.metadata.annotations[NAME], format!("2026-11-22T12:00:00Z {of}"), "{wrong}");
            }
        }
    }

    #[test]
    fn the_first_hour_begins_anew_for_a_copied_location_or_another_bucket() {
        let at = |text: &str| format!("2026-11-22T{text}Z").parse::<Timestamp>().unwrap();
        let (long_ago, now) = (at("01:00:00"), at("12:00:00"));
        let mut location = BackupStorageLocation::default();
        location.metadata.uid = "first".into();
        (location.spec.object_storage.bucket, location.spec.object_storage.prefix) = ("b".into(), "p".into());
        note_writable(&mut location, long_ago);
        assert_eq!(spares_until(&location, now), None);
        let changes: [fn(&mut BackupStorageLocation); 5] = [
            |location| location.metadata.uid = "second".into(),
            |location| location.spec.object_storage.bucket = "c".into(),
            |location| location.spec.object_storage.prefix = String::new(),
            |location| location.spec.provider = "aws".into(),
            |location| drop(location.spec.config.insert("s3Url".into(), "https://elsewhere".into())),
        ];
        for (n, change) in changes.into_iter().enumerate() {
            let mut changed = location.clone();
            change(&mut changed);
            assert_eq!(spares_until(&changed, now), Some(at("13:00:00")), "{n}");
            note_writable(&mut changed, now);
            assert_eq!(spares_until(&changed, at("13:00:00")), None, "{n}");
        }
    }
}
