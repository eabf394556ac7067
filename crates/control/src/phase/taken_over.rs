//! Which Backups were made from what a bucket holds, and whether another cluster has made these backups.
//!
//! Such a Backup says so itself: its annotation is set when it is made. Those that an earlier version or Velero has taken over are
//! told by their times: they were made after the backup had ended.

use super::CLOCK_SKEW;
use lifeboat_api::{Backup, ObjectMeta, well_known};

/// Notes on a Backup that it was taken over; `is_own`: this cluster has made it, as its claim says.
pub(crate) fn note_taken_over(meta: &mut ObjectMeta, is_own: bool) {
    let origin = if is_own { well_known::TAKEN_OVER_OWN } else { well_known::TAKEN_OVER_OTHER };
    meta.annotations.insert(well_known::ANNOTATION_TAKEN_OVER.to_owned(), origin.to_owned());
}

/// Notes on a Backup which cluster has made it, as its claim says; what its record said of that before is forgotten.
pub(crate) fn note_source_cluster(meta: &mut ObjectMeta, cluster: Option<&str>) {
    match cluster.filter(|uid| !uid.is_empty()) {
        Some(uid) => meta.annotations.insert(well_known::ANNOTATION_SOURCE_CLUSTER.to_owned(), uid.to_owned()),
        None => meta.annotations.remove(well_known::ANNOTATION_SOURCE_CLUSTER),
    };
}

/// The UID of the cluster that has made a backup which was taken over; `None` where its claim does not say it.
pub(crate) fn source_cluster(backup: &Backup) -> Option<&str> {
    backup.metadata.annotations.get(well_known::ANNOTATION_SOURCE_CLUSTER).map(String::as_str)
}

/// Whether a Backup was made from what a bucket held.
pub(crate) fn was_taken_over(backup: &Backup) -> bool {
    origin(backup).is_some() || is_younger_than_its_end(backup)
}

/// Whether another cluster has made a backup, as far as is known: it was taken over, and nothing says that it is of this one.
pub(crate) fn is_of_another_cluster(backup: &Backup) -> bool {
    match origin(backup) {
        Some(origin) => origin != well_known::TAKEN_OVER_OWN,
        None => is_younger_than_its_end(backup),
    }
}

fn origin(backup: &Backup) -> Option<&str> {
    backup.metadata.annotations.get(well_known::ANNOTATION_TAKEN_OVER).map(String::as_str)
}

/// By more than the clock of a server may lag behind that of the API server. One that says its cluster without saying that it was taken
/// over is of this one, however its clock was wrong.
fn is_younger_than_its_end(backup: &Backup) -> bool {
    if source_cluster(backup).is_some() {
        return false;
    }
    let times = backup.metadata.creation_timestamp.zip(backup.status.completion_timestamp);
    times.is_some_and(|(made, ended)| made.timestamp().duration_since(ended.timestamp()) > CLOCK_SKEW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use lifeboat_api::Time;

    #[test]
    fn the_annotation_says_it_and_without_it_the_times() {
        let of = |annotation: Option<&str>, made: i64, ended: Option<i64>| {
            let time = |second| Time::new(Timestamp::from_second(second).unwrap());
            let mut backup = Backup::default();
            let noted = annotation.map(|origin| (well_known::ANNOTATION_TAKEN_OVER.to_owned(), origin.to_owned()));
            backup.metadata.annotations = noted.into_iter().collect();
            backup.metadata.creation_timestamp = Some(time(made));
            backup.status.completion_timestamp = ended.map(time);
            (was_taken_over(&backup), is_of_another_cluster(&backup))
        };
        let noted = |is_own: bool, ended| {
            let mut meta = ObjectMeta::default();
            note_taken_over(&mut meta, is_own);
            of(meta.annotations.values().next().map(String::as_str), 0, Some(ended))
        };
        assert_eq!([noted(true, 500), noted(true, -500)], [(true, false); 2]);
        assert_eq!([noted(false, 500), noted(false, -500)], [(true, true); 2]);
        for (made, ended, expected) in
            [(500, Some(440), false), (500, Some(439), true), (500, Some(900), false), (500, None, false)]
        {
            assert_eq!(of(None, made, ended), (expected, expected), "{made} {ended:?}");
        }
    }

    #[test]
    fn a_clock_that_lags_makes_no_own_backup_one_of_another_cluster() {
        let time = |second| Some(Time::new(Timestamp::from_second(second).unwrap()));
        let mut backup = Backup::default();
        (backup.metadata.creation_timestamp, backup.status.completion_timestamp) = (time(600), time(0));
        assert!(is_of_another_cluster(&backup));
        note_source_cluster(&mut backup.metadata, Some("this"));
        assert!(!is_of_another_cluster(&backup) && !was_taken_over(&backup));
    }

    #[test]
    fn the_source_cluster_is_that_of_the_claim_and_not_of_the_record() {
        let mut backup = Backup::default();
        for (claimed, expected) in [(None, None), (Some("a"), Some("a")), (Some("b"), Some("b")), (Some(""), None)] {
            note_source_cluster(&mut backup.metadata, claimed);
            assert_eq!(source_cluster(&backup), expected);
        }
    }
}
