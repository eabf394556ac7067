//! Timing of the screens of a watched status. Pure.

use std::time::Duration;
use tokio::time::Instant;

/// The shortest time between two screens.
const PACE: Duration = Duration::from_secs(1);
/// The longest one: ages change, when nothing else does.
const AGES: Duration = Duration::from_secs(5);
/// The longest wait for something new before the first screen. It is waited on then.
const FIRST: Duration = Duration::from_secs(30);
/// A screen, or a list, takes a tenth of the time at most: the pause after it is so many times as long.
const SHARE: u32 = 9;

/// When the next screen comes.
pub(super) struct RefreshTimer {
    /// Then at the earliest, with all that was heard until then.
    earliest: Instant,
    /// When the last one was begun; none before the first, which comes as soon as there is something to show.
    last: Option<Instant>,
}

impl RefreshTimer {
    pub(super) fn begin(now: Instant) -> Self {
        Self { earliest: now, last: None }
    }

    /// When it comes at the earliest.
    pub(super) fn earliest(&self) -> Instant {
        self.earliest
    }

    /// When it comes at the latest, though nothing is new. Before the first one, when a wait that begins now for something new ends.
    pub(super) fn latest(&self, now: Instant) -> Instant {
        self.last.map_or_else(|| now + FIRST, |last| self.earliest.max(last + AGES))
    }

    /// A screen was begun and has ended then.
    pub(super) fn shown(&mut self, begun: Instant, ended: Instant) {
        *self = Self { earliest: ended + pause(PACE, ended.duration_since(begun)), last: Some(begun) };
    }
}

/// Returns the pause after a step that took so long.
pub(super) fn pause(least: Duration, took: Duration) -> Duration {
    least.max(took.saturating_mul(SHARE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_done_rarely() {
        let seconds = Duration::from_secs;
        for (took, expected) in [(0, 5), (1, 9), (30, 270)] {
            assert_eq!(pause(seconds(5), seconds(took)), seconds(expected));
        }
    }

    #[test]
    fn screens_come_one_to_five_seconds_apart_unless_one_takes_long() {
        let (start, after) = (Instant::now(), Duration::from_millis);
        let mut rhythm = RefreshTimer::begin(start);
        let moments = |rhythm: &RefreshTimer, now: u64| {
            [rhythm.earliest(), rhythm.latest(start + after(now))].map(|at| at.duration_since(start).as_millis())
        };
        // The first one comes when there is something to show, however long that takes.
        assert_eq!(moments(&rhythm, 0), [0, 30_000]);
        assert_eq!(moments(&rhythm, 40_000), [0, 70_000]);
        // When a screen begins, when it has ended, and when the next one comes at the earliest and at the latest.
        for (begun, ended, expected) in [
            (2_000, 2_000, [3_000, 7_000]),
            (3_000, 3_100, [4_100, 8_000]),
            (8_000, 8_300, [11_000, 13_000]),
            (11_000, 12_000, [21_000, 21_000]),
        ] {
            rhythm.shown(start + after(begun), start + after(ended));
            assert_eq!(moments(&rhythm, ended), expected, "{begun}");
        }
    }
}
