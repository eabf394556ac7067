//! A bucket of S3 as a store.

use crate::connect::Connection;
use crate::delete::Deleter;
use crate::error::Failures;
use crate::upload::{Aborts, Writer};
use crate::{S3Config, list};
use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::presigning::PresigningConfig;
use futures::{StreamExt, TryStreamExt};
use lifeboat_bucket::{
    BlobStore, Body, BucketError, ByteStream, ErrorKind, ListOptions, ObjectInfo, Page, PutOptions, Retention,
};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

/// A bucket.
///
/// Small objects are stored with one request, larger ones in parts, up to four of them on the way at once and within
/// 32 MiB as long as parts are small. A put that fails aborts its upload before it returns. One whose future is
/// dropped hands the abort to a task that the store owns; [`BlobStore::abort_stale_uploads`] waits for these tasks
/// before it looks for uploads that processes without a good end left open. Dropping the store ends its tasks.
///
/// A put sends an object, or each part of one, again until patience ends: the caller could not, when the object comes as a
/// stream. It sends a conditional put once, so that the answer "exists" never speaks of what this put itself has written.
///
/// A put with a retention also sends a checksum, which the protocol demands then. Before the first of them the store asks
/// whether the bucket has object lock, so that no server takes the object and leaves it unprotected.
pub struct S3 {
    client: Client,
    public: Client,
    failures: Failures,
    writer: Writer,
    deleter: Deleter,
    aborts: Arc<Aborts>,
    /// Set once the server has sent a whole object when a range was asked for.
    ignores_ranges: AtomicBool,
}

impl S3 {
    /// Makes the client of a bucket. Asks the server for the region when that is not given, and for nothing else: a wrong
    /// bucket or wrong credentials fail the first operation.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for files that cannot be read and CA bundles that are none; [`ErrorKind::NotFound`] and
    /// the errors of the network when the region is asked for.
    pub async fn connect(config: S3Config) -> Result<Self, BucketError> {
        let Connection { client, public, failures, times } = Connection::open(&config).await?;
        let aborts = Arc::new(Aborts::default());
        let writer = Writer::new(client.clone(), failures.clone(), times, &config, Arc::clone(&aborts));
        let (deleter, ignores_ranges) = (Deleter::default(), AtomicBool::default());
        Ok(Self { client, public, failures, writer, deleter, aborts, ignores_ranges })
    }

    /// The region that requests are signed for.
    #[must_use]
    pub fn region(&self) -> &str {
        &self.failures.region
    }

    async fn size(&self, operation: &'static str, key: &str) -> Result<ObjectInfo, BucketError> {
        let answer = self.client.head_object().bucket(&self.failures.bucket).key(key).send().await;
        let answer = answer.map_err(|e| self.failures.of(operation, key, e))?;
        Ok(ObjectInfo {
            key: key.to_owned(),
            size: answer.content_length().and_then(|size| u64::try_from(size).ok()).unwrap_or_default(),
            modified: answer.last_modified().and_then(|at| SystemTime::try_from(*at).ok()),
        })
    }

    /// Remembers that the server ignores ranges, and says it once.
    fn note_ignored_range(&self) {
        let store = &self.failures.store;
        if !self.ignores_ranges.swap(true, Ordering::Relaxed) {
            tracing::warn!(store, "the server ignores ranges, and sends whole objects where a part is asked for");
        }
    }

    fn beyond(&self, key: &str) -> BucketError {
        self.failures.own(ErrorKind::Invalid, "get", key, "the range is beyond the end")
    }
}

/// A part of a whole object, of which no more is read than that needs.
fn part_of(whole: ByteStream, Range { start, end }: Range<u64>) -> ByteStream {
    let parts = futures::stream::try_unfold((whole, 0), move |(mut whole, mut at)| async move {
        while at < end {
            let Some(piece) = whole.try_next().await? else { return Ok(None) };
            let length = piece.len() as u64;
            let cut = |position: u64| usize::try_from(position.saturating_sub(at).min(length)).unwrap_or(piece.len());
            let wanted = piece.slice(cut(start)..cut(end));
            at += length;
            if !wanted.is_empty() {
                return Ok(Some((wanted, (whole, at))));
            }
        }
        Ok(None)
    });
    parts.boxed()
}

impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3").field("store", &self.failures.store).field("region", &self.failures.region).finish()
    }
}

#[async_trait]
impl BlobStore for S3 {
    fn describe(&self) -> String {
        self.failures.store.clone()
    }

    /// A server that ignores ranges is known when it has answered once: what was begun before reads past what is before its part.
    fn reads_ranges(&self) -> bool {
        !self.ignores_ranges.load(Ordering::Relaxed)
    }

    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        self.writer.put(key, body, options).await
    }

    async fn retain(&self, key: &str, retention: Retention) -> Result<(), BucketError> {
        self.writer.retain(key, retention).await
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        if let Some(range) = range.as_ref().filter(|range| range.start >= range.end) {
            // The protocol has no word for nothing.
            let size = self.size("get", key).await?.size;
            if range.start > range.end || range.end > size {
                return Err(self.beyond(key));
            }
            return Ok(futures::stream::empty().boxed());
        }
        let wanted = range.as_ref().map(|range| range.end - range.start);
        let header = range.as_ref().map(|range| format!("bytes={}-{}", range.start, range.end - 1));
        let answer = self.client.get_object().bucket(&self.failures.bucket).key(key).set_range(header).send().await;
        let answer = answer.map_err(|e| self.failures.of("get", key, e))?;
        let length = answer.content_length().and_then(|length| u64::try_from(length).ok());
        let is_whole = answer.content_range().is_none() && length != wanted;
        match (wanted, length) {
            (Some(_), Some(length)) if is_whole && range.as_ref().is_some_and(|range| range.end > length) => {
                return Err(self.beyond(key));
            }
            (Some(_), _) if is_whole => self.note_ignored_range(),
            // Servers cut what is beyond the end.
            (Some(wanted), Some(length)) if length < wanted => return Err(self.beyond(key)),
            (Some(wanted), length) if length != Some(wanted) => {
                return Err(self.failures.own(ErrorKind::Other, "get", key, "the server sends another range"));
            }
            _ => {}
        }
        let part = range.filter(|_| is_whole);
        let state = (answer.body, length, 0, self.failures.clone(), key.to_owned());
        let stream = futures::stream::try_unfold(state, |(mut body, length, got, failures, key)| async move {
            match body.next().await {
                Some(Ok(piece)) => {
                    let got = got + piece.len() as u64;
                    Ok(Some((piece, (body, length, got, failures, key))))
                }
                Some(Err(error)) => {
                    let mut wrapped =
                        failures.own(ErrorKind::Transient, "get", &key, format!("the stream broke after {got} bytes"));
                    wrapped.source = Some(Box::new(error));
                    Err(wrapped)
                }
                None if length.is_some_and(|length| length != got) => {
                    let message = format!("the stream ended after {got} bytes");
                    Err(failures.own(ErrorKind::Transient, "get", &key, message))
                }
                None => Ok(None),
            }
        });
        Ok(match part {
            Some(part) => part_of(stream.boxed(), part),
            None => stream.boxed(),
        })
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        self.size("head", key).await
    }

    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        list::page(&self.client, &self.failures, options).await
    }

    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        self.deleter.delete(&self.client, &self.failures, keys).await
    }

    async fn abort_stale_uploads(&self, prefix: &str, age: Duration) -> Result<u64, BucketError> {
        self.aborts.wait().await;
        let mut aborted = 0;
        for upload in list::open_uploads(&self.client, &self.failures, prefix, age).await? {
            if self.writer.abort(&upload.key, &upload.id).await? {
                aborted += 1;
            }
        }
        Ok(aborted)
    }

    async fn presign(&self, key: &str, valid: Duration) -> Result<Option<String>, BucketError> {
        let invalid =
            |e| self.failures.own(ErrorKind::Invalid, "presign", key, format!("{valid:?} is no time to be valid: {e}"));
        let config = PresigningConfig::expires_in(valid).map_err(invalid)?;
        let request = self.public.get_object().bucket(&self.failures.bucket).key(key).presigned(config).await;
        request.map(|r| Some(r.uri().to_owned())).map_err(|e| self.failures.of("presign", key, e))
    }
}
