//! Storing objects of any size.

use crate::S3Config;
use crate::connect::Times;
use crate::error::Failures;
use crate::retention::Locks;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{Builder, RequestChecksumCalculation};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream as SdkStream;
use aws_sdk_s3::types::{ChecksumAlgorithm, CompletedMultipartUpload, CompletedPart, ServerSideEncryption};
use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use hex::FromHex;
use lifeboat_bucket::{Body, BucketError, ByteStream, ErrorKind, PutOptions, Retention, retry};
use md5::{Digest, Md5};
use std::error::Error as StdError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

/// Size of the first parts, and beyond which an object is stored in parts.
const PART: usize = 8 << 20;
/// Most parts that the protocol has.
const MOST_PARTS: usize = 10_000;
/// Parts on the way at once, as long as their bytes are within [`ON_THE_WAY`].
const PARALLEL: usize = 4;
const ON_THE_WAY: usize = PARALLEL * PART;
/// Putting the parts of a large object together takes a server minutes.
const COMPLETE_TIME: Duration = Duration::from_secs(600);
/// Time limit of an abort that no caller waits for, attempts included.
const ABORT_TIMEOUT: Duration = Duration::from_secs(30);

/// Stores objects.
#[derive(Debug)]
pub(crate) struct Writer {
    client: Client,
    failures: Failures,
    times: Times,
    checksum: Option<ChecksumAlgorithm>,
    encryption: Encryption,
    tagging: Option<String>,
    locks: Locks,
    aborts: Arc<Aborts>,
}

/// The encryption by the server.
#[derive(Debug)]
struct Encryption {
    algorithm: Option<ServerSideEncryption>,
    kms_key: Option<String>,
}

impl Writer {
    pub(crate) fn new(
        client: Client,
        failures: Failures,
        times: Times,
        config: &S3Config,
        aborts: Arc<Aborts>,
    ) -> Self {
        let algorithm = match (&config.server_side_encryption, &config.kms_key_id) {
            (None, Some(_)) => Some(ServerSideEncryption::AwsKms),
            (named, _) => named.as_deref().map(ServerSideEncryption::from),
        };
        Self {
            locks: Locks::new(client.clone(), failures.clone()),
            client,
            failures,
            times,
            checksum: config.checksum_algorithm.as_deref().map(ChecksumAlgorithm::from),
            encryption: Encryption { algorithm, kms_key: config.kms_key_id.clone() },
            tagging: config.tagging.clone(),
            aborts,
        }
    }

    pub(crate) async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        // A caller that has all bytes puts them again itself, after asking whether it still may.
        let can_caller_repeat = matches!(body, Body::Bytes(_));
        if options.retention.is_some() {
            let patience = if can_caller_repeat { Duration::ZERO } else { self.times.patience };
            retry(patience, || self.locks.check(key)).await?;
        }
        let mut pieces = Pieces::new(body.into_stream());
        match pieces.next(PART).await? {
            Some(only) if only.len() < PART && can_caller_repeat => self.try_whole(key, only, options).await,
            Some(only) if only.len() < PART => self.put_whole(key, only, options).await,
            None => self.try_whole(key, Bytes::new(), options).await,
            Some(first) => self.put_parts(key, first, pieces, options).await,
        }
    }

    pub(crate) async fn retain(&self, key: &str, retention: Retention) -> Result<(), BucketError> {
        self.locks.extend(key, retention).await
    }

    async fn put_whole(&self, key: &str, bytes: Bytes, options: PutOptions) -> Result<u64, BucketError> {
        retry(self.patience(options), || self.try_whole(key, bytes.clone(), options)).await
    }

    async fn try_whole(&self, key: &str, bytes: Bytes, options: PutOptions) -> Result<u64, BucketError> {
        let size = bytes.len();
        let lock = self.locks.of(key, options.retention)?;
        self.client
            .put_object()
            .bucket(&self.failures.bucket)
            .key(key)
            .set_content_type(options.content_type.map(str::to_owned))
            .set_checksum_algorithm(self.checksum(options))
            .set_server_side_encryption(self.encryption.algorithm.clone())
            .set_ssekms_key_id(self.encryption.kms_key.clone())
            .set_tagging(self.tagging.clone())
            .set_object_lock_mode(lock.mode)
            .set_object_lock_retain_until_date(lock.until)
            .set_if_none_match(options.if_absent.then(|| "*".to_owned()))
            .body(SdkStream::from(bytes))
            .customize()
            .config_override(overrides(self.times.of(size), options))
            .send()
            .await
            .map_err(|e| self.failures.of("put", key, e))?;
        Ok(size as u64)
    }

    async fn put_parts(
        &self,
        key: &str,
        first: Bytes,
        pieces: Pieces,
        options: PutOptions,
    ) -> Result<u64, BucketError> {
        let id = retry(self.times.patience, || self.begin(key, options)).await?;
        let id = id.as_str();
        let upload = Upload { key, id, options };
        let mut guard = AbortOnDrop { writer: self, key, id, armed: true };
        let done = async {
            let (parts, size) = self.send_parts(upload, first, pieces).await?;
            let tag = tag_of(&parts);
            let completed = || async {
                match self.complete(upload, parts.clone()).await {
                    // The answer may be lost, and a second attempt meets an upload that is no more.
                    Err(e) | Ok(UploadResponse::Gone(e))
                        if e.kind == ErrorKind::Transient && self.is_stored(key, tag.as_deref(), size).await =>
                    {
                        Ok(UploadResponse::Done(()))
                    }
                    completed => completed,
                }
            };
            retry(self.patience(options), completed).await?.done()?;
            Ok(size)
        };
        let done = done.await;
        if done.is_err() {
            // The error of the put is the one to tell; what cannot be aborted now the sweep finds.
            let _ = tokio::time::timeout(ABORT_TIMEOUT, self.abort(key, id)).await;
        }
        guard.armed = false;
        done
    }

    async fn begin(&self, key: &str, options: PutOptions) -> Result<String, BucketError> {
        let lock = self.locks.of(key, options.retention)?;
        let begun = self
            .client
            .create_multipart_upload()
            .bucket(&self.failures.bucket)
            .key(key)
            .set_content_type(options.content_type.map(str::to_owned))
            .set_checksum_algorithm(self.checksum(options))
            .set_server_side_encryption(self.encryption.algorithm.clone())
            .set_ssekms_key_id(self.encryption.kms_key.clone())
            .set_tagging(self.tagging.clone())
            .set_object_lock_mode(lock.mode)
            .set_object_lock_retain_until_date(lock.until)
            .send()
            .await
            .map_err(|e| self.failures.of("put", key, e))?;
        let unnamed = || self.failures.own(ErrorKind::Other, "put", key, "the server began an upload without a name");
        begun.upload_id.ok_or_else(unnamed)
    }

    /// The checksum that is sent. The protocol demands one of what is to be kept.
    fn checksum(&self, options: PutOptions) -> Option<ChecksumAlgorithm> {
        self.checksum.clone().or(options.retention.map(|_| ChecksumAlgorithm::Crc32))
    }

    /// Time during which a request of a put is sent again. That of a conditional put never is: it would meet the object
    /// that the first attempt wrote, and take it for another writer's.
    fn patience(&self, options: PutOptions) -> Duration {
        if options.if_absent { Duration::ZERO } else { self.times.patience }
    }

    /// Sorts the answer to a request of an upload.
    fn within_upload<T, E>(&self, key: &str, answer: Result<T, SdkError<E>>) -> Result<UploadResponse<T>, BucketError>
    where
        E: StdError + ProvideErrorMetadata + Send + Sync + 'static,
    {
        let code = answer.as_ref().err().and_then(|e| e.as_service_error()).and_then(|e| e.meta().code());
        let is_gone = code == Some("NoSuchUpload");
        let answer = answer.map_err(|e| self.failures.of("put", key, e));
        match answer {
            Err(gone) if is_gone => Ok(UploadResponse::Gone(gone)),
            answer => answer.map(UploadResponse::Done),
        }
    }

    async fn send_parts(
        &self,
        upload: Upload<'_>,
        first: Bytes,
        pieces: Pieces,
    ) -> Result<(Vec<CompletedPart>, u64), BucketError> {
        let mut on_the_way = FuturesUnordered::new();
        let sent = self.send_all(upload, first, pieces, &mut on_the_way).await;
        if sent.is_err() {
            // A part that arrives after the abort of its upload would stay in the bucket, where no listing shows it.
            let all = async { while on_the_way.next().await.is_some() {} };
            let _ = tokio::time::timeout(ABORT_TIMEOUT, all).await;
        }
        sent
    }

    async fn send_all<'a>(
        &'a self,
        upload: Upload<'a>,
        first: Bytes,
        mut pieces: Pieces,
        on_the_way: &mut FuturesUnordered<BoxFuture<'a, Result<(CompletedPart, usize), BucketError>>>,
    ) -> Result<(Vec<CompletedPart>, u64), BucketError> {
        let mut parts = Vec::new();
        let (mut number, mut total, mut bytes_on_the_way) = (0, 0, 0);
        let mut next = Some(first);
        while let Some(part) = next {
            while !on_the_way.is_empty() && (on_the_way.len() >= PARALLEL || bytes_on_the_way + part.len() > ON_THE_WAY)
            {
                if let Some((sent, size)) = on_the_way.try_next().await? {
                    parts.push(sent);
                    bytes_on_the_way -= size;
                }
            }
            number += 1;
            if number > MOST_PARTS {
                let message = format!("the object is larger than {MOST_PARTS} parts can hold");
                return Err(self.failures.own(ErrorKind::Invalid, "put", upload.key, message));
            }
            total += part.len() as u64;
            bytes_on_the_way += part.len();
            let sent = async move {
                let answer = retry(self.times.patience, || self.send_part(upload, number, part.clone()));
                answer.await?.done()
            };
            on_the_way.push(sent.boxed());
            // Parts go on while the next one gathers.
            let gather = pieces.next(part_size(total));
            tokio::pin!(gather);
            next = loop {
                tokio::select! {
                    Some(sent) = on_the_way.next() => {
                        let (sent, size) = sent?;
                        parts.push(sent);
                        bytes_on_the_way -= size;
                    }
                    gathered = &mut gather => break gathered?,
                }
            };
        }
        while let Some((sent, _)) = on_the_way.try_next().await? {
            parts.push(sent);
        }
        parts.sort_by_key(CompletedPart::part_number);
        Ok((parts, total))
    }

    async fn send_part(
        &self,
        upload: Upload<'_>,
        number: usize,
        bytes: Bytes,
    ) -> Result<UploadResponse<(CompletedPart, usize)>, BucketError> {
        let Upload { key, id, options } = upload;
        let size = bytes.len();
        let number = i32::try_from(number).unwrap_or(i32::MAX);
        let answer = self
            .client
            .upload_part()
            .bucket(&self.failures.bucket)
            .key(key)
            .upload_id(id)
            .part_number(number)
            .set_checksum_algorithm(self.checksum(options))
            .body(SdkStream::from(bytes))
            .customize()
            .config_override(overrides(self.times.of(size), PutOptions { if_absent: false, ..options }))
            .send()
            .await;
        let answer = match self.within_upload(key, answer)? {
            UploadResponse::Done(answer) => answer,
            UploadResponse::Gone(gone) => return Ok(UploadResponse::Gone(gone)),
        };
        let part = CompletedPart::builder()
            .part_number(number)
            .set_e_tag(answer.e_tag)
            .set_checksum_crc32(answer.checksum_crc32)
            .set_checksum_crc32_c(answer.checksum_crc32_c)
            .set_checksum_crc64_nvme(answer.checksum_crc64_nvme)
            .set_checksum_sha1(answer.checksum_sha1)
            .set_checksum_sha256(answer.checksum_sha256)
            .build();
        Ok(UploadResponse::Done((part, size)))
    }

    async fn complete(&self, upload: Upload<'_>, parts: Vec<CompletedPart>) -> Result<UploadResponse<()>, BucketError> {
        let Upload { key, id, options } = upload;
        let answer = self
            .client
            .complete_multipart_upload()
            .bucket(&self.failures.bucket)
            .key(key)
            .upload_id(id)
            .multipart_upload(CompletedMultipartUpload::builder().set_parts(Some(parts)).build())
            .set_if_none_match(options.if_absent.then(|| "*".to_owned()))
            .customize()
            .config_override(overrides(self.times.slow(COMPLETE_TIME), options))
            .send()
            .await;
        self.within_upload(key, answer.map(drop))
    }

    /// Returns true if the stored object has this tag and size.
    async fn is_stored(&self, key: &str, tag: Option<&str>, size: u64) -> bool {
        let Some(tag) = tag else { return false };
        let answer = self.client.head_object().bucket(&self.failures.bucket).key(key).send().await;
        answer.is_ok_and(|found| {
            let found_size = found.content_length().and_then(|length| u64::try_from(length).ok());
            found_size == Some(size) && found.e_tag().is_some_and(|found| found.trim_matches('"') == tag)
        })
    }

    /// Aborts an upload; false when there is none of this name.
    pub(crate) async fn abort(&self, key: &str, id: &str) -> Result<bool, BucketError> {
        let request = self.client.abort_multipart_upload().bucket(&self.failures.bucket).key(key).upload_id(id);
        match request.send().await {
            Ok(_) => Ok(true),
            Err(error) if error.as_service_error().and_then(|e| e.meta().code()) == Some("NoSuchUpload") => Ok(false),
            Err(error) => Err(self.failures.of("sweep", key, error)),
        }
    }
}

/// An object that is stored in parts, while it is.
#[derive(Clone, Copy)]
struct Upload<'a> {
    key: &'a str,
    id: &'a str,
    options: PutOptions,
}

/// The answer to a request of an upload.
enum UploadResponse<T> {
    Done(T),
    /// The upload does not exist any more: to send the request again cannot help.
    Gone(BucketError),
}

impl<T> UploadResponse<T> {
    fn done(self) -> Result<T, BucketError> {
        match self {
            Self::Done(answer) => Ok(answer),
            Self::Gone(error) => Err(error),
        }
    }
}

fn overrides(times: TimeoutConfig, options: PutOptions) -> Builder {
    let mut builder = Builder::new().timeout_config(times);
    if options.retention.is_some() {
        builder = builder.request_checksum_calculation(RequestChecksumCalculation::WhenSupported);
    }
    if options.if_absent {
        // A second attempt would meet the object that the first one wrote, and take it for another writer's.
        return builder.retry_config(RetryConfig::disabled());
    }
    builder
}

/// The tag of the object that these parts make: the MD5 of their MD5s, and how many there are. `None` where the server's
/// tags are no MD5s, as with encryption by keys of its own.
fn tag_of(parts: &[CompletedPart]) -> Option<String> {
    let mut hasher = Md5::new();
    for part in parts {
        hasher.update(<[u8; 16]>::from_hex(part.e_tag()?.trim_matches('"')).ok()?);
    }
    Some(format!("{}-{}", hex::encode(hasher.finalize()), parts.len()))
}

/// Size of the part after so many bytes: small for long, as parts are held in memory, yet the largest object of the
/// protocol, 5 TiB, takes no more than 10,000 parts. All parts of objects below 10 GiB are of one size.
fn part_size(sent: u64) -> usize {
    let share = usize::try_from(sent / 1300).unwrap_or(usize::MAX);
    share.clamp(PART, 5 << 30).next_multiple_of(1 << 20)
}

/// A stream cut into parts of equal size.
struct Pieces {
    stream: ByteStream,
    rest: Bytes,
    gathered: BytesMut,
    ended: bool,
}

impl Pieces {
    fn new(stream: ByteStream) -> Self {
        Self { stream, rest: Bytes::new(), gathered: BytesMut::new(), ended: false }
    }

    /// The next part, of this size unless it is the last; none at the end.
    async fn next(&mut self, size: usize) -> Result<Option<Bytes>, BucketError> {
        loop {
            if self.gathered.is_empty() && self.rest.len() >= size {
                return Ok(Some(self.rest.split_to(size)));
            }
            let take = self.rest.len().min(size - self.gathered.len());
            self.gathered.extend_from_slice(&self.rest.split_to(take));
            if self.gathered.len() == size || (self.ended && !self.gathered.is_empty()) {
                return Ok(Some(self.gathered.split().freeze()));
            }
            if self.ended {
                return Ok(None);
            }
            match self.stream.try_next().await? {
                Some(piece) => self.rest = piece,
                None => self.ended = true,
            }
        }
    }
}

/// Hands the abort of an upload to the store when the put is dropped on the way.
struct AbortOnDrop<'a> {
    writer: &'a Writer,
    key: &'a str,
    id: &'a str,
    armed: bool,
}

impl Drop for AbortOnDrop<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let Writer { client, failures, aborts, .. } = self.writer;
        let request = client.abort_multipart_upload().bucket(&failures.bucket).key(self.key).upload_id(self.id);
        aborts.begin(async move {
            // No caller is left to be told; the sweep finds uploads that stay open.
            let _ = tokio::time::timeout(ABORT_TIMEOUT, request.send()).await;
        });
    }
}

/// The aborts of uploads whose puts were dropped. Each ends within [`ABORT_TIMEOUT`].
#[derive(Debug, Default)]
pub(crate) struct Aborts {
    tasks: Mutex<JoinSet<()>>,
}

impl Aborts {
    fn begin(&self, abort: impl Future<Output = ()> + Send + 'static) {
        // Without a runtime the process is about to end.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(abort, &runtime);
    }

    /// Waits for all aborts that were begun before.
    pub(crate) async fn wait(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        while tasks.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn cut(pieces: &[usize], size: usize) -> Vec<usize> {
        let pieces: Vec<_> = pieces.iter().map(|len| Ok(Bytes::from(vec![0; *len]))).collect();
        let mut pieces = Pieces::new(futures::stream::iter(pieces).boxed());
        let mut out = Vec::new();
        while let Some(part) = pieces.next(size).await.unwrap() {
            out.push(part.len());
        }
        out
    }

    #[test]
    fn the_tag_of_an_object_is_made_of_those_of_its_parts() {
        let part = |tag: &str| CompletedPart::builder().e_tag(tag).build();
        // `printf hello | md5sum` and `printf world | md5sum`; then `xxd -r -p | md5sum` of both.
        let (hello, world) = ("\"5d41402abc4b2a76b9719d911017c592\"", "7d793037a0760186574b0282f2f435e7");
        let expected = "065947336a2f2a95ba8899f3675c3be6-2";
        assert_eq!(tag_of(&[part(hello), part(world)]).as_deref(), Some(expected));
        assert_eq!(tag_of(&[part(hello), part("CRC64NVME-x")]), None);
        assert_eq!(tag_of(&[part(hello), CompletedPart::builder().build()]), None);
    }

    #[tokio::test]
    async fn parts_are_of_equal_size_whatever_the_pieces() {
        let table: [(&[usize], &[usize]); 8] = [
            (&[], &[]),
            (&[0, 0], &[]),
            (&[3], &[3]),
            (&[10], &[10]),
            (&[25], &[10, 10, 5]),
            (&[7, 7, 7], &[10, 10, 1]),
            (&[1, 30, 0, 9], &[10, 10, 10, 10]),
            (&[20, 0], &[10, 10]),
        ];
        for (pieces, expected) in table {
            assert_eq!(cut(pieces, 10).await, expected, "{pieces:?}");
        }
    }

    #[test]
    fn the_largest_object_fits_into_the_parts_there_are() {
        let (mut sent, mut parts) = (0, 0);
        while sent < 5 << 40 {
            sent += part_size(sent) as u64;
            parts += 1;
        }
        assert!((9_000..=MOST_PARTS).contains(&parts), "{parts}");
        assert_eq!([0, 8 << 30, 100 << 30].map(part_size), [PART, PART, 79 << 20]);
    }
}
