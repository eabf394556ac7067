//! Says when a step that failed is tried again.

use backon::{BackoffBuilder, ExponentialBuilder};
use std::time::Duration;
use tokio::time::Instant;

/// A step that has failed so often no longer keeps other steps waiting.
const LATE: u32 = 3;
/// Pause after the first failure of a step. Each further failure doubles it, up to [`LONGEST_RETRY`].
const RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// The number of failures of a step in a row, and the time of its next attempt.
#[derive(Clone, Copy, Debug)]
pub struct StepBackoff {
    /// Failures in a row; 0 for a step that only waits.
    pub count: u32,
    /// The step is not tried again before this moment.
    pub until: Instant,
}

impl StepBackoff {
    /// Counts one more failure after those that are known.
    #[must_use]
    pub fn after(before: Option<Self>, now: Instant) -> Self {
        let count = before.map_or(0, |before| before.count).saturating_add(1);
        let pauses = ExponentialBuilder::default().with_min_delay(RETRY).with_max_delay(LONGEST_RETRY);
        let pause = pauses.without_max_times().build().nth((count - 1).min(16) as usize);
        Self { count, until: now + pause.unwrap_or(LONGEST_RETRY) }
    }

    /// A step that has not failed, and has nothing to do until the pause is over.
    #[must_use]
    pub fn waits(pause: Duration, now: Instant) -> Self {
        Self { count: 0, until: now + pause }
    }

    /// Returns true if the step has failed so often that others go first.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.count >= LATE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_tried_again_later_and_later() {
        let now = Instant::now();
        let (mut failure, mut seen) = (None, Vec::new());
        for _ in 0..11 {
            let next = StepBackoff::after(failure, now);
            seen.push(((next.until - now).as_millis(), next.is_late()));
            failure = Some(next);
        }
        let pauses = [200, 400, 800, 1600, 3200, 6400, 12800, 25600, 51200, 60000, 60000];
        let expected = pauses.into_iter().zip([false, false].into_iter().chain(std::iter::repeat(true)));
        assert_eq!(seen, expected.collect::<Vec<_>>());
        let waiting = StepBackoff::waits(Duration::from_secs(5), now);
        assert_eq!((waiting.count, waiting.until - now, waiting.is_late()), (0, Duration::from_secs(5), false));
        assert_eq!(StepBackoff::after(Some(waiting), now).count, 1);
    }
}
