//! The time for which a writer stood still: a machine that was suspended, or a clock that was set on. Pure.
//!
//! A manifest refers to contents that were looked up some minutes before. Maintenance may mark them meanwhile, and drop them
//! some five hours later at the earliest, unless it has seen the manifest by then. Two manifests follow each other within
//! minutes, checkpoints among them, unless the process does not run.

use crate::format::time::{HOUR, MINUTE, UnixNanos};

/// Uses that follow each other faster are work.
const WORK: i64 = 5 * MINUTE;
/// The most that may be between two manifests. What the second one does not cover, the third does: twice this, and the time
/// of the work, is less than the time after which contents are dropped.
const LIMIT: i64 = 90 * MINUTE;

/// The longest time without a manifest of what is being stored, whether the process stands still or works: between the mark
/// that a content is deleted and its end there are two collections more than four hours apart.
const LONGEST: i64 = 4 * HOUR;

/// True where so much time has passed since the last manifest at `kept` that maintenance may have deleted what was stored or
/// found after it.
pub(super) fn is_too_long(kept: UnixNanos, now: UnixNanos) -> bool {
    now.since(kept) > LONGEST
}

/// The pauses since the last manifest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pauses {
    last_use: UnixNanos,
    total: i64,
}

impl Pauses {
    pub(super) fn begin(now: UnixNanos) -> Self {
        Self { last_use: now, total: 0 }
    }

    /// Notes a use of the writer. A clock that was set back says nothing of a pause.
    pub(super) fn note(&mut self, now: UnixNanos) {
        let gap = now.since(self.last_use);
        self.last_use = now;
        if gap > WORK {
            self.total = self.total.saturating_add(gap);
        }
    }

    /// The nanoseconds of all pauses.
    pub(super) fn total(&self) -> i64 {
        self.total
    }

    /// Forgets the pauses that were before a manifest which is stored now.
    pub(super) fn forget(&mut self, before: i64) {
        self.total = self.total.saturating_sub(before).max(0);
    }

    /// The minutes of pauses after which nothing may be referred to.
    pub(super) fn too_long(&self) -> Option<i64> {
        (self.total > LIMIT).then_some(self.total / MINUTE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The minutes of pauses that are too long, after uses at these minutes.
    fn too_long(uses: &[i64]) -> Option<i64> {
        let mut pauses = Pauses::begin(UnixNanos(0));
        uses.iter().for_each(|minute| pauses.note(UnixNanos(minute * MINUTE)));
        pauses.too_long()
    }

    #[test]
    fn pauses_add_up_and_work_is_none() {
        let work: Vec<i64> = (0..1000).map(|use_| use_ * 5).collect();
        for (uses, expected) in [
            (&[90][..], None),
            (&[91], Some(91)),
            (&[60, 61, 100], Some(99)),
            (&work, None),
            // The clock is set back by an hour, and on again.
            (&[-60, -1], None),
            (&[i64::MAX / MINUTE], Some(i64::MAX / MINUTE)),
        ] {
            assert_eq!(too_long(uses), expected, "{uses:?}");
        }
    }

    #[test]
    fn what_was_kept_longer_ago_than_maintenance_waits_is_not_relied_on() {
        let kept = UnixNanos(1_795_900_000_000_000_000);
        let is_too_long = |nanos: i64| is_too_long(kept, UnixNanos(kept.0 + nanos));
        assert_eq!([-1, 0, LONGEST, LONGEST + 1].map(is_too_long), [false, false, false, true]);
    }

    #[test]
    fn a_manifest_ends_only_the_pauses_before_it() {
        let mut pauses = Pauses::begin(UnixNanos(0));
        pauses.note(UnixNanos(80 * MINUTE));
        let before = pauses.total();
        // While the manifest is stored.
        pauses.note(UnixNanos(160 * MINUTE));
        assert_eq!(pauses.too_long(), Some(160));
        pauses.forget(before);
        assert_eq!((pauses.too_long(), pauses.total()), (None, 80 * MINUTE));
    }
}
