//! Repeats calls that failed for a reason that can pass.

mod reading;

use crate::{BlobStore, Body, BucketError, ByteStream, ListOptions, ObjectInfo, Page, PutOptions, Retention, retry};
use async_trait::async_trait;
use reading::Reading;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Repeats calls that failed for a reason that can pass, with growing pauses, until patience ends.
///
/// Each attempt asks the inner store anew, so that one which asks whether it still may ([`BlobStore::put`] of a fence) is
/// heard each time. The error of the last attempt says how often and for how long it was tried.
///
/// - `get`: opening is tried again, and a stream that breaks or ends too early is read on from where it was, with patience
///   that begins anew after each MiB. What comes is of one object: a whole object that was replaced while it was read is an
///   error, if not at once then in place of the end. A range is read on without that question, because it takes a request
///   more: its reader knows the object, or checks what it got. A whole object of a store that reads only from the beginning
///   is read again from there, and is to have the same bytes up to where it broke.
/// - `put`: bytes are stored again; that is safe, because an object is there whole or not at all. A stream is given to
///   the inner store once, because it cannot be read again: a store that sends it in parts repeats those itself. A
///   conditional put is tried once too: a second attempt would meet the object that the first one wrote, and take it for
///   another writer's. A caller that can tell its own object repeats the put with [`retry`].
/// - All other calls are repeated.
#[derive(Clone, Debug)]
pub struct Retried {
    inner: Arc<dyn BlobStore>,
    patience: Duration,
}

impl Retried {
    /// The store, each call to which may take so long, all attempts together. With no patience there is one attempt.
    #[must_use]
    pub fn new(inner: Arc<dyn BlobStore>, patience: Duration) -> Self {
        Self { inner, patience }
    }

    /// The same store with other patience.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }
}

#[async_trait]
impl BlobStore for Retried {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn reads_ranges(&self) -> bool {
        self.inner.reads_ranges()
    }

    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        match body {
            Body::Bytes(bytes) if !options.if_absent => {
                retry(self.patience, || self.inner.put(key, Body::Bytes(bytes.clone()), options)).await
            }
            once => self.inner.put(key, once, options).await,
        }
    }

    async fn retain(&self, key: &str, retention: Retention) -> Result<(), BucketError> {
        retry(self.patience, || self.inner.retain(key, retention)).await
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        let stream = retry(self.patience, || self.inner.get(key, range.clone())).await?;
        Ok(Reading::new(Arc::clone(&self.inner), key, range, stream).into_stream(self.patience))
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        retry(self.patience, || self.inner.head(key)).await
    }

    async fn exists(&self, key: &str) -> Result<bool, BucketError> {
        retry(self.patience, || self.inner.exists(key)).await
    }

    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        retry(self.patience, || self.inner.list(options.clone())).await
    }

    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        retry(self.patience, || self.inner.delete(keys)).await
    }

    async fn abort_stale_uploads(&self, prefix: &str, age: Duration) -> Result<u64, BucketError> {
        retry(self.patience, || self.inner.abort_stale_uploads(prefix, age)).await
    }

    async fn presign(&self, key: &str, valid: Duration) -> Result<Option<String>, BucketError> {
        retry(self.patience, || self.inner.presign(key, valid)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{PlannedOutcome, Troubled};
    use crate::{ErrorKind, Memory, collect};
    use futures::StreamExt;
    use tokio::time::Instant;

    fn patient(inner: &Arc<Troubled>) -> Retried {
        Retried::new(inner.clone(), Duration::from_secs(180))
    }

    async fn text(store: &Retried, range: Option<Range<u64>>) -> Result<Vec<u8>, String> {
        let read = async { collect(store.get("k", range).await?, 1 << 30).await };
        read.await.map(|bytes| bytes.to_vec()).map_err(|e| e.to_string())
    }

    #[tokio::test]
    async fn conforms() {
        let store = Retried::new(Arc::new(Memory::default()), Duration::from_secs(180));
        crate::conformance::run(Arc::new(store)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn every_call_is_tried_until_patience_ends() {
        let away = Troubled::new(|_, _| PlannedOutcome::Fail(ErrorKind::Transient));
        let tried = [
            ("put", patient(&away).put("k", vec![1].into(), PutOptions::default()).await.map(drop)),
            ("get", patient(&away).get("k", None).await.map(drop)),
            ("head", patient(&away).head("k").await.map(drop)),
            ("exists", patient(&away).exists("k").await.map(drop)),
            ("list", patient(&away).list(ListOptions { prefix: "k".into(), ..ListOptions::default() }).await.map(drop)),
            ("delete", patient(&away).delete(&["k".to_owned()]).await),
            ("sweep", patient(&away).abort_stale_uploads("k", Duration::ZERO).await.map(drop)),
            ("presign", patient(&away).presign("k", Duration::ZERO).await.map(drop)),
        ];
        for (operation, result) in tried {
            let expected = format!("cannot {operation} \"k\" in troubled: it fails; tried 40 times in 177 s");
            assert_eq!(result.unwrap_err().to_string(), expected);
            assert_eq!(away.asked().iter().filter(|call| call.starts_with(operation)).count(), 40, "{operation}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_back_is_waited_for_and_what_cannot_pass_is_asked_once() {
        let away =
            Troubled::new(|n, _| if n < 30 { PlannedOutcome::Fail(ErrorKind::Throttled) } else { PlannedOutcome::Go });
        let began = Instant::now();
        patient(&away).put("k", b"x".to_vec().into(), PutOptions::default()).await.unwrap();
        assert!(began.elapsed() > Duration::from_secs(120));
        for kind in [ErrorKind::Denied, ErrorKind::NotFound, ErrorKind::Invalid, ErrorKind::Other, ErrorKind::Exists] {
            let away = Troubled::new(move |_, _| PlannedOutcome::Fail(kind));
            assert_eq!(patient(&away).head("k").await.unwrap_err().kind, kind);
            assert_eq!(away.asked(), ["head k"]);
        }
    }

    /// A fence that closes between two attempts is heard: nothing is stored after it.
    #[tokio::test(start_paused = true)]
    async fn whether_it_still_may_is_asked_before_each_attempt_of_a_put() {
        let fence =
            Troubled::new(|n, _| PlannedOutcome::Fail(if n < 3 { ErrorKind::Transient } else { ErrorKind::Other }));
        let error = patient(&fence).put("k", vec![1].into(), PutOptions::default()).await.unwrap_err();
        assert_eq!((error.kind, fence.asked()), (ErrorKind::Other, vec!["put k".to_owned(); 4]));
    }

    #[tokio::test(start_paused = true)]
    async fn streams_and_conditional_puts_are_given_once() {
        let away = Troubled::new(|_, _| PlannedOutcome::Fail(ErrorKind::Transient));
        let stream = Body::Stream(futures::stream::iter([Ok(vec![1].into())]).boxed());
        let if_absent = PutOptions { if_absent: true, ..PutOptions::default() };
        for (body, options) in [(stream, PutOptions::default()), (vec![1].into(), if_absent)] {
            let error = patient(&away).put("k", body, options).await.unwrap_err();
            assert_eq!(error.to_string(), "cannot put \"k\" in troubled: it fails");
        }
        assert_eq!(away.asked(), ["put k", "put k"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_range_that_breaks_or_ends_too_early_is_read_on() {
        for fate in [PlannedOutcome::Cut(3), PlannedOutcome::End(3)] {
            let store = Troubled::new(move |_, _| fate);
            store.fill("k", b"x0123456789x").await;
            assert_eq!(text(&patient(&store), Some(1..11)).await.unwrap(), b"0123456789");
            assert_eq!(store.asked(), ["get k 1..11", "get k 4..11", "get k 7..11", "get k 10..11"]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_goes_on_breaking_says_how_far_it_came() {
        let store = Troubled::new(|n, _| if n == 0 { PlannedOutcome::End(3) } else { PlannedOutcome::End(0) });
        store.fill("k", b"0123456789").await;
        let error = text(&patient(&store), Some(0..10)).await.unwrap_err();
        let expected = "cannot get \"k\" in troubled: the stream ended after 3 of 10 bytes; tried 40 times in 177 s";
        assert_eq!(error, expected);
    }

    /// Each break comes after more than a MiB; twenty of them with their pauses take longer than patience.
    #[tokio::test(start_paused = true)]
    async fn patience_begins_anew_with_progress() {
        let mib = 1 << 20;
        let whole: Vec<u8> = (0..20 * mib).map(|n: u32| n.to_be_bytes()[1]).collect();
        let store = Troubled::new(move |n, _| match n % 9 {
            0 => PlannedOutcome::Cut(mib as usize + 1),
            _ => PlannedOutcome::Fail(ErrorKind::Transient),
        });
        store.fill("k", &whole).await;
        let began = Instant::now();
        assert!(text(&patient(&store), Some(0..20 * u64::from(mib))).await.unwrap() == whole);
        assert!(began.elapsed() > Duration::from_secs(360));
    }

    /// Nothing of a small object was given out when it broke.
    #[tokio::test(start_paused = true)]
    async fn a_small_object_takes_one_request_and_is_read_anew_when_it_breaks() {
        let store = Troubled::new(|n, _| if n < 2 { PlannedOutcome::Cut(3) } else { PlannedOutcome::Go });
        store.fill("k", b"0123456789").await;
        assert_eq!(text(&patient(&store), None).await.unwrap(), b"0123456789");
        assert_eq!(text(&patient(&store), None).await.unwrap(), b"0123456789");
        assert_eq!(store.asked(), ["get k", "get k", "get k", "get k"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_object_is_read_on_and_asked_for_again_before_its_end_counts() {
        let whole: Vec<u8> = (0..300_000_u32).map(|n| n.to_be_bytes()[2]).collect();
        let store = Troubled::new(|n, _| if n == 2 { PlannedOutcome::Cut(100_000) } else { PlannedOutcome::Go });
        store.fill("k", &whole).await;
        assert!(text(&patient(&store), None).await.unwrap() == whole);
        assert_eq!(store.asked(), ["get k", "head k", "get k", "head k", "get k 100000..300000", "head k"]);
        // Without a break the store is not asked again.
        assert!(text(&patient(&store), None).await.unwrap() == whole);
        assert_eq!(store.asked()[6..], ["get k", "head k", "get k"]);
    }

    /// Neither its size nor a part of it is asked for: each would take reading it once more.
    #[tokio::test(start_paused = true)]
    async fn a_broken_read_of_a_sequential_object_starts_again_from_its_beginning() {
        let whole: Vec<u8> = (0..300_000_u32).map(|n| n.to_be_bytes()[2]).collect();
        let breaks =
            [PlannedOutcome::Cut(100_000), PlannedOutcome::Cut(5), PlannedOutcome::Cut(205_000), PlannedOutcome::Go];
        let store = Troubled::sequential(move |n, _| breaks[n.min(3)]);
        store.fill("k", &whole).await;
        assert!(text(&patient(&store), None).await.unwrap() == whole);
        assert_eq!(store.asked(), ["get k"; 4]);
        store.fill("k", b"").await;
        assert!(text(&patient(&store), None).await.unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_is_another_one_when_it_is_read_again_is_an_error() {
        for size in [300_000, 50_000] {
            let store = Troubled::sequential(move |n, _| {
                if n == 0 { PlannedOutcome::Cut(100_000) } else { PlannedOutcome::Replaced(size) }
            });
            store.fill("k", &vec![1; 300_000]).await;
            let error = text(&patient(&store), None).await.unwrap_err();
            let expected = "cannot get \"k\" in troubled: it was replaced while it was read: read it again";
            assert_eq!(error, expected, "{size}");
        }
    }

    /// Replaced by bytes of the same or another size, before it is read on and after.
    #[tokio::test(start_paused = true)]
    async fn an_object_that_was_replaced_is_an_error_and_no_mixture() {
        for (at, size) in [(3, 300_000), (3, 400_000), (4, 300_000), (5, 300_000)] {
            let store = Troubled::new(move |n, _| match n {
                2 => PlannedOutcome::Cut(100_000),
                _ if n == at => PlannedOutcome::Replaced(size),
                _ => PlannedOutcome::Go,
            });
            store.fill("k", &vec![1; 300_000]).await;
            let error = text(&patient(&store), None).await.unwrap_err();
            let expected = "cannot get \"k\" in troubled: it was replaced while it was read: read it again";
            assert_eq!(error, expected, "{at} {size}");
        }
        // Between the question and the answer: of which object the bytes are is known all the same.
        let store = Troubled::new(|n, _| if n == 2 { PlannedOutcome::Replaced(299_999) } else { PlannedOutcome::Go });
        store.fill("k", &vec![1; 300_000]).await;
        assert!(text(&patient(&store), None).await.unwrap_err().contains("it was replaced while it was read"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_breaks_after_the_last_byte_takes_nothing_away() {
        let store = Troubled::new(|_, _| PlannedOutcome::Cut(10));
        store.fill("k", b"0123456789").await;
        assert_eq!(text(&patient(&store), Some(0..10)).await.unwrap(), b"0123456789");
        assert_eq!(store.asked(), ["get k 0..10"]);
    }
}
