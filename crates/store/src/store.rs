//! Backups of a location.

use crate::{ConditionalPuts, Content, StoreError};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use lifeboat_api::{Backup, source_cluster};
use lifeboat_archive::gzip;
use lifeboat_archive::layout::{BACKUPS, BackupFile, RestoreFile, replaced_key};
use lifeboat_archive::sidecar::{self, BackupClaim, FileDigest};
use lifeboat_bucket::{
    BlobStore, Body, Entry, ErrorKind, ListOptions, Memory, PATIENCE, PutOptions, Retried, collect, retry,
};
use lifeboat_object::ObjectKey;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Largest JSON file that is read, decompressed (Velero's readers have the same bound).
pub(crate) const LARGEST_JSON: u64 = 1 << 30;

/// Reads of small files in flight.
pub(crate) const AT_ONCE: usize = 16;

/// A storage location: a bucket, already below its prefix.
#[derive(Clone, Debug)]
pub struct Store {
    /// The bucket, with retries of errors that can pass.
    pub(crate) bucket: Retried,
    /// The time for one request with all its attempts.
    patience: Duration,
    /// The bucket's treatment of conditional puts.
    pub(crate) conditional_puts: ConditionalPuts,
}

/// A backup in a listing.
#[derive(Clone, Debug, PartialEq)]
pub struct BackupSummary {
    /// Its name.
    pub name: String,
    /// Its record, or why that cannot be read.
    pub backup: Result<Box<Backup>, String>,
}

/// The part of a record that names its backup.
#[derive(Deserialize)]
struct NamedRecord {
    #[serde(default)]
    metadata: NamedMetadata,
}

#[derive(Default, Deserialize)]
struct NamedMetadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    uid: String,
}

impl Store {
    /// The store in this bucket.
    #[must_use]
    pub fn new(bucket: Arc<dyn BlobStore>) -> Self {
        let conditional_puts = ConditionalPuts::default();
        Self { bucket: Retried::new(bucket, PATIENCE), patience: PATIENCE, conditional_puts }
    }

    /// The same store, for one request of which so much time is taken, all attempts together; three minutes when not said.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { bucket: self.bucket.with_patience(patience), patience, ..self }
    }

    /// An empty store in memory, for tests.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::new(Arc::new(Memory::default()))
    }

    /// The place of the store, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        self.bucket.describe()
    }

    /// The names of all folders below `backups/` that hold a backup's record, in order.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn backup_names(&self) -> Result<Vec<String>, StoreError> {
        let check = |name: String| async move {
            let exists = self.exists(&BackupFile::Metadata.key(&name)).await?;
            Ok::<_, StoreError>(exists.then_some(name))
        };
        let names = futures::stream::iter(self.folders().await?).map(check).buffered(AT_ONCE);
        names.try_filter_map(|name| async { Ok(name) }).try_collect().await
    }

    /// All backups with their records, in order of their names; a record that cannot be read has the reason in its
    /// place.
    ///
    /// # Errors
    /// [`StoreError::Bucket`] when the location cannot be listed.
    pub async fn backups(&self) -> Result<Vec<BackupSummary>, StoreError> {
        let read = |name: String| async move {
            let backup = match self.backup(&name).await {
                Err(StoreError::NoBackup { .. }) => return None,
                read => read.map(Box::new).map_err(|e| e.to_string()),
            };
            Some(BackupSummary { name, backup })
        };
        let summaries = futures::stream::iter(self.folders().await?).map(read).buffered(AT_ONCE);
        Ok(summaries.filter_map(|summary| async { summary }).collect().await)
    }

    /// The names of all folders below `backups/`, in order, whether they hold a backup or not.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn folders(&self) -> Result<Vec<String>, StoreError> {
        self.folders_below(BACKUPS).await
    }

    /// The names of all folders below this one, in order.
    pub(crate) async fn folders_below(&self, above: &str) -> Result<Vec<String>, StoreError> {
        let mut names = Vec::new();
        let mut options = ListOptions {
            prefix: above.to_owned(),
            delimiter: Some("/".to_owned()),
            prefixes_only: true,
            ..ListOptions::default()
        };
        loop {
            let page = self.bucket.list(options.clone()).await?;
            names.extend(page.entries.into_iter().filter_map(|entry| match entry {
                Entry::Prefix(prefix) => prefix.strip_prefix(above).map(|name| name.trim_end_matches('/').to_owned()),
                Entry::Object(_) => None,
            }));
            match page.continuation {
                None => return Ok(names),
                next => options.continuation = next,
            }
        }
    }

    /// The record of a backup.
    ///
    /// # Errors
    /// [`StoreError::NoBackup`], [`StoreError::OtherRecord`], [`StoreError::Sidecar`], [`StoreError::Bucket`].
    pub async fn backup(&self, name: &str) -> Result<Backup, StoreError> {
        self.record_as(name).await
    }

    /// The record of a backup. The name in it must be that of its folder, so that nobody who goes by that name gets
    /// another backup.
    pub(crate) async fn record_as<T: DeserializeOwned>(&self, name: &str) -> Result<T, StoreError> {
        let key = BackupFile::Metadata.key(name);
        let bytes = self.read(&key).await?.ok_or_else(|| StoreError::NoBackup {
            name: name.to_owned(),
            place: self.describe(),
            key: key.clone(),
        })?;
        let damaged = |e: serde_json::Error| StoreError::Sidecar { key: key.clone(), source: e.into() };
        let record = serde_json::from_slice(&bytes).map_err(damaged)?;
        let NamedRecord { metadata: found } = serde_json::from_slice(&bytes).map_err(damaged)?;
        if found.name != name {
            return Err(StoreError::OtherRecord { key, name: found.name, uid: found.uid });
        }
        Ok(record)
    }

    /// The claim of the name of a backup; `None` when there is none.
    ///
    /// # Errors
    /// [`StoreError::Sidecar`], [`StoreError::Bucket`].
    pub async fn claim_of(&self, name: &str) -> Result<Option<BackupClaim>, StoreError> {
        let key = BackupFile::Claim.key(name);
        let Some(bytes) = self.read(&key).await? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| StoreError::Sidecar { key, source: e.into() })
    }

    /// The UID of the cluster that has made a backup, from its claim, or from its record where the claim is damaged; `None` where there is
    /// no claim, as for backups of Velero, or nothing readable says it.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn cluster_of(&self, name: &str) -> Result<Option<String>, StoreError> {
        match self.claim_of(name).await {
            Err(e) if e.is_damage() => {
                tracing::warn!(
                    backup = name,
                    error = %e,
                    "the claim of a backup is damaged: which cluster has made it is taken from its record"
                );
                match self.backup(name).await {
                    Ok(record) => Ok(source_cluster(&record).map(str::to_owned)),
                    Err(StoreError::NoBackup { .. }) => Ok(None),
                    Err(e) if e.is_damage() => Ok(None),
                    Err(e) => Err(e),
                }
            }
            claim => Ok(claim?.map(|claim| claim.cluster_uid).filter(|uid| !uid.is_empty())),
        }
    }

    /// A gzip-compressed JSON file of a backup; `None` when it is absent, which means empty.
    ///
    /// # Errors
    /// [`StoreError::Sidecar`], [`StoreError::Bucket`].
    pub async fn backup_file<T: DeserializeOwned>(
        &self,
        name: &str,
        file: BackupFile,
    ) -> Result<Option<T>, StoreError> {
        self.json(file.key(name)).await
    }

    /// The bytes of a file beside the archive of a backup, as they are stored; `None` when it is absent. At most 1 GiB.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn backup_file_bytes(&self, name: &str, file: BackupFile) -> Result<Option<Bytes>, StoreError> {
        self.read(&file.key(name)).await
    }

    /// [`Store::backup_file_bytes`] of a restore.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn restore_file_bytes(&self, name: &str, file: RestoreFile) -> Result<Option<Bytes>, StoreError> {
        self.read(&file.key(name)).await
    }

    /// A gzip-compressed JSON file of a restore; `None` when it is absent, which means empty.
    ///
    /// # Errors
    /// [`StoreError::Sidecar`], [`StoreError::Bucket`].
    pub async fn restore_file<T: DeserializeOwned>(
        &self,
        name: &str,
        file: RestoreFile,
    ) -> Result<Option<T>, StoreError> {
        self.json(file.key(name)).await
    }

    async fn json<T: DeserializeOwned>(&self, key: String) -> Result<Option<T>, StoreError> {
        let Some(bytes) = self.read(&key).await? else { return Ok(None) };
        let decoded = sidecar::decode(&bytes, LARGEST_JSON);
        decoded.map(Some).map_err(|source| StoreError::Sidecar { key, source })
    }

    /// Stores a file of a restore.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn put_restore_file(
        &self,
        name: &str,
        file: RestoreFile,
        content: impl Into<Content>,
    ) -> Result<(), StoreError> {
        let options = PutOptions { content_type: Some("application/gzip"), ..PutOptions::default() };
        self.put_content(&file.key(name), &content.into(), options).await.map(drop)
    }

    /// Stores the JSON of an object that a restore deletes to make it anew. Gives its key in the bucket.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn put_replaced(
        &self,
        restore: &str,
        object: &ObjectKey,
        uid: &str,
        json: &[u8],
    ) -> Result<String, StoreError> {
        let key = replaced_key(restore, object, uid);
        let options = PutOptions { content_type: Some("application/gzip"), ..PutOptions::default() };
        self.put_content(&key, &gzip::pack(json).into(), options).await?;
        Ok(key)
    }

    /// Stores an object; gives its size and hash.
    pub(crate) async fn put_content(
        &self,
        key: &str,
        content: &Content,
        options: PutOptions,
    ) -> Result<FileDigest, StoreError> {
        if let Some(bytes) = content.whole(key).await? {
            let digest = FileDigest { size: bytes.len() as u64, sha256: hex::encode(Sha256::digest(&bytes)) };
            self.put(key, bytes, options).await?;
            return Ok(digest);
        }
        // A bucket takes a stream once. This one is made anew for each attempt, and so is its digest.
        let stored = retry(self.patience, || async {
            let hasher = Arc::new(Mutex::new(Sha256::new()));
            let hashing = Arc::clone(&hasher);
            let pieces = content.pieces(key).inspect_ok(move |piece| {
                hashing.lock().unwrap_or_else(PoisonError::into_inner).update(piece);
            });
            let size = self.bucket.put(key, Body::Stream(pieces.boxed()), options).await?;
            let hasher = hasher.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Ok(FileDigest { size, sha256: hex::encode(hasher.finalize()) })
        });
        Ok(stored.await?)
    }

    pub(crate) async fn put(&self, key: &str, bytes: Bytes, options: PutOptions) -> Result<(), StoreError> {
        // The bucket never repeats a conditional put. Only claims are put so; a writer that meets its own takes it up.
        let patience = if options.if_absent { self.patience } else { Duration::ZERO };
        retry(patience, || self.bucket.put(key, Body::Bytes(bytes.clone()), options)).await?;
        Ok(())
    }

    /// A whole object in memory; `None` when it does not exist.
    pub(crate) async fn read(&self, key: &str) -> Result<Option<Bytes>, StoreError> {
        let limit = usize::try_from(LARGEST_JSON).unwrap_or(usize::MAX);
        let read = async { collect(self.bucket.get(key, None).await?, limit).await }.await;
        match read {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    pub(crate) async fn exists(&self, key: &str) -> Result<bool, StoreError> {
        Ok(self.bucket.exists(key).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClaimOutcome, ClaimRequest};
    use async_trait::async_trait;
    use jiff::Timestamp;
    use lifeboat_bucket::{BucketError, ByteStream, ObjectInfo, Page};
    use std::ops::Range;
    use std::sync::atomic::{AtomicU64, Ordering};
    use tokio::time::Instant;

    /// A bucket that is away for a while, or for good.
    #[derive(Debug)]
    struct Away {
        inner: Memory,
        kind: ErrorKind,
        until: Instant,
        /// True when it answers all but puts.
        is_read: bool,
        /// Bytes after which each answer ends.
        cut: usize,
        asked: AtomicU64,
    }

    impl Away {
        async fn store(kind: ErrorKind, seconds: u64) -> (Arc<Self>, Store) {
            let away = Arc::new(Self::until(kind, seconds).await);
            (Arc::clone(&away), Store::new(away))
        }

        async fn until(kind: ErrorKind, seconds: u64) -> Self {
            let inner = Memory::default();
            inner.put("k", b"0123456789".to_vec().into(), PutOptions::default()).await.unwrap();
            let until = Instant::now() + Duration::from_secs(seconds);
            Self { inner, kind, until, is_read: false, cut: usize::MAX, asked: AtomicU64::new(0) }
        }

        fn here(&self, operation: &'static str, key: &str) -> Result<(), BucketError> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            if Instant::now() >= self.until || self.is_read && operation != "put" {
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
            if let Err(e) = self.here("put", key) {
                // It has begun to take it.
                let _ = body.into_stream().next().await;
                return Err(e);
            }
            self.inner.put(key, body, options).await
        }
        async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
            self.here("get", key)?;
            let bytes = collect(self.inner.get(key, range).await?, 16 << 20).await?;
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

    /// The ten bytes of an object of known size.
    async fn ten(store: &Store) -> Result<Bytes, BucketError> {
        collect(store.bucket.get("k", Some(0..10)).await?, 100).await
    }

    #[tokio::test]
    async fn a_record_is_that_of_its_folder() {
        let store = Store::in_memory();
        for (folder, name) in [("nightly-1", "nightly-1"), ("copy", "nightly-1"), ("none", "")] {
            let mut record = Backup::default();
            record.metadata.name = name.into();
            record.metadata.uid = "u".into();
            let record = serde_json::to_vec(&record).unwrap();
            store.put(&BackupFile::Metadata.key(folder), record.into(), PutOptions::default()).await.unwrap();
        }
        let told: Vec<(String, Result<String, String>)> = store
            .backups()
            .await
            .unwrap()
            .into_iter()
            .map(|summary| (summary.name, summary.backup.map(|record| record.metadata.name.clone())))
            .collect();
        let refused = |folder: &str, name: &str| {
            let why = format!(
                "backups/{folder}/velero-backup.json is the record of the backup {name:?}: the files of a backup count only in the \
                 folder of its own name; put them back into that one, or remove this one"
            );
            (folder.to_owned(), Err(why))
        };
        assert_eq!(
            told,
            [refused("copy", "nightly-1"), ("nightly-1".to_owned(), Ok("nightly-1".to_owned())), refused("none", "")]
        );
        let record = store.record("copy").await.map_err(|e| e.to_string());
        assert_eq!(Err(record.unwrap_err()), refused("copy", "nightly-1").1);
        // The name is taken: nothing is written over these files.
        let taken = store.written("copy", "v").await.unwrap_err().to_string();
        let expected = "backup already exists in object storage: \"copy\" in memory has UID u; choose another name";
        assert_eq!(taken, expected);
    }

    #[tokio::test]
    async fn the_record_says_the_cluster_of_a_backup_whose_claim_is_damaged() {
        let store = Store::in_memory();
        assert_eq!(store.cluster_of("b").await.unwrap(), None, "it has no claim");
        let record = r#"{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{"name":"b","annotations":{"lifeboat.io/source-cluster":"c"}}}"#;
        for (record, expected) in [(None, None), (Some("7"), None), (Some(record), Some("c"))] {
            if let Some(record) = record {
                store.put(&BackupFile::Metadata.key("b"), record.into(), PutOptions::default()).await.unwrap();
            }
            for claim in ["", "{}", "7"] {
                store.put(&BackupFile::Claim.key("b"), claim.into(), PutOptions::default()).await.unwrap();
                assert_eq!(store.cluster_of("b").await.unwrap().as_deref(), expected, "{claim} {record:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_that_is_away_for_two_minutes_is_waited_for() {
        let (_, store) = Away::store(ErrorKind::Transient, 120).await;
        assert_eq!(store.read("k").await.unwrap().unwrap(), b"0123456789"[..]);
        let (_, store) = Away::store(ErrorKind::Throttled, 120).await;
        let bytes = ten(&store).await.unwrap();
        assert_eq!(bytes, b"0123456789"[..]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_not_in_memory_is_stored_again_from_its_first_byte() {
        let whole: Vec<u8> = (0..9_u32 << 20).map(|n| n.to_be_bytes()[1]).collect();
        let file = whole.clone();
        let content = Content::read_by(whole.len() as u64, move |at, most| {
            let at = usize::try_from(at).unwrap();
            Ok(Bytes::copy_from_slice(&file[at..at + most]))
        });
        let (_, store) = Away::store(ErrorKind::Transient, 120).await;
        let stored = store.put_content("k", &content, PutOptions::default()).await.unwrap();
        assert_eq!(stored, content.digest("k").await.unwrap());
        assert!(store.read("k").await.unwrap().unwrap() == whole);
        let (away, store) = Away::store(ErrorKind::Transient, 3600).await;
        let error = store.put_content("k", &content, PutOptions::default()).await.unwrap_err().to_string();
        assert_eq!(error, "cannot put \"k\" in away: it is away; tried 40 times in 177 s");
        assert_eq!(away.asked.load(Ordering::Relaxed), 40);
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
            let error = ten(&store).await.unwrap_err();
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
        let away = Arc::new(Away { cut: 3, ..Away::until(ErrorKind::Transient, 0).await });
        let bytes = ten(&Store::new(away.clone())).await.unwrap();
        assert_eq!((bytes, away.asked.load(Ordering::Relaxed)), (b"0123456789"[..].into(), 4));
    }

    /// Only the store repeats conditional puts, because it knows its own claim when it meets it.
    #[tokio::test(start_paused = true)]
    async fn a_claim_is_put_again_until_patience_ends() {
        let request = ClaimRequest {
            name: "nightly".into(),
            backup_uid: "u".into(),
            cluster_uid: "c".into(),
            namespace: String::new(),
            take_over: false,
            now: Timestamp::UNIX_EPOCH,
        };
        let away = Away { is_read: true, ..Away::until(ErrorKind::Transient, 120).await };
        let store = Store::new(Arc::new(away));
        let Ok(ClaimOutcome::Writer(writer)) = store.claim(&request).await else { panic!("it is claimed") };
        assert_eq!(writer.attempt(), 1);
        let away = Away { is_read: true, ..Away::until(ErrorKind::Transient, 3600).await };
        let store = Store::new(Arc::new(away));
        let error = store.claim(&request).await.unwrap_err().to_string();
        let expected =
            "cannot put \"backups/nightly/lifeboat-claim.json\" in away: it is away; tried 40 times in 177 s";
        assert_eq!(error, expected);
    }
}
