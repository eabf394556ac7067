//! Tells of every call how it ended.

use crate::{BlobStore, Body, BucketError, ByteStream, ListOptions, ObjectInfo, Page, PutOptions, Retention};
use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Is told of each call that ended, and makes metrics of it.
pub trait Meter: Debug + Send + Sync {
    /// Takes note of a call that has ended. It runs in the task of the call, also when the call is dropped, and must not wait.
    fn ended(&self, call: &MeasuredCall<'_>);
}

/// A call that ended. A `get` ends when its stream ends or is dropped.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredCall<'a> {
    /// As errors name it: `put`, `retain`, `get`, `head`, `list`, `delete`, `sweep`, `presign`.
    pub operation: &'static str,
    /// From its beginning to its end.
    pub lasted: Duration,
    /// Bytes that were read, or that the store took of a stream; all bytes of an object that was put whole, when it was.
    pub bytes: u64,
    /// The error, when the call failed.
    pub error: Option<&'a BucketError>,
    /// True when the caller dropped the call before its end.
    pub is_abandoned: bool,
}

/// Tells a [`Meter`] of every call, also of those that fail or are dropped.
///
/// Below [`crate::Retried`] it tells of each attempt, above it of each call as its caller sees it.
#[derive(Clone, Debug)]
pub struct Measured {
    inner: Arc<dyn BlobStore>,
    meter: Arc<dyn Meter>,
}

impl Measured {
    /// The store of which this meter is told.
    #[must_use]
    pub fn new(inner: Arc<dyn BlobStore>, meter: Arc<dyn Meter>) -> Self {
        Self { inner, meter }
    }

    fn begin(&self, operation: &'static str) -> CallInFlight {
        let bytes = Arc::new(AtomicU64::new(0));
        CallInFlight { meter: Arc::clone(&self.meter), operation, began: Instant::now(), bytes, has_ended: false }
    }

    async fn measure<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, BucketError>> + Send,
    ) -> Result<T, BucketError> {
        let running = self.begin(operation);
        let answer = call.await;
        running.end(answer.as_ref().err());
        answer
    }
}

/// A call in flight. Dropped before its end, it is abandoned.
struct CallInFlight {
    meter: Arc<dyn Meter>,
    operation: &'static str,
    began: Instant,
    bytes: Arc<AtomicU64>,
    has_ended: bool,
}

impl CallInFlight {
    fn end(mut self, error: Option<&BucketError>) {
        self.has_ended = true;
        self.tell(error, false);
    }

    fn tell(&self, error: Option<&BucketError>, is_abandoned: bool) {
        let (operation, bytes) = (self.operation, self.bytes.load(Ordering::Relaxed));
        self.meter.ended(&MeasuredCall { operation, lasted: self.began.elapsed(), bytes, error, is_abandoned });
    }
}

impl Drop for CallInFlight {
    fn drop(&mut self) {
        if !self.has_ended {
            self.tell(None, true);
        }
    }
}

/// Counts the bytes that pass.
fn counted(stream: ByteStream, bytes: Arc<AtomicU64>) -> ByteStream {
    let count = move |piece: &bytes::Bytes| {
        bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
    };
    stream.inspect_ok(count).boxed()
}

#[async_trait]
impl BlobStore for Measured {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn reads_ranges(&self) -> bool {
        self.inner.reads_ranges()
    }

    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        let running = self.begin("put");
        let (body, is_whole) = match body {
            Body::Stream(stream) => (Body::Stream(counted(stream, Arc::clone(&running.bytes))), false),
            whole => (whole, true),
        };
        let answer = self.inner.put(key, body, options).await;
        if let (Ok(size), true) = (&answer, is_whole) {
            running.bytes.store(*size, Ordering::Relaxed);
        }
        running.end(answer.as_ref().err());
        answer
    }

    async fn retain(&self, key: &str, retention: Retention) -> Result<(), BucketError> {
        self.measure("retain", self.inner.retain(key, retention)).await
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        let running = self.begin("get");
        let stream = match self.inner.get(key, range).await {
            Ok(stream) => counted(stream, Arc::clone(&running.bytes)),
            Err(e) => {
                running.end(Some(&e));
                return Err(e);
            }
        };
        let stream = futures::stream::try_unfold((stream, running), |(mut stream, running)| async move {
            match stream.try_next().await {
                Ok(Some(piece)) => Ok(Some((piece, (stream, running)))),
                end => {
                    running.end(end.as_ref().err());
                    end.map(|_| None)
                }
            }
        });
        Ok(stream.boxed())
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        self.measure("head", self.inner.head(key)).await
    }

    async fn exists(&self, key: &str) -> Result<bool, BucketError> {
        self.measure("head", self.inner.exists(key)).await
    }

    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        self.measure("list", self.inner.list(options)).await
    }

    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        self.measure("delete", self.inner.delete(keys)).await
    }

    async fn abort_stale_uploads(&self, prefix: &str, age: Duration) -> Result<u64, BucketError> {
        self.measure("sweep", self.inner.abort_stale_uploads(prefix, age)).await
    }

    async fn presign(&self, key: &str, valid: Duration) -> Result<Option<String>, BucketError> {
        self.measure("presign", self.inner.presign(key, valid)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{PlannedOutcome, Troubled};
    use crate::{ErrorKind, Memory, collect};
    use bytes::Bytes;
    use futures::poll;
    use std::pin::pin;
    use std::sync::Mutex;
    use tokio::time::advance;

    /// Operation, seconds, bytes, error, whether it was abandoned.
    type Line = (&'static str, u64, u64, Option<ErrorKind>, bool);

    /// Remembers what it was told.
    #[derive(Debug, Default)]
    struct Told(Mutex<Vec<Line>>);

    impl Meter for Told {
        fn ended(&self, call: &MeasuredCall<'_>) {
            let MeasuredCall { operation, lasted, bytes, error, is_abandoned } = *call;
            self.0.lock().unwrap().push((operation, lasted.as_secs(), bytes, error.map(|e| e.kind), is_abandoned));
        }
    }

    impl Told {
        /// Takes the calls told since the last time.
        fn take(&self) -> Vec<Line> {
            std::mem::take(&mut self.0.lock().unwrap())
        }
    }

    async fn measured(fate: PlannedOutcome) -> (Arc<Told>, Measured) {
        let (inner, told) = (Troubled::new(move |_, _| fate), Arc::new(Told::default()));
        inner.fill("k", &[7; 40_000]).await;
        (told.clone(), Measured::new(inner, told))
    }

    fn stream(pieces: Vec<Result<Bytes, BucketError>>) -> Body {
        Body::Stream(futures::stream::iter(pieces).boxed())
    }

    #[tokio::test]
    async fn conforms() {
        let store = Measured::new(Arc::new(Memory::default()), Arc::new(Told::default()));
        crate::conformance::run(Arc::new(store)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn each_call_is_told_of_once() {
        let (told, store) = measured(PlannedOutcome::Go).await;
        let options = PutOptions::default();
        store.put("a", vec![1; 3].into(), options).await.unwrap();
        store.put("b", stream(vec![Ok(vec![1; 3].into()), Ok(vec![1; 4].into())]), options).await.unwrap();
        assert_eq!(collect(store.get("k", Some(5..20_000)).await.unwrap(), 40_000).await.unwrap().len(), 19_995);
        store.head("k").await.unwrap();
        store.list(ListOptions::default()).await.unwrap();
        store.delete(&["a".to_owned()]).await.unwrap();
        store.abort_stale_uploads("", Duration::ZERO).await.unwrap();
        store.presign("k", Duration::ZERO).await.unwrap();
        let of = |operation, bytes| (operation, 0, bytes, None, false);
        let without_bytes = ["head", "list", "delete", "sweep", "presign"].map(|operation| of(operation, 0));
        assert_eq!(told.take(), [&[of("put", 3), of("put", 7), of("get", 19_995)][..], &without_bytes].concat());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_its_call() {
        let (told, store) = measured(PlannedOutcome::Go).await;
        let mut stream = store.get("k", None).await.unwrap();
        while stream.try_next().await.unwrap().is_some() {
            assert_eq!(told.take(), []);
            advance(Duration::from_secs(2)).await;
        }
        assert_eq!(told.take(), [("get", 8, 40_000, None, false)]);
        drop(stream);
        assert_eq!(told.take(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_says_why_and_how_far_it_came() {
        let (told, store) = measured(PlannedOutcome::Fail(ErrorKind::Denied)).await;
        store.put("a", vec![1; 3].into(), PutOptions::default()).await.unwrap_err();
        assert!(store.get("k", None).await.is_err());
        store.head("k").await.unwrap_err();
        let denied = |operation| (operation, 0, 0, Some(ErrorKind::Denied), false);
        assert_eq!(told.take(), [denied("put"), denied("get"), denied("head")]);

        let (told, store) = measured(PlannedOutcome::Cut(15_000)).await;
        let broken = collect(store.get("k", None).await.unwrap(), 40_000).await.unwrap_err();
        let pieces = stream(vec![Ok(vec![1; 3].into()), Err(broken)]);
        store.put("a", pieces, PutOptions::default()).await.unwrap_err();
        let transient = |operation, bytes| (operation, 0, bytes, Some(ErrorKind::Transient), false);
        assert_eq!(told.take(), [transient("get", 15_000), transient("put", 3)]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_dropped_is_abandoned() {
        let (told, store) = measured(PlannedOutcome::Hang).await;
        assert!(poll!(pin!(store.head("k"))).is_pending());
        assert!(poll!(pin!(store.get("k", None))).is_pending());
        assert_eq!(told.take(), [("head", 0, 0, None, true), ("get", 0, 0, None, true)]);

        let (told, store) = measured(PlannedOutcome::Go).await;
        let mut begun = store.get("k", None).await.unwrap();
        begun.try_next().await.unwrap();
        drop(begun);
        assert_eq!(told.take(), [("get", 0, 10_000, None, true)]);
    }
}
