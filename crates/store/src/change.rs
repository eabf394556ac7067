//! Deletes backups and restores, and replaces files of theirs.

use crate::{Content, Store, StoreError};
use lifeboat_api::Backup;
use lifeboat_archive::gojson;
use lifeboat_archive::layout::{BACKUPS, BackupFile, unproven_key};
use lifeboat_bucket::{BlobStore, BucketError, Entry, ErrorKind, ListOptions, PutOptions};
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

impl Store {
    /// Deletes a backup: its record first, so that it is there whole or not at all; then every other file; and last the
    /// claim, which tells whose files are left of a deletion that was interrupted. The record is deleted once more,
    /// because another cluster may have stored it over the one that was there meanwhile ([`Store::change_record`]).
    ///
    /// Only names are read, and it is no error when there is nothing. Deleting again goes on where an interrupted
    /// deletion was.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn delete_backup(&self, name: &str) -> Result<(), StoreError> {
        let (record, claim) = (BackupFile::Metadata.key(name), BackupFile::Claim.key(name));
        self.bucket.delete(std::slice::from_ref(&record)).await?;
        self.abort_uploads(name).await?;
        self.delete_folder(&folder(name), &[claim, record]).await
    }

    /// Removes the files of a backup that was never committed: open uploads, files, and last the claim, so that an
    /// interrupted removal is found again. The caller must know that no writer is at work there.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn sweep(&self, name: &str) -> Result<(), StoreError> {
        self.abort_uploads(name).await?;
        self.delete_folder(&folder(name), &[BackupFile::Claim.key(name)]).await
    }

    /// Ends uploads into the folder of a backup that no writer goes on with. A bucket that does not let us see them
    /// keeps them: listing them is not among the permissions that Velero asks for.
    pub(crate) async fn abort_uploads(&self, name: &str) -> Result<(), BucketError> {
        let folder = folder(name);
        match self.bucket.abort_stale_uploads(&folder, Duration::ZERO).await {
            Err(e) if e.kind == ErrorKind::Denied => {
                tracing::warn!(folder, error = %e, "uploads that nobody goes on with may stay open");
                Ok(())
            }
            ended => ended.map(drop),
        }
    }

    /// Stores a list of what perhaps stays in other storages though the backup is deleted. Gives its key; the list outlives the backup.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn put_unproven<T: Serialize>(&self, backup: &str, uid: &str, list: &T) -> Result<String, StoreError> {
        let key = unproven_key(backup, uid);
        let list = StoreError::encoded("what was perhaps not deleted", gojson::to_vec_pretty(list))?;
        let options = PutOptions { content_type: Some("application/json"), ..PutOptions::default() };
        self.put(&key, list.into(), options).await?;
        Ok(key)
    }

    /// The record of a backup as JSON, with the fields that are not known here.
    ///
    /// # Errors
    /// [`StoreError::NoBackup`], [`StoreError::OtherRecord`], [`StoreError::Sidecar`], [`StoreError::Bucket`].
    pub async fn record(&self, name: &str) -> Result<Value, StoreError> {
        self.record_as(name).await
    }

    /// Stores what was made of [`Store::record`] over it. The manifest does not list the record.
    ///
    /// Another cluster may delete the backup between the two. When its other files have gone meanwhile, the record goes
    /// again too, and the backup is reported missing: a record without files would look like a backup.
    ///
    /// # Errors
    /// [`StoreError::NoBackup`], [`StoreError::Bucket`].
    pub async fn change_record(&self, name: &str, record: &Value) -> Result<(), StoreError> {
        let key = BackupFile::Metadata.key(name);
        let before = self.look_into(name).await?;
        if before == Folder::Empty {
            return Err(self.no_backup(name, key));
        }
        self.put_record(name, record).await?;
        if before == Folder::Files && self.look_into(name).await? != Folder::Files {
            self.bucket.delete(std::slice::from_ref(&key)).await?;
            return Err(self.no_backup(name, key));
        }
        Ok(())
    }

    /// Looks at the first entries of a backup's folder.
    async fn look_into(&self, name: &str) -> Result<Folder, BucketError> {
        let record = BackupFile::Metadata.key(name);
        let is_record = |entry: &Entry| matches!(entry, Entry::Object(object) if object.key == record);
        let mut options = ListOptions { prefix: folder(name), page_size: 2, ..ListOptions::default() };
        let mut has_record = false;
        // A page may have fewer entries than there are, or none.
        loop {
            let page = self.bucket.list(options.clone()).await?;
            if page.entries.iter().any(|entry| !is_record(entry)) {
                return Ok(Folder::Files);
            }
            has_record |= !page.entries.is_empty();
            options.continuation = page.continuation;
            if options.continuation.is_none() {
                return Ok(if has_record { Folder::OnlyRecord } else { Folder::Empty });
            }
        }
    }

    /// Returns true if there is an object whose key begins with `prefix`, other than the one with the key `beside`.
    pub(crate) async fn holds_other(&self, prefix: &str, beside: &str) -> Result<bool, StoreError> {
        let mut options = ListOptions { prefix: prefix.to_owned(), page_size: 2, ..ListOptions::default() };
        loop {
            let page = self.bucket.list(options.clone()).await?;
            let is_other = |entry: &Entry| !matches!(entry, Entry::Object(object) if object.key == beside);
            if page.entries.iter().any(is_other) {
                return Ok(true);
            }
            options.continuation = page.continuation;
            if options.continuation.is_none() {
                return Ok(false);
            }
        }
    }

    fn no_backup(&self, name: &str, key: String) -> StoreError {
        StoreError::NoBackup { name: name.to_owned(), place: self.bucket.describe(), key }
    }

    /// Stores the record of a backup over the one that is there.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn replace_record(&self, backup: &Backup) -> Result<(), StoreError> {
        self.put_record(&backup.metadata.name, backup).await
    }

    async fn put_record<T: Serialize>(&self, name: &str, record: &T) -> Result<(), StoreError> {
        let record = StoreError::encoded("the backup's record", gojson::to_vec_pretty(record))?;
        let options = PutOptions { content_type: Some("application/json"), ..PutOptions::default() };
        self.put(&BackupFile::Metadata.key(name), record.into(), options).await
    }

    /// Stores a file of a backup over the one that is there.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn replace_file(
        &self,
        name: &str,
        file: BackupFile,
        content: impl Into<Content>,
    ) -> Result<(), StoreError> {
        let options = PutOptions { content_type: Some(file.content_type()), ..PutOptions::default() };
        self.put_content(&file.key(name), &content.into(), options).await.map(drop)
    }

    /// Deletes all files of a folder, and `last` after the others.
    async fn delete_folder(&self, prefix: &str, last: &[String]) -> Result<(), StoreError> {
        self.delete_those(prefix, |key| last.iter().any(|one| one == key), last).await
    }

    /// Deletes the files of a folder except those that stay, and `last` after the others.
    pub(crate) async fn delete_those(
        &self,
        prefix: &str,
        stays: impl Fn(&str) -> bool,
        last: &[String],
    ) -> Result<(), StoreError> {
        let mut options = ListOptions { prefix: prefix.to_owned(), ..ListOptions::default() };
        loop {
            let page = self.bucket.list(options.clone()).await?;
            let keys: Vec<String> = page
                .entries
                .into_iter()
                .filter_map(|entry| match entry {
                    Entry::Object(object) => Some(object.key).filter(|key| !stays(key)),
                    Entry::Prefix(_) => None,
                })
                .collect();
            if !keys.is_empty() {
                self.bucket.delete(&keys).await?;
            }
            options.continuation = page.continuation;
            if options.continuation.is_none() {
                break;
            }
        }
        if last.is_empty() {
            return Ok(());
        }
        Ok(self.bucket.delete(last).await?)
    }
}

/// The contents of the folder of a backup.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Folder {
    Empty,
    OnlyRecord,
    /// Others, or a record and others.
    Files,
}

/// The folder of all files of a backup.
pub(crate) fn folder(name: &str) -> String {
    format!("{BACKUPS}{name}/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_bucket::faults::StoreDecorator;
    use lifeboat_bucket::{Body, Memory, Page};
    use std::sync::{Arc, Mutex};

    async fn keys(bucket: &dyn BlobStore) -> Vec<String> {
        let page = bucket.list(ListOptions::default()).await.unwrap();
        let key = |entry| match entry {
            Entry::Object(object) => Some(object.key),
            Entry::Prefix(_) => None,
        };
        page.entries.into_iter().filter_map(key).collect()
    }

    /// A bucket with the permissions of Velero's documentation, and a record of the deleted keys.
    #[derive(Debug, Default)]
    struct Velero {
        inner: Memory,
        /// Keys, a list for each request.
        deleted: Mutex<Vec<Vec<String>>>,
    }

    #[async_trait::async_trait]
    impl StoreDecorator for Velero {
        fn inner(&self) -> &dyn BlobStore {
            &self.inner
        }
        async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
            // One key a page.
            self.inner.list(ListOptions { page_size: 1, ..options }).await
        }
        async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
            self.deleted.lock().unwrap().push(keys.to_vec());
            self.inner.delete(keys).await
        }
        async fn abort_stale_uploads(&self, prefix: &str, _: Duration) -> Result<u64, BucketError> {
            let (key, store) = (prefix.to_owned(), self.inner().describe());
            let message = "s3:ListBucketMultipartUploads is missing".to_owned();
            Err(BucketError { kind: ErrorKind::Denied, operation: "sweep", key, store, message, source: None })
        }
    }

    #[tokio::test]
    async fn the_claim_goes_last_without_leave_to_see_uploads() {
        let bucket = Arc::new(Velero::default());
        for key in ["backups/a/a.tar.gz", "backups/a/lifeboat-claim.json", "backups/a/z", "backups/ab/z"] {
            bucket.inner.put(key, b"x".to_vec().into(), PutOptions::default()).await.unwrap();
        }
        let store = Store::new(bucket.clone());
        store.sweep("a").await.unwrap();
        store.sweep("a").await.unwrap();
        assert_eq!(keys(&bucket.inner).await, ["backups/ab/z"]);
        let deleted = std::mem::take(&mut *bucket.deleted.lock().unwrap());
        let expected = ["a.tar.gz", "z", "lifeboat-claim.json", "lifeboat-claim.json"];
        assert_eq!(deleted, expected.map(|file| vec![format!("backups/a/{file}")]));
        for file in ["lifeboat-claim.json", "velero-backup.json"] {
            bucket.inner.put(&format!("backups/ab/{file}"), b"x".to_vec().into(), PutOptions::default()).await.unwrap();
        }
        store.delete_backup("ab").await.unwrap();
        assert!(keys(&bucket.inner).await.is_empty());
        let deleted = std::mem::take(&mut *bucket.deleted.lock().unwrap());
        let keys = |files: &[&str]| files.iter().map(|file| format!("backups/ab/{file}")).collect::<Vec<_>>();
        let expected: [&[&str]; 3] = [&["velero-backup.json"], &["z"], &["lifeboat-claim.json", "velero-backup.json"]];
        assert_eq!(deleted, expected.map(keys));
    }

    /// Deletes all files of the backup `a` at the begin of a certain request.
    #[derive(Debug, Default)]
    struct Deleting {
        inner: Memory,
        requests: Mutex<u32>,
        at: u32,
    }

    impl Deleting {
        async fn begin(&self) {
            let is_due = {
                let mut requests = self.requests.lock().unwrap();
                *requests += 1;
                *requests == self.at
            };
            if is_due {
                let gone: Vec<String> =
                    keys(&self.inner).await.into_iter().filter(|key| key.starts_with("backups/a/")).collect();
                self.inner.delete(&gone).await.unwrap();
            }
        }
    }

    #[async_trait::async_trait]
    impl StoreDecorator for Deleting {
        fn inner(&self) -> &dyn BlobStore {
            &self.inner
        }
        async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
            self.begin().await;
            self.inner.put(key, body, options).await
        }
        async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
            self.begin().await;
            self.inner.list(options).await
        }
    }

    #[tokio::test]
    async fn a_record_changed_while_its_backup_is_deleted_does_not_stay_alone() {
        // Before the first look, before the record is stored, and before the second look; and never.
        for (at, is_there) in [(1, false), (2, false), (3, false), (4, true)] {
            let bucket = Arc::new(Deleting { at, ..Deleting::default() });
            for file in ["a.tar.gz", "velero-backup.json"] {
                bucket
                    .inner
                    .put(&format!("backups/a/{file}"), b"x".to_vec().into(), PutOptions::default())
                    .await
                    .unwrap();
            }
            let changed = Store::new(bucket.clone()).change_record("a", &serde_json::json!({ "new": true })).await;
            assert_eq!(changed.is_ok(), is_there, "{at}");
            assert!(is_there || matches!(changed, Err(StoreError::NoBackup { .. })), "{at}: {changed:?}");
            let expected: &[&str] =
                if is_there { &["backups/a/a.tar.gz", "backups/a/velero-backup.json"] } else { &[] };
            assert_eq!(keys(&bucket.inner).await, expected, "{at}");
        }
    }

    /// The first page of each listing holds nothing, as with stores that count what they pass over.
    #[derive(Debug, Default)]
    struct EmptyPages(Memory);

    #[async_trait::async_trait]
    impl StoreDecorator for EmptyPages {
        fn inner(&self) -> &dyn BlobStore {
            &self.0
        }
        async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
            match options.continuation.as_deref() {
                None => Ok(Page { entries: Vec::new(), continuation: Some("begin".to_owned()) }),
                Some("begin") => self.0.list(ListOptions { continuation: None, page_size: 1, ..options }).await,
                Some(_) => self.0.list(ListOptions { page_size: 1, ..options }).await,
            }
        }
    }

    #[tokio::test]
    async fn a_record_is_not_deleted_because_a_listed_page_is_empty_or_short() {
        let bucket = Arc::new(EmptyPages::default());
        for file in ["velero-backup.json", "z.tar.gz"] {
            bucket.0.put(&format!("backups/a/{file}"), b"{}".to_vec().into(), PutOptions::default()).await.unwrap();
        }
        Store::new(bucket.clone()).change_record("a", &serde_json::json!({ "new": true })).await.unwrap();
        assert_eq!(keys(&bucket.0).await, ["backups/a/velero-backup.json", "backups/a/z.tar.gz"]);
    }

    #[tokio::test]
    async fn a_record_that_is_alone_already_is_changed_and_stays() {
        let bucket = Arc::new(Memory::default());
        bucket.put("backups/a/velero-backup.json", b"{}".to_vec().into(), PutOptions::default()).await.unwrap();
        Store::new(bucket.clone()).change_record("a", &serde_json::json!({ "new": true })).await.unwrap();
        assert_eq!(keys(&*bucket).await, ["backups/a/velero-backup.json"]);
    }

    #[tokio::test]
    async fn a_deletion_takes_one_folder_and_can_be_repeated() {
        let bucket: Arc<dyn BlobStore> = Arc::new(Memory::default());
        let kept = ["backups/ab/velero-backup.json", "restores/a/x"];
        let gone = ["backups/a/velero-backup.json", "backups/a/a.tar.gz", "backups/a/deep/er"];
        for key in kept.iter().chain(&gone) {
            bucket.put(key, b"x".to_vec().into(), PutOptions::default()).await.unwrap();
        }
        let store = Store::new(Arc::clone(&bucket));
        for _ in 0..2 {
            store.delete_backup("a").await.unwrap();
        }
        assert_eq!(keys(&*bucket).await, kept);
    }
}
