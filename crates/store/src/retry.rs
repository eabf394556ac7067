//! Tries bucket operations again when that can help.

use lifeboat_bucket::BucketError;
use std::time::Duration;

/// Attempts in all, over about 15 s.
const TRIES: u32 = 7;

/// Runs an operation until it succeeds, fails for good, or was tried often enough.
pub(crate) async fn retry<T, F>(mut operation: impl FnMut() -> F) -> Result<T, BucketError>
where
    F: Future<Output = Result<T, BucketError>>,
{
    let mut tried = 0;
    loop {
        match operation().await {
            Err(e) if e.is_retryable() && tried + 1 < TRIES => {
                tracing::debug!(error = %e, tried, "trying the bucket again");
                tokio::time::sleep(Duration::from_millis(250) * 2u32.pow(tried)).await;
                tried += 1;
            }
            done => return done,
        }
    }
}
