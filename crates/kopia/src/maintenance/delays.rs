//! The delays that keep maintenance from deleting what others still rely on (kopia: repo/maintenance/maintenance_safety.go).

use crate::format::time::{HOUR, MINUTE, SECOND};

/// The delays, in nanoseconds. Other writers rely on them: a shorter one loses data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delays {
    /// The least age of a content that is marked deleted.
    pub content_age: i64,
    /// The least age of a pack or session marker that is deleted.
    pub blob_age: i64,
    /// The age up to which the marker of a session keeps its packs.
    pub session_age: i64,
    /// The time between two collections, after which the deletions before the first of them are dropped.
    pub between_collections: i64,
    /// The time before the first of them that is left out.
    pub before_collection: i64,
    /// The time after a rewrite in which readers may still look for a pack that was replaced.
    pub after_rewrite: i64,
    /// The least age of a content that is rewritten.
    pub rewrite_age: i64,
    /// The time after the beginning of maintenance up to which a blob may have been stored.
    pub after_begin: i64,
}

impl Delays {
    /// The delays of kopia with full safety, the only ones that Velero uses.
    pub const SAFE: Self = Self {
        content_age: 24 * HOUR,
        blob_age: 24 * HOUR,
        session_age: 96 * HOUR,
        between_collections: 4 * HOUR,
        before_collection: HOUR,
        after_rewrite: HOUR,
        rewrite_age: 2 * HOUR,
        after_begin: SECOND,
    };
}

/// A number of nanoseconds as people read it.
pub(crate) fn in_words(nanos: i64) -> String {
    let minutes = nanos.max(0) / MINUTE;
    match (minutes / (48 * 60), minutes / 120, minutes) {
        (1.., ..) => format!("{} days", minutes / (24 * 60)),
        (_, 1.., _) => format!("{} hours", minutes / 60),
        (.., 0) => "less than a minute".to_owned(),
        (.., 1) => "1 minute".to_owned(),
        _ => format!("{minutes} minutes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_whole_minutes_hours_or_days() {
        for (seconds, expected) in [
            (-5, "less than a minute"),
            (59, "less than a minute"),
            (60, "1 minute"),
            (30 * 60, "30 minutes"),
            (2 * 3600, "2 hours"),
            (3 * 86_400, "3 days"),
        ] {
            assert_eq!(in_words(seconds * SECOND), expected);
        }
    }
}
