//! A store that fails, hangs and breaks as a plan says.

use crate::{
    BlobStore, Body, BucketError, ByteStream, ErrorKind, ListOptions, Memory, ObjectInfo, Page, PutOptions, collect,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use std::fmt;
use std::ops::Range;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

/// The planned outcome of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PlannedOutcome {
    Go,
    Fail(ErrorKind),
    /// It never answers.
    Hang,
    /// Of a `put`: it takes so many pieces, and the end if it comes before, and never answers.
    Takes(usize),
    /// Of a `get`: the stream breaks after so many bytes.
    Cut(usize),
    /// Of a `get`: the stream ends after so many bytes as if that were all.
    End(usize),
    /// Of a `get`: nothing more comes after so many bytes.
    Stall(usize),
    /// Of a `get`: each piece takes so long.
    Slow(Duration),
    /// Another writer stores an object of this size under the key, and then the call is done.
    Replaced(usize),
}

type FaultPlan = Box<dyn Fn(usize, &str) -> PlannedOutcome + Send + Sync>;

/// A store in memory with a plan: what becomes of each call, by its number and its text, such as `get k 0..3`.
pub(crate) struct Troubled {
    pub(crate) inner: Memory,
    plan: FaultPlan,
    asked: Mutex<Vec<String>>,
    /// Counts the replacements: each has another time.
    replaced: Mutex<u64>,
    /// True when objects are read only from their beginning.
    is_sequential: bool,
}

/// Bytes of a piece, but of the last one.
const PIECE: usize = 10_000;

impl Troubled {
    pub(crate) fn new(plan: impl Fn(usize, &str) -> PlannedOutcome + Send + Sync + 'static) -> std::sync::Arc<Self> {
        std::sync::Arc::new(Self::of(plan, false))
    }

    /// Makes a store that reads objects only from their beginning.
    pub(crate) fn sequential(
        plan: impl Fn(usize, &str) -> PlannedOutcome + Send + Sync + 'static,
    ) -> std::sync::Arc<Self> {
        std::sync::Arc::new(Self::of(plan, true))
    }

    fn of(plan: impl Fn(usize, &str) -> PlannedOutcome + Send + Sync + 'static, is_sequential: bool) -> Self {
        let (inner, plan) = (Memory::default(), Box::new(plan));
        Self { inner, plan, asked: Mutex::default(), replaced: Mutex::default(), is_sequential }
    }

    /// Stores an object unasked.
    pub(crate) async fn fill(&self, key: &str, bytes: &[u8]) {
        self.inner.put(key, bytes.to_vec().into(), PutOptions::default()).await.unwrap();
    }

    /// All calls that were made.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    async fn ask(&self, operation: &'static str, key: &str, more: &str) -> Result<PlannedOutcome, BucketError> {
        let text = format!("{operation} {key}{more}");
        let number = {
            let mut asked = self.asked.lock().unwrap();
            asked.push(text.clone());
            asked.len() - 1
        };
        let fate = (self.plan)(number, &text);
        match fate {
            PlannedOutcome::Fail(kind) => return Err(error(kind, operation, key, "it fails")),
            PlannedOutcome::Hang => std::future::pending().await,
            PlannedOutcome::Replaced(size) => {
                self.fill(key, &vec![2; size]).await;
                *self.replaced.lock().unwrap() += 1;
            }
            _ => {}
        }
        Ok(fate)
    }
}

fn error(kind: ErrorKind, operation: &'static str, key: &str, message: &str) -> BucketError {
    BucketError::new(kind, operation, key, "troubled".to_owned(), message.to_owned())
}

impl fmt::Debug for Troubled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Troubled")
    }
}

#[async_trait]
impl BlobStore for Troubled {
    fn describe(&self) -> String {
        "troubled".to_owned()
    }

    fn reads_ranges(&self) -> bool {
        !self.is_sequential
    }

    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        if let PlannedOutcome::Takes(most) = self.ask("put", key, "").await? {
            let mut body = body.into_stream();
            for _ in 0..most {
                if body.next().await.is_none() {
                    break;
                }
            }
            return std::future::pending().await;
        }
        self.inner.put(key, body, options).await
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        let more = range.as_ref().map(|range| format!(" {range:?}")).unwrap_or_default();
        let fate = self.ask("get", key, &more).await?;
        let bytes = collect(self.inner.get(key, range).await?, usize::MAX).await?;
        let most = match fate {
            PlannedOutcome::Cut(most) | PlannedOutcome::End(most) | PlannedOutcome::Stall(most) => {
                most.min(bytes.len())
            }
            _ => bytes.len(),
        };
        let pieces: Vec<_> = bytes[..most].chunks(PIECE).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let pieces = futures::stream::iter(pieces);
        let broken = error(ErrorKind::Transient, "get", key, "the stream broke");
        Ok(match fate {
            PlannedOutcome::Cut(_) => pieces.chain(futures::stream::once(async { Err(broken) })).boxed(),
            PlannedOutcome::Stall(_) => pieces.chain(futures::stream::pending()).boxed(),
            PlannedOutcome::Slow(pause) => pieces
                .then(move |piece| async move {
                    tokio::time::sleep(pause).await;
                    piece
                })
                .boxed(),
            _ => pieces.boxed(),
        })
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        self.ask("head", key, "").await?;
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(*self.replaced.lock().unwrap());
        Ok(ObjectInfo { modified: Some(modified), ..self.inner.head(key).await? })
    }

    async fn exists(&self, key: &str) -> Result<bool, BucketError> {
        self.ask("exists", key, "").await?;
        self.inner.exists(key).await
    }

    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        self.ask("list", &options.prefix, "").await?;
        self.inner.list(options).await
    }

    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        self.ask("delete", &keys.join(" "), "").await?;
        self.inner.delete(keys).await
    }

    async fn abort_stale_uploads(&self, prefix: &str, age: Duration) -> Result<u64, BucketError> {
        self.ask("sweep", prefix, "").await?;
        self.inner.abort_stale_uploads(prefix, age).await
    }

    async fn presign(&self, key: &str, valid: Duration) -> Result<Option<String>, BucketError> {
        self.ask("presign", key, "").await?;
        self.inner.presign(key, valid).await
    }
}
