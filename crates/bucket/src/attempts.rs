//! Tries an operation again that failed for a reason that can pass, until patience ends.

use crate::BucketError;
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Default time limit of one operation: attempts and the pauses between them together.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// The first pause; each one after it is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// After this long the log says why a bucket is waited for.
const QUIET: Duration = Duration::from_secs(10);

/// Counts the attempts of one operation. [`Attempts::pause_or_give_up`] is called after each that failed.
#[derive(Debug)]
pub struct Attempts {
    began: Instant,
    patience: Duration,
    failed: u32,
    pauses: ExponentialBackoff,
    /// Set once the log has warned that the operation takes long.
    told: bool,
}

impl Attempts {
    /// Begins now. With no patience there is one attempt.
    #[must_use]
    pub fn within(patience: Duration) -> Self {
        let pauses = ExponentialBuilder::default().with_min_delay(FIRST_PAUSE).with_max_delay(LONGEST_PAUSE);
        let pauses = pauses.without_max_times().build();
        Self { began: Instant::now(), patience, failed: 0, pauses, told: false }
    }

    /// Time since the first one began.
    #[must_use]
    pub fn lasted(&self) -> Duration {
        self.began.elapsed()
    }

    /// Waits before the next attempt, or gives up. The first error after ten seconds of trouble is a warning in the log.
    ///
    /// # Errors
    /// `error` itself, when another attempt cannot help or patience would end before it.
    pub async fn pause_or_give_up(&mut self, mut error: BucketError) -> Result<(), BucketError> {
        let pause = self.pauses.next().unwrap_or(LONGEST_PAUSE);
        let left = self.patience.saturating_sub(self.lasted());
        if error.is_retryable() && pause < left {
            self.failed += 1;
            self.tell(&error);
            sleep(pause).await;
            return Ok(());
        }
        if error.is_retryable() && self.failed > 0 {
            let (times, seconds) = (self.failed + 1, self.lasted().as_secs());
            error.message.push_str(&format!("; tried {times} times in {seconds} s"));
        }
        Err(error)
    }

    fn tell(&mut self, error: &BucketError) {
        if self.lasted() > QUIET && !std::mem::replace(&mut self.told, true) {
            tracing::warn!(%error, "the bucket fails; it is tried for {} s in all", self.patience.as_secs());
        } else {
            tracing::debug!(%error, "trying the bucket again");
        }
    }
}

/// Runs an operation until it succeeds, fails for good, or patience ends.
///
/// # Errors
/// The last one of the operation.
pub async fn retry<T, F>(patience: Duration, mut operation: impl FnMut() -> F) -> Result<T, BucketError>
where
    F: Future<Output = Result<T, BucketError>>,
{
    let mut attempts = Attempts::within(patience);
    loop {
        match operation().await {
            Err(e) => attempts.pause_or_give_up(e).await?,
            done => return done,
        }
    }
}
