//! The cluster that has made a backup. Pure.
//!
//! A Backup that was made from the contents of a bucket has an annotation that says so, with the cluster that its claim
//! names. A Backup that a server makes is marked with its own cluster when it begins. Backups of earlier versions and
//! of Velero have no mark: their times decide.

use crate::backup::Backup;
use crate::well_known::{ANNOTATION_SOURCE_CLUSTER, ANNOTATION_TAKEN_OVER, TAKEN_OVER_OWN};
use jiff::SignedDuration;

/// Largest lag of a server's clock behind that of the API server, where only times decide.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(1);
/// Largest lag where the Backup has a mark. Velero copies the mark with the rest of a record, and adds none of its own:
/// a Backup that is younger by more was made by such a sync.
const MARKED_SKEW: SignedDuration = SignedDuration::from_hours(1);

/// The UID of the cluster that has made a backup, as far as its Backup says it; `None` where nothing does, as for those of Velero.
#[must_use]
pub fn source_cluster(backup: &Backup) -> Option<&str> {
    backup.metadata.annotations.get(ANNOTATION_SOURCE_CLUSTER).map(String::as_str).filter(|uid| !uid.is_empty())
}

/// Returns true if a Backup was made from the contents of a bucket.
#[must_use]
pub fn was_taken_over(backup: &Backup) -> bool {
    match (origin(backup), source_cluster(backup)) {
        (Some(_), _) => true,
        (None, Some(_)) => is_younger_than_its_end(backup, MARKED_SKEW),
        (None, None) => is_younger_than_its_end(backup, CLOCK_SKEW),
    }
}

/// Tells whether another cluster than `this` has made a backup, as far as is known; `this` is the UID of the cluster in
/// which the Backup lies, empty when unknown. Where both UIDs are known they alone decide, because marks and times may
/// be those of an object that was exported and applied elsewhere. Otherwise a Backup that was taken over counts as
/// another cluster's, unless it is marked as this cluster's own.
#[must_use]
pub fn is_of_another_cluster(backup: &Backup, this: &str) -> bool {
    match source_cluster(backup) {
        Some(source) if !this.is_empty() => source != this,
        _ => was_taken_over(backup) && origin(backup) != Some(TAKEN_OVER_OWN),
    }
}

fn origin(backup: &Backup) -> Option<&str> {
    backup.metadata.annotations.get(ANNOTATION_TAKEN_OVER).map(String::as_str)
}

/// By more than this, by which the clock of a server may lag behind that of the API server.
fn is_younger_than_its_end(backup: &Backup, skew: SignedDuration) -> bool {
    let times = backup.metadata.creation_timestamp.zip(backup.status.completion_timestamp);
    times.is_some_and(|(made, ended)| made.timestamp().duration_since(ended.timestamp()) > skew)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;
    use crate::well_known::TAKEN_OVER_OTHER;
    use jiff::Timestamp;

    #[test]
    fn a_mark_says_who_has_made_a_backup_and_times_count_only_without_one() {
        let time = |second| Time::new(Timestamp::from_second(second).unwrap());
        for (taken_over, source, made, ended, expected) in [
            (Some(TAKEN_OVER_OWN), Some("this"), 500, Some(0), (true, false)),
            (Some(TAKEN_OVER_OTHER), Some("that"), 500, Some(900), (true, true)),
            (Some(TAKEN_OVER_OTHER), None, 0, None, (true, true)),
            // A server of Velero has made the Backup of what another cluster has saved.
            (None, Some("that"), 3601, Some(0), (true, true)),
            // A server whose clock lags by ten minutes has made it.
            (None, Some("this"), 600, Some(0), (false, false)),
            (None, None, 500, Some(440), (false, false)),
            (None, None, 500, Some(439), (true, true)),
            (None, None, 500, Some(900), (false, false)),
            (None, None, 500, None, (false, false)),
        ] {
            let mut backup = Backup::default();
            let mut note = |key: &str, value: Option<&str>| {
                backup.metadata.annotations.extend(value.map(|value| (key.to_owned(), value.to_owned())));
            };
            note(ANNOTATION_TAKEN_OVER, taken_over);
            note(ANNOTATION_SOURCE_CLUSTER, source);
            backup.metadata.creation_timestamp = Some(time(made));
            backup.status.completion_timestamp = ended.map(time);
            let said = (was_taken_over(&backup), is_of_another_cluster(&backup, ""));
            assert_eq!(
                (said, source_cluster(&backup)),
                (expected, source),
                "{taken_over:?} {source:?} {made} {ended:?}"
            );
            // Which cluster this is is known: nothing but the UIDs counts, where a backup names one.
            let by_uid = source.map_or(expected.1, |source| source != "this");
            assert_eq!(is_of_another_cluster(&backup, "this"), by_uid, "{taken_over:?} {source:?} {made} {ended:?}");
        }
    }

    #[test]
    fn a_remade_object_of_an_own_backup_is_own_and_one_copied_here_is_not() {
        let time = |second| Time::new(Timestamp::from_second(second).unwrap());
        let mut backup = Backup::default();
        backup.metadata.annotations.insert(ANNOTATION_SOURCE_CLUSTER.to_owned(), "this".to_owned());
        (backup.metadata.creation_timestamp, backup.status.completion_timestamp) = (Some(time(90_000)), Some(time(0)));
        assert!(!is_of_another_cluster(&backup, "this") && is_of_another_cluster(&backup, "that"));
        backup.metadata.annotations.insert(ANNOTATION_TAKEN_OVER.to_owned(), TAKEN_OVER_OWN.to_owned());
        assert!(!is_of_another_cluster(&backup, "this") && is_of_another_cluster(&backup, "that"));
    }
}
