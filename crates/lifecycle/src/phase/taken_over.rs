//! Which Backups were made from what a bucket holds, and whether another cluster has made these backups.
//!
//! Such a Backup says so itself: its annotation is set when it is made. What follows from that is decided where all read it
//! ([`lifeboat_api::is_of_another_cluster`]).

use lifeboat_api::{KeptBy, ObjectMeta, well_known};
pub use lifeboat_api::{is_of_another_cluster, source_cluster, was_taken_over};

/// Notes on a Backup that it was taken over; `is_own`: this cluster has made it, as its claim says.
pub fn note_taken_over(meta: &mut ObjectMeta, is_own: bool) {
    let origin = if is_own { well_known::TAKEN_OVER_OWN } else { well_known::TAKEN_OVER_OTHER };
    meta.annotations.insert(well_known::ANNOTATION_TAKEN_OVER.to_owned(), origin.to_owned());
}

/// Notes on a Backup which cluster has made it, as its claim says; what its record said of that before is forgotten.
pub fn note_source_cluster(meta: &mut ObjectMeta, cluster: Option<&str>) {
    match cluster.filter(|uid| !uid.is_empty()) {
        Some(uid) => meta.annotations.insert(well_known::ANNOTATION_SOURCE_CLUSTER.to_owned(), uid.to_owned()),
        None => meta.annotations.remove(well_known::ANNOTATION_SOURCE_CLUSTER),
    };
}

/// Notes on a Backup that this cluster has begun it, whatever the object says that it was made from, such as an exported one.
/// Rules of another cluster that came with the object are none of what this one makes: they go, and those of a schedule here are
/// written when they keep it.
pub fn note_begun_here(meta: &mut ObjectMeta, cluster: &str) {
    meta.annotations.remove(well_known::ANNOTATION_TAKEN_OVER);
    let is_of_another = |said: KeptBy| !said.cluster.is_empty() && said.cluster != cluster;
    if KeptBy::of(meta).and_then(Result::ok).is_some_and(is_of_another) {
        meta.annotations.remove(well_known::ANNOTATION_KEPT_BY);
    }
    note_source_cluster(meta, Some(cluster));
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use lifeboat_api::{Backup, Time};

    #[test]
    fn what_was_taken_over_says_whether_this_cluster_has_made_it() {
        for (is_own, is_others) in [(true, false), (false, true)] {
            let mut backup = Backup::default();
            note_taken_over(&mut backup.metadata, is_own);
            assert_eq!((was_taken_over(&backup), is_of_another_cluster(&backup, "")), (true, is_others));
        }
    }

    #[test]
    fn a_backup_made_from_an_exported_object_is_of_the_cluster_that_begins_it() {
        let mut backup = Backup::default();
        note_taken_over(&mut backup.metadata, false);
        note_source_cluster(&mut backup.metadata, Some("that"));
        note_begun_here(&mut backup.metadata, "this");
        assert!(!was_taken_over(&backup) && !is_of_another_cluster(&backup, "this"));
        assert_eq!(source_cluster(&backup), Some("this"));
    }

    #[test]
    fn rules_of_the_cluster_of_an_exported_object_keep_no_backup_made_here() {
        for (said, stays) in [
            (r#"{"schedule":"nightly","cluster":"that","rules":{"keepDaily":7}}"#, false),
            (r#"{"schedule":"nightly","cluster":"that","released":"2026-11-22T00:00:00Z"}"#, false),
            (r#"{"schedule":"nightly","cluster":"this","rules":{"keepDaily":7}}"#, true),
            (r#"{"schedule":"nightly","rules":{"keepDaily":7}}"#, true),
            ("7", true),
        ] {
            let mut backup = Backup::default();
            backup.metadata.annotations.insert(well_known::ANNOTATION_KEPT_BY.to_owned(), said.to_owned());
            note_begun_here(&mut backup.metadata, "this");
            let found = backup.metadata.annotations.get(well_known::ANNOTATION_KEPT_BY);
            assert_eq!(found.map(String::as_str), stays.then_some(said));
        }
    }

    #[test]
    fn a_clock_that_lags_makes_no_own_backup_one_of_another_cluster() {
        let time = |second| Some(Time::new(Timestamp::from_second(second).unwrap()));
        let mut backup = Backup::default();
        (backup.metadata.creation_timestamp, backup.status.completion_timestamp) = (time(600), time(0));
        assert!(is_of_another_cluster(&backup, "this"));
        note_source_cluster(&mut backup.metadata, Some("this"));
        for this in ["this", ""] {
            assert!(!is_of_another_cluster(&backup, this) && !was_taken_over(&backup));
        }
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
