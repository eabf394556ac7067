//! Limits bytes a second.

use std::num::NonZeroU64;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// The allowance after a quiet time, as the time in which its bytes may pass.
const BURST: Duration = Duration::from_secs(1);

/// A token bucket, counted in time: bytes take the time in which they may pass, and that has to be over.
#[derive(Debug)]
pub(super) struct Rate {
    per_second: NonZeroU64,
    /// The time up to which bytes have used the line; `None` when none have. A call that waits holds the lock, and the others
    /// queue behind it.
    used: Mutex<Option<Instant>>,
}

impl Rate {
    pub(super) fn new(per_second: NonZeroU64) -> Self {
        Self { per_second, used: Mutex::default() }
    }

    /// Waits until so many bytes may pass. Others have their turn after the bytes of each second; when the future is dropped,
    /// those it waits for stay unused.
    pub(super) async fn pay(&self, mut bytes: u64) {
        while bytes > 0 {
            let now_paid = bytes.min(self.per_second.get());
            bytes -= now_paid;
            let mut used = self.used.lock().await;
            let now = Instant::now();
            // Without a burst when the clock of the machine began less than one ago.
            let earliest = now.checked_sub(BURST).unwrap_or(now);
            let until = used.map_or(earliest, |used| used.max(earliest)) + time_of(now_paid, self.per_second);
            sleep_until(until).await;
            *used = Some(until);
        }
    }
}

/// The time in which these bytes may pass, at most a second's worth of them.
fn time_of(bytes: u64, per_second: NonZeroU64) -> Duration {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(per_second.get());
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_their_part_of_a_second() {
        for (bytes, per_second, nanos) in [
            (1, 1, 1_000_000_000),
            (1, 3, 333_333_333),
            (500, 1000, 500_000_000),
            (u64::MAX, u64::MAX, 1_000_000_000),
            (1, u64::MAX, 0),
        ] {
            let per_second = NonZeroU64::new(per_second).unwrap();
            assert_eq!(time_of(bytes, per_second), Duration::from_nanos(nanos), "{bytes} at {per_second}");
        }
    }
}
