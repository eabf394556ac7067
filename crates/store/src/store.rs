//! Backups of a location.

use crate::StoreError;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use lifeboat_api::Backup;
use lifeboat_archive::layout::{BACKUPS, BackupFile, RestoreFile};
use lifeboat_archive::sidecar::{self, Claim};
use lifeboat_bucket::{BlobStore, Body, Entry, ErrorKind, ListOptions, Memory, PATIENCE, PutOptions, collect};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;

/// Largest JSON file that is read, decompressed (Velero's readers have the same bound).
pub(crate) const LARGEST_JSON: u64 = 1 << 30;

/// Reads of small files in flight.
pub(crate) const AT_ONCE: usize = 16;

/// A storage location: a bucket, already below its prefix.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) bucket: Arc<dyn BlobStore>,
    /// For one request with all its attempts.
    pub(crate) patience: Duration,
}

/// A backup in a listing.
#[derive(Clone, Debug, PartialEq)]
pub struct BackupSummary {
    /// Its name.
    pub name: String,
    /// Its record, or why that cannot be read.
    pub backup: Result<Box<Backup>, String>,
}

impl Store {
    /// The store in this bucket.
    #[must_use]
    pub fn new(bucket: Arc<dyn BlobStore>) -> Self {
        Self { bucket, patience: PATIENCE }
    }

    /// The same store, for one request of which so much time is taken, all attempts together; three minutes when not said.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// An empty store in memory, for tests.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::new(Arc::new(Memory::default()))
    }

    /// Where this is, for people.
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

    /// All backups with their records, in order of their names; one that cannot be read says why.
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
        let mut names = Vec::new();
        let mut options =
            ListOptions { prefix: BACKUPS.to_owned(), delimiter: Some("/".to_owned()), ..ListOptions::default() };
        loop {
            let page = self.retry(|| self.bucket.list(options.clone())).await?;
            names.extend(page.entries.into_iter().filter_map(|entry| match entry {
                Entry::Prefix(prefix) => Some(prefix[BACKUPS.len()..].trim_end_matches('/').to_owned()),
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
    /// [`StoreError::NoBackup`], [`StoreError::Sidecar`], [`StoreError::Bucket`].
    pub async fn backup(&self, name: &str) -> Result<Backup, StoreError> {
        let key = BackupFile::Metadata.key(name);
        let bytes = self.read(&key).await?.ok_or_else(|| StoreError::NoBackup {
            name: name.to_owned(),
            place: self.describe(),
            key: key.clone(),
        })?;
        serde_json::from_slice(&bytes).map_err(|e| StoreError::Sidecar { key, source: e.into() })
    }

    /// Who has claimed the name of a backup; `None` when nobody has.
    ///
    /// # Errors
    /// [`StoreError::Sidecar`], [`StoreError::Bucket`].
    pub async fn claim_of(&self, name: &str) -> Result<Option<Claim>, StoreError> {
        let key = BackupFile::Claim.key(name);
        let Some(bytes) = self.read(&key).await? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| StoreError::Sidecar { key, source: e.into() })
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
    pub async fn put_restore_file(&self, name: &str, file: RestoreFile, bytes: Vec<u8>) -> Result<(), StoreError> {
        self.put(
            &file.key(name),
            bytes.into(),
            PutOptions { content_type: Some("application/gzip"), ..PutOptions::default() },
        )
        .await
    }

    pub(crate) async fn put(&self, key: &str, bytes: Bytes, options: PutOptions) -> Result<(), StoreError> {
        self.retry(|| self.bucket.put(key, Body::Bytes(bytes.clone()), options)).await?;
        Ok(())
    }

    /// A whole object in memory; `None` when it does not exist.
    pub(crate) async fn read(&self, key: &str) -> Result<Option<Bytes>, StoreError> {
        let limit = usize::try_from(LARGEST_JSON).unwrap_or(usize::MAX);
        let read = self.retry(|| async { collect(self.bucket.get(key, None).await?, limit).await }).await;
        match read {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    pub(crate) async fn exists(&self, key: &str) -> Result<bool, StoreError> {
        match self.retry(|| self.bucket.head(key)).await {
            Ok(_) => Ok(true),
            Err(e) if e.is_not_found() => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}
