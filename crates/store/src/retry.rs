//! Tries bucket operations again when that can help.

use crate::Store;
use futures::{StreamExt, TryStreamExt};
use lifeboat_bucket::{Attempts, BucketError, ByteStream, ErrorKind};
use std::time::Duration;

/// Who waits longer than this for a bucket is told why.
const QUIET: Duration = Duration::from_secs(10);
/// So much of a stream must come before a break of it counts as a new one.
const PROGRESS: u64 = 1 << 20;

impl Store {
    /// Runs an operation until it succeeds, fails for good, or patience ends.
    pub(crate) async fn retry<T, F>(&self, mut operation: impl FnMut() -> F) -> Result<T, BucketError>
    where
        F: Future<Output = Result<T, BucketError>>,
    {
        let mut trying = Trying::begin(self);
        loop {
            match operation().await {
                Err(e) => trying.again(e).await?,
                done => return done,
            }
        }
    }

    /// The bytes of an object of this size. A stream that breaks, or ends too early, is read on from where it was; patience
    /// begins anew when enough of it has come.
    pub(crate) fn read_on(&self, key: String, size: u64) -> ByteStream {
        let begin = Reading { store: self.clone(), key, size, stream: None, got: 0, trying: None };
        let stream = futures::stream::try_unfold(begin, |mut reading| async move {
            Ok(reading.next().await?.map(|piece| (piece, reading)))
        });
        stream.boxed()
    }
}

/// The attempts of an operation, and whether somebody was told of them.
struct Trying {
    attempts: Attempts,
    patience: Duration,
    told: bool,
}

impl Trying {
    fn begin(store: &Store) -> Self {
        Self { attempts: Attempts::within(store.patience), patience: store.patience, told: false }
    }

    async fn again(&mut self, error: BucketError) -> Result<(), BucketError> {
        if error.is_retryable() {
            if self.attempts.lasted() > QUIET && !std::mem::replace(&mut self.told, true) {
                tracing::warn!(%error, "the bucket fails; it is tried for {} s in all", self.patience.as_secs());
            } else {
                tracing::debug!(%error, "trying the bucket again");
            }
        }
        self.attempts.again(error).await
    }
}

struct Reading {
    store: Store,
    key: String,
    size: u64,
    stream: Option<ByteStream>,
    got: u64,
    /// The attempts since a break, and where that was.
    trying: Option<(Trying, u64)>,
}

impl Reading {
    async fn again(&mut self, error: BucketError) -> Result<(), BucketError> {
        self.stream = None;
        let (trying, _) = self.trying.get_or_insert_with(|| (Trying::begin(&self.store), self.got));
        trying.again(error).await
    }

    async fn next(&mut self) -> Result<Option<bytes::Bytes>, BucketError> {
        loop {
            let stream = match &mut self.stream {
                Some(stream) => stream,
                None => {
                    let rest = (self.got > 0).then_some(self.got..self.size);
                    match self.store.bucket.get(&self.key, rest).await {
                        Ok(stream) => self.stream.insert(stream),
                        Err(e) => {
                            self.again(e).await?;
                            continue;
                        }
                    }
                }
            };
            let piece = match stream.try_next().await {
                Ok(None) if self.got < self.size => Err(self.early()),
                // All of it has come: what breaks after the last byte takes nothing away.
                Err(_) if self.got > 0 && self.got >= self.size => Ok(None),
                piece => piece,
            };
            match piece {
                Ok(piece) => {
                    self.got += piece.as_ref().map_or(0, |p| p.len() as u64);
                    self.trying.take_if(|(_, at)| self.got - *at >= PROGRESS);
                    return Ok(piece);
                }
                Err(e) => self.again(e).await?,
            }
        }
    }

    fn early(&self) -> BucketError {
        BucketError {
            kind: ErrorKind::Transient,
            operation: "get",
            key: self.key.clone(),
            store: self.store.describe(),
            message: format!("the stream ended after {} of {} bytes", self.got, self.size),
            source: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreError;
    use async_trait::async_trait;
    use lifeboat_bucket::{BlobStore, Body, ListOptions, Memory, ObjectInfo, Page, PutOptions, collect};
    use std::ops::Range;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use tokio::time::Instant;

    /// A bucket that is away for a while, or for good.
    #[derive(Debug)]
    struct Away {
        inner: Memory,
        kind: ErrorKind,
        until: Instant,
        /// Bytes after which each answer ends.
        cut: usize,
        asked: AtomicU64,
    }

    impl Away {
        async fn store(kind: ErrorKind, seconds: u64) -> (Arc<Self>, Store) {
            let inner = Memory::default();
            inner.put("k", b"0123456789".to_vec().into(), PutOptions::default()).await.unwrap();
            let until = Instant::now() + Duration::from_secs(seconds);
            let away = Arc::new(Self { inner, kind, until, cut: usize::MAX, asked: AtomicU64::new(0) });
            (Arc::clone(&away), Store::new(away))
        }

        fn here(&self, operation: &'static str, key: &str) -> Result<(), BucketError> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            if Instant::now() >= self.until {
                return Ok(());
            }
            let (key, store, message) = (key.to_owned(), self.describe(), "it is away".to_owned());
            Err(BucketError { kind: self.kind, operation, key, store, message, source: None })
        }
    }

    #[async_trait]
    impl BlobStore for Away {
        fn describe(&self) -> String {
            "away".to_owned()
        }
        async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
            self.here("put", key)?;
            self.inner.put(key, body, options).await
        }
        async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
            self.here("get", key)?;
            let bytes = collect(self.inner.get(key, range).await?, 1 << 20).await?;
            let bytes = bytes.slice(..bytes.len().min(self.cut));
            Ok(futures::stream::once(async { Ok(bytes) }).boxed())
        }
        async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
            self.here("head", key)?;
            self.inner.head(key).await
        }
        async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
            self.here("list", &options.prefix)?;
            self.inner.list(options).await
        }
        async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
            self.here("delete", "")?;
            self.inner.delete(keys).await
        }
        async fn abort_stale_uploads(&self, prefix: &str, _: Duration) -> Result<u64, BucketError> {
            self.here("sweep", prefix).map(|()| 0)
        }
        async fn presign(&self, _: &str, _: Duration) -> Result<Option<String>, BucketError> {
            Ok(None)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_that_is_away_for_two_minutes_is_waited_for() {
        let (_, store) = Away::store(ErrorKind::Transient, 120).await;
        assert_eq!(store.read("k").await.unwrap().unwrap(), b"0123456789"[..]);
        let (_, store) = Away::store(ErrorKind::Throttled, 120).await;
        let bytes = collect(store.read_on("k".into(), 10), 100).await.unwrap();
        assert_eq!(bytes, b"0123456789"[..]);
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends_when_the_user_says_so_and_the_error_tells() {
        for (patience, expected) in [
            (10, "cannot get \"k\" in away: it is away; tried 6 times in 7 s"),
            (180, "cannot get \"k\" in away: it is away; tried 40 times in 177 s"),
            (0, "cannot get \"k\" in away: it is away"),
        ] {
            let (_, store) = Away::store(ErrorKind::Transient, 3600).await;
            let store = store.with_patience(Duration::from_secs(patience));
            let began = Instant::now();
            let error = store.read("k").await.unwrap_err();
            assert!(matches!(error, StoreError::Bucket(_)));
            assert_eq!(error.to_string(), expected);
            assert!(began.elapsed() <= Duration::from_secs(patience), "{:?}", began.elapsed());
            let error = collect(store.read_on("k".into(), 10), 100).await.unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_pass_is_asked_once() {
        let (away, store) = Away::store(ErrorKind::Denied, 3600).await;
        let error = store.read("k").await.unwrap_err();
        assert_eq!(
            (error.to_string().as_str(), away.asked.load(Ordering::Relaxed)),
            ("cannot get \"k\" in away: it is away", 1)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_ends_too_early_is_read_on() {
        let inner = Memory::default();
        inner.put("k", b"0123456789".to_vec().into(), PutOptions::default()).await.unwrap();
        let (kind, until, asked) = (ErrorKind::Transient, Instant::now(), AtomicU64::new(0));
        let away = Arc::new(Away { inner, kind, until, cut: 3, asked });
        let bytes = collect(Store::new(away.clone()).read_on("k".into(), 10), 100).await.unwrap();
        assert_eq!((bytes, away.asked.load(Ordering::Relaxed)), (b"0123456789"[..].into(), 4));
    }
}
