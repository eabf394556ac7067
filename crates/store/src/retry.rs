//! Tries bucket operations again when that can help.

use futures::{StreamExt, TryStreamExt};
use lifeboat_bucket::{BlobStore, BucketError, ByteStream};
use std::sync::Arc;
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
                pause(tried).await;
                tried += 1;
            }
            done => return done,
        }
    }
}

async fn pause(tried: u32) {
    tokio::time::sleep(Duration::from_millis(250) * 2u32.pow(tried)).await;
}

/// The bytes of an object of this size. A stream that breaks is read on from where it broke, as often in all as an
/// operation is tried.
pub(crate) fn read_on(bucket: Arc<dyn BlobStore>, key: String, size: u64) -> ByteStream {
    let begin = Reading { bucket, key, size, stream: None, got: 0, broken: 0 };
    let stream = futures::stream::try_unfold(begin, |mut reading| async move {
        Ok(reading.next().await?.map(|piece| (piece, reading)))
    });
    stream.boxed()
}

struct Reading {
    bucket: Arc<dyn BlobStore>,
    key: String,
    size: u64,
    stream: Option<ByteStream>,
    got: u64,
    broken: u32,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<bytes::Bytes>, BucketError> {
        loop {
            let stream = match &mut self.stream {
                Some(stream) => stream,
                None => {
                    let rest = (self.got > 0).then_some(self.got..self.size);
                    self.stream.insert(retry(|| self.bucket.get(&self.key, rest.clone())).await?)
                }
            };
            match stream.try_next().await {
                Err(e) if e.is_retryable() && self.broken + 1 < TRIES => {
                    tracing::debug!(error = %e, got = self.got, "reading on after a break");
                    pause(self.broken).await;
                    self.broken += 1;
                    self.stream = None;
                }
                done => {
                    let piece = done?;
                    self.got += piece.as_ref().map_or(0, |p| p.len() as u64);
                    return Ok(piece);
                }
            }
        }
    }
}
