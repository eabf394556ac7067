//! Deletes backups and restores, and replaces files of theirs.

use crate::retry::retry;
use crate::{Store, StoreError};
use lifeboat_api::Backup;
use lifeboat_archive::gojson;
use lifeboat_archive::layout::{BACKUPS, BackupFile, RESTORES};
use lifeboat_bucket::{Entry, ListOptions, PutOptions};

impl Store {
    /// Deletes a backup: its record first, so that it is there whole or not at all, then every other file.
    ///
    /// Nothing is read but names, and it is no error when there is nothing. Deleting again goes on where an interrupted
    /// deletion was.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn delete_backup(&self, name: &str) -> Result<(), StoreError> {
        retry(|| self.delete_keys(vec![BackupFile::Metadata.key(name)])).await?;
        self.delete_folder(&format!("{BACKUPS}{name}/")).await
    }

    /// Deletes the files of a restore; it is no error when there are none.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn delete_restore(&self, name: &str) -> Result<(), StoreError> {
        self.delete_folder(&format!("{RESTORES}{name}/")).await
    }

    /// Stores the record of a backup over the one that is there.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn replace_record(&self, backup: &Backup) -> Result<(), StoreError> {
        let record = gojson::to_vec_pretty(backup).map_err(|e| StoreError::Encode("the backup's record", e))?;
        let options = PutOptions { content_type: Some("application/json"), ..PutOptions::default() };
        self.put(&BackupFile::Metadata.key(&backup.metadata.name), record.into(), options).await
    }

    /// Stores a file of a backup over the one that is there.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn replace_file(&self, name: &str, file: BackupFile, bytes: Vec<u8>) -> Result<(), StoreError> {
        let options = PutOptions { content_type: Some(file.content_type()), ..PutOptions::default() };
        self.put(&file.key(name), bytes.into(), options).await
    }

    async fn delete_folder(&self, prefix: &str) -> Result<(), StoreError> {
        loop {
            // Always the first page: what it held is gone by the next turn.
            let options = ListOptions { prefix: prefix.to_owned(), ..ListOptions::default() };
            let page = retry(|| self.bucket.list(options.clone())).await?;
            let keys: Vec<String> = page
                .entries
                .into_iter()
                .filter_map(|entry| match entry {
                    Entry::Object(object) => Some(object.key),
                    Entry::Prefix(_) => None,
                })
                .collect();
            if keys.is_empty() {
                return Ok(());
            }
            retry(|| self.delete_keys(keys.clone())).await?;
        }
    }

    async fn delete_keys(&self, keys: Vec<String>) -> Result<(), lifeboat_bucket::BucketError> {
        self.bucket.delete(&keys).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_bucket::{BlobStore, Memory};
    use std::sync::Arc;

    #[tokio::test]
    async fn a_deletion_takes_one_folder_and_can_be_repeated() {
        let bucket: Arc<dyn BlobStore> = Arc::new(Memory::default());
        let kept = ["backups/ab/velero-backup.json", "restores/a/x", "restores/ab/x"];
        let gone = ["backups/a/velero-backup.json", "backups/a/a.tar.gz", "backups/a/deep/er"];
        for key in kept.iter().chain(&gone) {
            bucket.put(key, b"x".to_vec().into(), PutOptions::default()).await.unwrap();
        }
        let store = Store::new(Arc::clone(&bucket));
        for _ in 0..2 {
            store.delete_backup("a").await.unwrap();
        }
        let page = bucket.list(ListOptions::default()).await.unwrap();
        let keys: Vec<String> = page
            .entries
            .into_iter()
            .filter_map(|entry| match entry {
                Entry::Object(object) => Some(object.key),
                Entry::Prefix(_) => None,
            })
            .collect();
        assert_eq!(keys, kept);
        store.delete_restore("a").await.unwrap();
        assert!(bucket.head("restores/a/x").await.is_err_and(|e| e.is_not_found()));
        assert!(bucket.head("restores/ab/x").await.is_ok());
    }
}
