//! Ends calls that hang.

use crate::{
    BlobStore, Body, BucketError, ByteStream, ErrorKind, ListOptions, ObjectInfo, Page, PutOptions, Retention,
    sequential,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// The longest times that a call may take without a sign of life.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// For the answer to begin. To a put that is after all bytes were sent and stored: a store that sends large parts needs
    /// the time of several for the last ones.
    pub answer: Duration,
    /// Between two pieces of a stream, read or written.
    pub silence: Duration,
}

/// Ends calls that hang, with [`ErrorKind::Transient`].
///
/// A call is to be answered within [`Deadlines::answer`]; what `get` answers is a stream, each piece of which is to come
/// within [`Deadlines::silence`] once it is asked for. An object that is put whole has [`Deadlines::answer`] too. Where objects are
/// read only from their beginning, a range and a size are read piece by piece here, so that a large object takes as long as it needs.
///
/// A put of a stream may take as long as it likes, while it goes on: each piece that is ready is to be taken within
/// [`Deadlines::silence`], and when all are, the answer has its time. How long the next piece takes to be made does not count.
#[derive(Clone, Debug)]
pub struct Deadlined {
    inner: Arc<dyn BlobStore>,
    deadlines: Deadlines,
}

impl Deadlined {
    /// The store with these deadlines.
    #[must_use]
    pub fn new(inner: Arc<dyn BlobStore>, deadlines: Deadlines) -> Self {
        Self { inner, deadlines }
    }

    async fn answer<T>(
        &self,
        operation: &'static str,
        key: &str,
        call: impl Future<Output = Result<T, BucketError>> + Send,
    ) -> Result<T, BucketError> {
        match timeout(self.deadlines.answer, call).await {
            Ok(answer) => answer,
            Err(_) => Err(self.hangs(operation, key, format!("no answer within {:?}", self.deadlines.answer))),
        }
    }

    fn hangs(&self, operation: &'static str, key: &str, message: String) -> BucketError {
        BucketError::new(ErrorKind::Transient, operation, key, self.describe(), message)
    }

    /// Opens an object, or a range of it, for an operation; each piece has its time.
    async fn open(
        &self,
        operation: &'static str,
        key: &str,
        range: Option<Range<u64>>,
    ) -> Result<ByteStream, BucketError> {
        let stream = self.answer(operation, key, self.inner.get(key, range)).await?;
        let silence = self.deadlines.silence;
        let state = (stream, key.to_owned(), self.describe());
        let stream = futures::stream::try_unfold(state, move |(mut stream, key, store)| async move {
            let Ok(piece) = timeout(silence, stream.try_next()).await else {
                let message = format!("nothing more came for {silence:?}");
                return Err(BucketError::new(ErrorKind::Transient, operation, &key, store, message));
            };
            Ok(piece?.map(|piece| (piece, (stream, key, store))))
        });
        Ok(stream.boxed())
    }

    async fn put_stream(&self, key: &str, body: ByteStream, options: PutOptions) -> Result<u64, BucketError> {
        let (sender, pieces) = mpsc::channel(1);
        let watched = watched(pieces, self.hangs("put", key, "the upload was given up".to_owned()));
        let mut put = pin!(self.inner.put(key, Body::Stream(watched), options));
        let taken = tokio::select! {
            biased;
            answer = &mut put => return answer,
            taken = feed(body, &sender, self.deadlines.silence) => taken,
        };
        match taken {
            true => self.answer("put", key, put).await,
            false => {
                let message = format!("it took nothing more for {:?}", self.deadlines.silence);
                Err(self.hangs("put", key, message))
            }
        }
    }
}

/// A piece of the body for the inner store, or the error of the body; `None` marks its end.
type Handed = Option<Result<Bytes, BucketError>>;

/// Hands on piece after piece, and the end; false when one that is ready is not taken for so long.
async fn feed(mut body: ByteStream, sender: &mpsc::Sender<Handed>, silence: Duration) -> bool {
    loop {
        let piece = body.next().await;
        let is_last = !matches!(piece, Some(Ok(_)));
        // There is room: the piece before was taken. A store that wants no more answers.
        if sender.send(piece).await.is_err() || is_last {
            // Of the end it is enough that the answer follows.
            return true;
        }
        // Room again: it was taken.
        if timeout(silence, sender.reserve()).await.is_err() {
            return false;
        }
    }
}

/// The body as the inner store sees it. A put that is given up ends its body with an error: half of it must not count as
/// whole.
fn watched(pieces: mpsc::Receiver<Handed>, given_up: BucketError) -> ByteStream {
    let begin = Some((pieces, given_up));
    let stream = futures::stream::unfold(begin, |state| async move {
        let (mut pieces, given_up) = state?;
        match pieces.recv().await {
            Some(Some(Ok(piece))) => Some((Ok(piece), Some((pieces, given_up)))),
            Some(Some(Err(e))) => Some((Err(e), None)),
            Some(None) => None,
            None => Some((Err(given_up), None)),
        }
    });
    stream.boxed()
}

#[async_trait]
impl BlobStore for Deadlined {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn reads_ranges(&self) -> bool {
        self.inner.reads_ranges()
    }

    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        match body {
            Body::Stream(stream) => self.put_stream(key, stream, options).await,
            whole => self.answer("put", key, self.inner.put(key, whole, options)).await,
        }
    }

    async fn retain(&self, key: &str, retention: Retention) -> Result<(), BucketError> {
        self.answer("retain", key, self.inner.retain(key, retention)).await
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        match range {
            Some(range) if !self.reads_ranges() => {
                let (key, store) = (key.to_owned(), self.describe());
                let whole = self.open("get", &key, None).await?;
                let beyond = move || {
                    let message = "the range is beyond the end".to_owned();
                    BucketError::new(ErrorKind::Invalid, "get", &key, store.clone(), message)
                };
                sequential::part(whole, range, beyond).await
            }
            range => self.open("get", key, range).await,
        }
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        if self.reads_ranges() {
            return self.answer("head", key, self.inner.head(key)).await;
        }
        let size = sequential::measure(self.open("head", key, None).await?).await?;
        Ok(ObjectInfo { key: key.to_owned(), size, modified: None })
    }

    async fn exists(&self, key: &str) -> Result<bool, BucketError> {
        self.answer("head", key, self.inner.exists(key)).await
    }

    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        let prefix = options.prefix.clone();
        self.answer("list", &prefix, self.inner.list(options)).await
    }

    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        self.answer("delete", keys.first().map_or("", String::as_str), self.inner.delete(keys)).await
    }

    async fn abort_stale_uploads(&self, prefix: &str, age: Duration) -> Result<u64, BucketError> {
        self.answer("sweep", prefix, self.inner.abort_stale_uploads(prefix, age)).await
    }

    async fn presign(&self, key: &str, valid: Duration) -> Result<Option<String>, BucketError> {
        self.answer("presign", key, self.inner.presign(key, valid)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{PlannedOutcome, Troubled};
    use crate::{Memory, collect};
    use tokio::time::{Instant, sleep};

    const DEADLINES: Deadlines = Deadlines { answer: Duration::from_secs(30), silence: Duration::from_secs(10) };

    fn deadlined(fate: PlannedOutcome) -> (Arc<Troubled>, Deadlined) {
        let inner = Troubled::new(move |_, _| fate);
        (inner.clone(), Deadlined::new(inner, DEADLINES))
    }

    /// A piece every `pause` seconds.
    fn pieces(count: u32, pause: u64) -> Body {
        let stream = futures::stream::iter(0..count).then(move |_| async move {
            sleep(Duration::from_secs(pause)).await;
            Ok(Bytes::from_static(b"0123456789"))
        });
        Body::Stream(stream.boxed())
    }

    fn transient<T>(result: Result<T, BucketError>) -> Result<(), String> {
        let Err(error) = result else { return Ok(()) };
        assert_eq!(error.kind, ErrorKind::Transient);
        Err(error.to_string())
    }

    #[tokio::test]
    async fn conforms() {
        crate::conformance::run(Arc::new(Deadlined::new(Arc::new(Memory::default()), DEADLINES))).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_not_answered_ends() {
        let (_, store) = deadlined(PlannedOutcome::Hang);
        let began = Instant::now();
        let ended = [
            ("put", transient(store.put("k", vec![1].into(), PutOptions::default()).await)),
            ("get", transient(store.get("k", None).await)),
            ("head", transient(store.head("k").await)),
            ("head", transient(store.exists("k").await)),
            ("list", transient(store.list(ListOptions { prefix: "k".into(), ..ListOptions::default() }).await)),
            ("delete", transient(store.delete(&["k".to_owned()]).await)),
            ("sweep", transient(store.abort_stale_uploads("k", Duration::ZERO).await)),
            ("presign", transient(store.presign("k", Duration::ZERO).await)),
        ];
        for (operation, end) in ended {
            assert_eq!(end, Err(format!("cannot {operation} \"k\" in troubled: no answer within 30s")));
        }
        assert_eq!(began.elapsed(), 8 * DEADLINES.answer);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_in_which_nothing_more_comes_ends() {
        let (inner, store) = deadlined(PlannedOutcome::Stall(25_000));
        inner.fill("k", &[7; 40_000]).await;
        let mut stream = store.get("k", None).await.unwrap();
        let mut got = 0;
        let end = loop {
            // The reader may take its time.
            sleep(Duration::from_secs(100)).await;
            match stream.next().await {
                Some(Ok(piece)) => got += piece.len(),
                end => break end,
            }
        };
        assert_eq!(got, 25_000);
        let expected = "cannot get \"k\" in troubled: nothing more came for 10s";
        assert_eq!(transient(end.unwrap()), Err(expected.to_owned()));
        assert!(stream.next().await.is_none());
    }

    /// Each piece comes in time; all of them take longer than any answer may.
    #[tokio::test(start_paused = true)]
    async fn what_is_read_only_from_the_beginning_has_no_deadline_as_a_whole() {
        let inner = Troubled::sequential(|_, _| PlannedOutcome::Slow(Duration::from_secs(7)));
        inner.fill("k", &[7; 100_000]).await;
        let store = Deadlined::new(inner.clone(), DEADLINES);
        let began = Instant::now();
        assert_eq!(store.head("k").await.unwrap().size, 100_000);
        let last = collect(store.get("k", Some(99_999..100_000)).await.unwrap(), 10).await.unwrap();
        assert_eq!(last, [7][..]);
        assert_eq!(began.elapsed(), 20 * Duration::from_secs(7));
        assert_eq!(store.get("k", Some(100_000..100_001)).await.err().map(|e| e.kind), Some(ErrorKind::Invalid));
        assert_eq!(inner.asked(), ["get k", "get k", "get k"]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_makes_the_pieces_may_take_as_long_as_he_likes() {
        let (_, store) = deadlined(PlannedOutcome::Go);
        assert_eq!(store.put("k", pieces(5, 3600), PutOptions::default()).await.unwrap(), 50);
        let bytes = collect(store.get("k", None).await.unwrap(), 100).await.unwrap();
        assert_eq!(bytes, b"0123456789".repeat(5));
    }

    /// Covers pieces that are at hand and pieces that come slowly.
    #[tokio::test(start_paused = true)]
    async fn a_put_that_takes_no_more_pieces_ends() {
        for (taken, pause) in [(0, 0), (0, 5), (2, 0), (2, 5), (2, 60)] {
            let (inner, store) = deadlined(PlannedOutcome::Takes(taken));
            let began = Instant::now();
            let put = transient(store.put("k", pieces(4, pause), PutOptions::default()).await);
            assert_eq!(put, Err("cannot put \"k\" in troubled: it took nothing more for 10s".to_owned()));
            let made = Duration::from_secs(pause) * (u32::try_from(taken).unwrap() + 1);
            assert_eq!(began.elapsed(), made + DEADLINES.silence, "{taken} {pause}");
            assert!(inner.inner.head("k").await.unwrap_err().is_not_found());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_put_that_took_all_and_does_not_answer_ends() {
        let (_, store) = deadlined(PlannedOutcome::Takes(usize::MAX));
        let put = transient(store.put("k", pieces(4, 60), PutOptions::default()).await);
        assert_eq!(put, Err("cannot put \"k\" in troubled: no answer within 30s".to_owned()));
    }

    /// A body that is read on after the put was given up.
    #[tokio::test]
    async fn a_body_that_is_given_up_has_no_end() {
        let (sender, receiver) = mpsc::channel(1);
        let hangs = deadlined(PlannedOutcome::Go).1.hangs("put", "k", "the upload was given up".to_owned());
        let mut body = watched(receiver, hangs);
        sender.send(Some(Ok(Bytes::from_static(b"half")))).await.unwrap();
        drop(sender);
        assert_eq!(body.next().await.unwrap().unwrap(), b"half"[..]);
        assert_eq!(body.next().await.unwrap().unwrap_err().message, "the upload was given up");
        assert!(body.next().await.is_none());
    }
}
