//! Collection: which contents are marked deleted, and when the marks count (kopia: snapshot/snapshotgc,
//! repo/maintenance/content_drop.go).
//!
//! A content that nothing refers to is marked deleted when it is a day old. The mark hides it from writers, which write it
//! again when they need it, while readers still find it. A later collection takes back the mark where something refers to it
//! again. Marks are dropped when two collections, hours apart, have seen them.

use crate::format::maintenance::MaintenanceRun;
use crate::format::time::UnixNanos;
use crate::maintenance::delays::Delays;

/// A content as its entry and the walk over all snapshots tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentFacts {
    /// The Unix second of the entry, by the clock of its writer, which may be wrong.
    pub timestamp: u64,
    /// True where it is marked deleted.
    pub is_deleted: bool,
    /// True where a snapshot reaches it.
    pub is_referenced: bool,
    /// True where it holds manifests, which are never collected.
    pub has_manifests: bool,
    /// The pack that holds it.
    pub pack: PackTime,
}

/// The time at which a pack was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackTime {
    /// By the clock of the storage.
    At(UnixNanos),
    /// The storage does not say.
    Unknown,
    /// There is no such pack.
    Missing,
}

/// The decision on a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is needed, or holds manifests.
    Needed,
    /// It was marked deleted before.
    Deleted,
    /// It is too young to say that nothing refers to it: its snapshot may be under way.
    Young,
    /// Nothing refers to it: it is marked deleted.
    Delete,
    /// It is marked deleted, and something refers to it again: the mark is taken back.
    Undelete,
}

/// Decides on a content. `now` is the time of the storage at the beginning of maintenance. Both the storage's time of the
/// pack and the writer's time of the entry must be old enough; a writer's time in the future says nothing.
pub fn verdict(content: &ContentFacts, delays: &Delays, now: UnixNanos) -> Verdict {
    match (content.is_referenced || content.has_manifests, content.is_deleted) {
        (true, true) if content.is_referenced => Verdict::Undelete,
        (true, _) => Verdict::Needed,
        (false, true) => Verdict::Deleted,
        (false, false) if is_old(content, delays, now) => Verdict::Delete,
        (false, false) => Verdict::Young,
    }
}

fn is_old(content: &ContentFacts, delays: &Delays, now: UnixNanos) -> bool {
    let by_entry = now.since(UnixNanos::of_seconds(content.timestamp));
    match content.pack {
        PackTime::At(stored) => {
            let by_pack = now.since(stored);
            by_pack >= delays.content_age && (by_entry < 0 || by_entry >= delays.content_age)
        }
        PackTime::Unknown => false,
        PackTime::Missing => by_entry >= delays.content_age,
    }
}

/// Finds the second up to which deletions are dropped: an hour before the beginning of the newest collection that ended more
/// than four hours before this one began at `now`. `runs` are those of the task `snapshot-gc`. `None` where there is none.
pub fn watermark(runs: &[MaintenanceRun], delays: &Delays, now: UnixNanos) -> Option<u64> {
    let begins = runs.iter().filter(|run| run.success).filter_map(|run| {
        let (start, end) = (run.start?, run.end?);
        let gap = now.0.checked_sub(end.0)?;
        (start <= end && gap > delays.between_collections).then_some(start)
    });
    let limit = begins.max()?.0.checked_sub(delays.before_collection)?;
    u64::try_from(UnixNanos(limit).seconds()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::time::{HOUR, SECOND};

    const NOW: UnixNanos = UnixNanos(1_795_900_000 * SECOND);

    fn ago(hours: i64) -> UnixNanos {
        UnixNanos(NOW.0 - hours * HOUR)
    }

    fn content(entry: i64, pack: PackTime) -> ContentFacts {
        let timestamp = ago(entry).seconds().unsigned_abs();
        ContentFacts { timestamp, is_deleted: false, is_referenced: false, has_manifests: false, pack }
    }

    #[test]
    fn a_content_is_deleted_when_both_clocks_say_that_it_is_a_day_old() {
        for (entry, pack, expected) in [
            (24, PackTime::At(ago(24)), Verdict::Delete),
            (23, PackTime::At(ago(24)), Verdict::Young),
            (24, PackTime::At(ago(23)), Verdict::Young),
            // The writer's clock was two days behind, and two days ahead.
            (49, PackTime::At(ago(1)), Verdict::Young),
            (-47, PackTime::At(ago(1)), Verdict::Young),
            (-24, PackTime::At(ago(24)), Verdict::Delete),
            (99, PackTime::Unknown, Verdict::Young),
            (24, PackTime::Missing, Verdict::Delete),
            (-1, PackTime::Missing, Verdict::Young),
        ] {
            assert_eq!(verdict(&content(entry, pack), &Delays::SAFE, NOW), expected, "{entry} {pack:?}");
        }
    }

    #[test]
    fn what_is_referenced_is_kept_and_its_mark_taken_back() {
        let old = content(99, PackTime::At(ago(99)));
        for (is_deleted, is_referenced, has_manifests, expected) in [
            (false, true, false, Verdict::Needed),
            (true, true, false, Verdict::Undelete),
            (true, false, false, Verdict::Deleted),
            (false, false, true, Verdict::Needed),
            (true, false, true, Verdict::Needed),
            (false, false, false, Verdict::Delete),
        ] {
            let facts = ContentFacts { is_deleted, is_referenced, has_manifests, ..old };
            assert_eq!(verdict(&facts, &Delays::SAFE, NOW), expected, "{facts:?}");
        }
    }

    #[test]
    fn deletions_are_dropped_when_two_collections_hours_apart_have_seen_them() {
        let run = |start: i64, end: i64, success: bool| MaintenanceRun {
            start: Some(ago(start)),
            end: Some(ago(end)),
            success,
            ..MaintenanceRun::default()
        };
        let limit =
            |runs: &[MaintenanceRun]| watermark(runs, &Delays::SAFE, NOW).map(|seconds| seconds as i64 - NOW.seconds());
        assert_eq!(limit(&[]), None);
        assert_eq!(limit(&[run(4, 4, true)]), None);
        assert_eq!(limit(&[run(6, 5, true)]), Some(-7 * 3600));
        assert_eq!(limit(&[run(3, 2, true), run(30, 29, true), run(60, 59, true)]), Some(-31 * 3600));
        // One that failed has not seen everything; one that ended before it began, or in the future, had a wrong clock.
        assert_eq!(limit(&[run(6, 5, false), run(5, 6, true), run(-9, -10, true)]), None);
        assert_eq!(limit(&[MaintenanceRun { success: true, ..MaintenanceRun::default() }]), None);
    }
}
