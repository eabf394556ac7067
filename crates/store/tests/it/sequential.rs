//! Backups in a bucket that reads objects only from their beginning.

use crate::{NAME, change, names, options, read, write};
use async_trait::async_trait;
use lifeboat_archive::layout::BackupFile;
use lifeboat_bucket::faults::StoreDecorator;
use lifeboat_bucket::{BlobStore, BucketError, ByteStream, ErrorKind, Memory, ObjectInfo};
use lifeboat_store::{OpenOptions, Store, StoreError};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// A bucket that gives no parts, and counts what is read of each object: a question for its size reads all of it.
#[derive(Debug, Default)]
struct Sequential {
    inner: Memory,
    read: Mutex<BTreeMap<String, u64>>,
}

impl Sequential {
    async fn count(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        let info = self.inner.head(key).await?;
        *self.read.lock().unwrap().entry(key.to_owned()).or_default() += info.size;
        Ok(info)
    }

    /// Bytes that were read of each object since the last time.
    fn take(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut self.read.lock().unwrap())
    }
}

#[async_trait]
impl StoreDecorator for Sequential {
    fn inner(&self) -> &dyn BlobStore {
        &self.inner
    }
    fn reads_ranges(&self) -> bool {
        false
    }
    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        if range.is_some() {
            let (key, store, message) = (key.to_owned(), self.inner().describe(), "a part was asked for".to_owned());
            return Err(BucketError { kind: ErrorKind::Other, operation: "get", key, store, message, source: None });
        }
        self.count(key).await?;
        self.inner.get(key, None).await
    }
    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        self.count(key).await
    }
}

async fn size(bucket: &Sequential, file: BackupFile) -> u64 {
    bucket.inner.head(&file.key(NAME)).await.unwrap().size
}

#[tokio::test]
async fn an_archive_is_read_once_however_often_it_is_read_from() {
    let bucket = Arc::new(Sequential::default());
    let shared: Arc<dyn BlobStore> = bucket.clone();
    let store = write(&shared, 30, names).await;
    let scratch = tempfile::tempdir().unwrap();
    let (tarball, index) = (size(&bucket, BackupFile::Tarball).await, size(&bucket, BackupFile::Index).await);
    for ignore_index in [false, true] {
        let options = OpenOptions { scratch: scratch.path().to_owned(), ..options(ignore_index) };
        bucket.take();
        let archive = store.open_archive(NAME, &options).await.unwrap();
        for _ in 0..3 {
            assert_eq!(read(&archive).await.unwrap().len(), 30);
        }
        let mut expected = BTreeMap::from([(BackupFile::Tarball.key(NAME), tarball)]);
        if !ignore_index {
            expected.insert(BackupFile::Index.key(NAME), index);
        }
        assert_eq!(bucket.take(), expected, "{ignore_index}");
        let named = std::fs::read_dir(scratch.path()).unwrap().count();
        assert_eq!(named, 0, "the copy has no name, so that nothing of it stays when this process is killed");
    }
    let found = store.verify(NAME, &options(false)).await.unwrap();
    assert_eq!((found.problems.len(), found.files, found.objects, found.has_manifest), (0, 2, 30, true));
}

#[tokio::test]
async fn which_backups_there_are_is_known_without_reading_any() {
    let bucket = Arc::new(Sequential::default());
    let shared: Arc<dyn BlobStore> = bucket.clone();
    let store = write(&shared, 1, names).await;
    bucket.take();
    assert_eq!(store.backup_names().await.unwrap(), [NAME]);
    assert_eq!(bucket.take(), BTreeMap::new());
}

#[tokio::test]
async fn an_archive_that_is_missing_damaged_or_too_large_is_told_as_elsewhere() {
    let bucket = Arc::new(Sequential::default());
    let shared: Arc<dyn BlobStore> = bucket.clone();
    let store = write(&shared, 20, names).await;
    let tarball = size(&bucket, BackupFile::Tarball).await;
    let mut small = options(false);
    small.limits.total = tarball - 1;
    let error = lifeboat_object::chain(&store.open_archive(NAME, &small).await.unwrap_err());
    assert!(error.ends_with(&format!("it has more than {} bytes", tarball - 1)), "{error}");
    change(&shared, BackupFile::Tarball, |bytes| bytes.truncate(bytes.len() / 2)).await;
    let refused = store.open_archive(NAME, &options(false)).await.unwrap_err();
    assert!(matches!(refused, StoreError::Archive { .. }), "{refused:?}");
    shared.delete(&[BackupFile::Tarball.key(NAME)]).await.unwrap();
    let missing = Store::new(shared).open_archive(NAME, &options(false)).await.unwrap_err();
    assert!(matches!(missing, StoreError::NoBackup { .. }), "{missing:?}");
}
