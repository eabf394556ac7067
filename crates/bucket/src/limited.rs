//! Limits how many calls a store gets at once, and how many bytes a second.

mod rate;

use crate::{BlobStore, Body, BucketError, ByteStream, ListOptions, ObjectInfo, Page, PutOptions, Retention};
use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use rate::Rate;
use std::num::{NonZeroU64, NonZeroUsize};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limits on the calls to a store and on the bytes moved.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Calls in flight; a stream counts until it ends or is dropped. None for no limit.
    pub calls: Option<NonZeroUsize>,
    /// Bytes a second written, over all calls.
    pub upload: Option<NonZeroU64>,
    /// Bytes a second read, over all calls.
    pub download: Option<NonZeroU64>,
}

/// Lets calls wait until the limits allow them, in the order in which they came.
///
/// After a quiet time the bytes of one second go at once. Pieces pass as they are, so a large one is paid for before it is
/// written, and after it was read: the next one waits. An object that is put whole is paid for before it is begun. A call
/// that waits and is dropped has used nothing and gives its place back.
///
/// A call that cannot end before another call of the same store, such as a put of the stream of a `get`, needs a limit of two.
#[derive(Clone, Debug)]
pub struct Limited {
    inner: Arc<dyn BlobStore>,
    calls: Option<Arc<Semaphore>>,
    upload: Option<Arc<Rate>>,
    download: Option<Arc<Rate>>,
}

/// A call's place among those in flight, until it is dropped; none without a limit.
type CallPermit = Option<OwnedSemaphorePermit>;

impl Limited {
    /// The store within these limits.
    #[must_use]
    pub fn new(inner: Arc<dyn BlobStore>, limits: Limits) -> Self {
        let places = |most: NonZeroUsize| Arc::new(Semaphore::new(most.get().min(Semaphore::MAX_PERMITS)));
        let rate = |limit: Option<NonZeroU64>| limit.map(|limit| Arc::new(Rate::new(limit)));
        Self { inner, calls: limits.calls.map(places), upload: rate(limits.upload), download: rate(limits.download) }
    }

    async fn place(&self) -> CallPermit {
        // The semaphore is never closed: an error would be no limit.
        Arc::clone(self.calls.as_ref()?).acquire_owned().await.ok()
    }
}

/// Waits until so many bytes may pass.
async fn pay(rate: Option<&Rate>, bytes: usize) {
    if let Some(rate) = rate {
        rate.pay(bytes as u64).await;
    }
}

#[async_trait]
impl BlobStore for Limited {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn reads_ranges(&self) -> bool {
        self.inner.reads_ranges()
    }

    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        let _place = self.place().await;
        let body = match (body, self.upload.clone()) {
            (Body::Stream(stream), Some(rate)) => {
                let paid = stream.and_then(move |piece| {
                    let rate = Arc::clone(&rate);
                    async move {
                        rate.pay(piece.len() as u64).await;
                        Ok(piece)
                    }
                });
                Body::Stream(paid.boxed())
            }
            (Body::Bytes(bytes), rate) => {
                pay(rate.as_deref(), bytes.len()).await;
                Body::Bytes(bytes)
            }
            (free, None) => free,
        };
        self.inner.put(key, body, options).await
    }

    async fn retain(&self, key: &str, retention: Retention) -> Result<(), BucketError> {
        let _place = self.place().await;
        self.inner.retain(key, retention).await
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        let place = self.place().await;
        let stream = self.inner.get(key, range).await?;
        let state = (stream, place, self.download.clone());
        // At the end, and after an error, the state goes and the place with it.
        let stream = futures::stream::try_unfold(state, |(mut stream, place, rate)| async move {
            let Some(piece) = stream.try_next().await? else { return Ok(None) };
            pay(rate.as_deref(), piece.len()).await;
            Ok(Some((piece, (stream, place, rate))))
        });
        Ok(stream.boxed())
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        let _place = self.place().await;
        self.inner.head(key).await
    }

    async fn exists(&self, key: &str) -> Result<bool, BucketError> {
        let _place = self.place().await;
        self.inner.exists(key).await
    }

    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        let _place = self.place().await;
        self.inner.list(options).await
    }

    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        let _place = self.place().await;
        self.inner.delete(keys).await
    }

    async fn abort_stale_uploads(&self, prefix: &str, age: Duration) -> Result<u64, BucketError> {
        let _place = self.place().await;
        self.inner.abort_stale_uploads(prefix, age).await
    }

    async fn presign(&self, key: &str, valid: Duration) -> Result<Option<String>, BucketError> {
        let _place = self.place().await;
        self.inner.presign(key, valid).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{PlannedOutcome, Troubled};
    use crate::{Memory, Retried, collect};
    use bytes::Bytes;
    use futures::poll;
    use std::pin::pin;
    use tokio::time::Instant;

    fn calls(most: usize) -> Limits {
        Limits { calls: NonZeroUsize::new(most), ..Limits::default() }
    }

    fn bytes(upload: u64, download: u64) -> Limits {
        Limits { calls: None, upload: NonZeroU64::new(upload), download: NonZeroU64::new(download) }
    }

    async fn filled(limits: Limits) -> Limited {
        let inner = Troubled::new(|_, _| PlannedOutcome::Go);
        inner.fill("k", &[7; 40_000]).await;
        Limited::new(inner, limits)
    }

    #[tokio::test]
    async fn conforms() {
        for limits in [Limits::default(), calls(1), Limits { calls: NonZeroUsize::new(2), ..bytes(1 << 40, 1 << 40) }] {
            crate::conformance::run(Arc::new(Limited::new(Arc::new(Memory::default()), limits))).await;
        }
    }

    #[tokio::test]
    async fn no_more_calls_are_in_flight_than_allowed() {
        let inner =
            Troubled::new(|_, text| if text == "head hangs" { PlannedOutcome::Hang } else { PlannedOutcome::Go });
        inner.fill("k", b"x").await;
        let store = Limited::new(inner.clone(), calls(2));
        let (mut first, mut second) = (Box::pin(store.head("hangs")), Box::pin(store.head("hangs")));
        let mut third = pin!(store.head("k"));
        assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending() && poll!(&mut third).is_pending());
        assert_eq!(inner.asked(), ["head hangs", "head hangs"]);
        drop(second);
        assert_eq!(third.await.unwrap().size, 1);
        drop(first);
    }

    #[tokio::test]
    async fn a_call_that_waits_and_is_dropped_gives_its_place_back() {
        let store = filled(calls(1)).await;
        let stream = store.get("k", None).await.unwrap();
        let mut dropped = Box::pin(store.head("k"));
        let mut next = pin!(store.head("k"));
        assert!(poll!(&mut dropped).is_pending() && poll!(&mut next).is_pending());
        drop(dropped);
        drop(stream);
        assert_eq!(next.await.unwrap().size, 40_000);
    }

    #[tokio::test]
    async fn a_stream_counts_until_it_ends_or_is_dropped() {
        let store = filled(calls(1)).await;
        let mut stream = store.get("k", None).await.unwrap();
        assert!(poll!(pin!(store.head("k"))).is_pending());
        while stream.try_next().await.unwrap().is_some() {
            assert!(poll!(pin!(store.head("k"))).is_pending());
        }
        // It is still held.
        store.head("k").await.unwrap();
        drop(stream);
        drop(store.get("k", None).await.unwrap());
        store.head("k").await.unwrap();
    }

    /// Resuming a broken read asks for the object's `head`; the broken stream must have released the only place by
    /// then.
    #[tokio::test(start_paused = true)]
    async fn one_place_is_enough_to_read_on() {
        let inner = Troubled::new(|n, _| if n == 2 { PlannedOutcome::Cut(100_000) } else { PlannedOutcome::Go });
        inner.fill("k", &[7; 300_000]).await;
        let store = Retried::new(Arc::new(Limited::new(inner, calls(1))), Duration::from_secs(180));
        let bytes = collect(store.get("k", None).await.unwrap(), 300_000).await.unwrap();
        assert_eq!(bytes.len(), 300_000);
    }

    /// 40,000 bytes at 10,000 a second, of which those of the first second go at once.
    #[tokio::test(start_paused = true)]
    async fn bytes_pass_at_the_rate_over_all_calls() {
        let three = Duration::from_secs(3);
        let store = filled(bytes(10_000, 10_000)).await;
        let began = Instant::now();
        let whole = collect(store.get("k", None).await.unwrap(), 40_000).await.unwrap();
        assert_eq!(began.elapsed(), three);
        // Written and read are counted apart.
        let began = Instant::now();
        let half = |n| whole.slice(n..n + 20_000);
        let pieces = futures::stream::iter([Ok(half(0))]).boxed();
        let (one, other) = tokio::join!(
            store.put("a", Body::Stream(pieces), PutOptions::default()),
            store.put("b", half(20_000).into(), PutOptions::default()),
        );
        assert_eq!((one.unwrap(), other.unwrap(), began.elapsed()), (20_000, 20_000, three));
        // A quiet time is good for one second, however long it was.
        tokio::time::sleep(Duration::from_secs(100)).await;
        let began = Instant::now();
        store.put("c", whole.clone().into(), PutOptions::default()).await.unwrap();
        assert_eq!(began.elapsed(), three);
    }

    #[tokio::test(start_paused = true)]
    async fn who_stops_waiting_has_used_no_bytes() {
        let store = filled(bytes(1000, 1000)).await;
        let put = |size| store.put("a", Bytes::from(vec![1; size]).into(), PutOptions::default());
        put(1000).await.unwrap();
        let began = Instant::now();
        let given_up = tokio::time::timeout(Duration::from_millis(500), put(1000)).await;
        assert!(given_up.is_err());
        put(1000).await.unwrap();
        assert_eq!(began.elapsed(), Duration::from_secs(1));
    }
}
