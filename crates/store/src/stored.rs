//! Files that are stored, to be stored again with more behind them.

use crate::content::PIECE;
use crate::{Content, Store, StoreError};
use futures::TryStreamExt;
use lifeboat_archive::layout::{BackupFile, RestoreFile};
use lifeboat_bucket::{BlobStore, BucketError, ErrorKind};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tokio::task::spawn_blocking;

/// Bytes of a stored file that are gathered in memory; a longer one waits in scratch space.
const GATHERED: usize = 32 << 20;
/// Largest stored file that is stored again with more behind it.
const LARGEST: u64 = 4 << 30;

impl Store {
    /// A file of a backup as it is stored, to be stored again with more bytes behind it; `None` when it is absent.
    /// Bytes beyond the part that memory should hold wait in scratch space.
    ///
    /// # Errors
    /// [`StoreError::Bucket`], [`StoreError::Scratch`].
    pub async fn backup_file_content(
        &self,
        name: &str,
        file: BackupFile,
        scratch: &Path,
    ) -> Result<Option<Content>, StoreError> {
        self.content(&file.key(name), scratch, GATHERED).await
    }

    /// [`Store::backup_file_content`] of a restore.
    ///
    /// # Errors
    /// As [`Store::backup_file_content`].
    pub async fn restore_file_content(
        &self,
        name: &str,
        file: RestoreFile,
        scratch: &Path,
    ) -> Result<Option<Content>, StoreError> {
        self.content(&file.key(name), scratch, GATHERED).await
    }

    /// A stored object. It is copied into scratch space rather than read while it is stored again, since a bucket may allow one
    /// call at a time.
    async fn content(&self, key: &str, scratch: &Path, gathered: usize) -> Result<Option<Content>, StoreError> {
        match self.gather(key, scratch, gathered).await {
            Err(StoreError::Bucket(e)) if e.is_not_found() => Ok(None),
            content => content.map(Some),
        }
    }

    async fn gather(&self, key: &str, scratch: &Path, gathered: usize) -> Result<Content, StoreError> {
        let mut pieces = self.bucket.get(key, None).await?;
        let mut bytes = Vec::new();
        let mut copy: Option<ScratchCopy> = None;
        while let Some(piece) = pieces.try_next().await? {
            bytes.extend_from_slice(&piece);
            if copy.as_ref().map_or(0, |copy| copy.length) + bytes.len() as u64 > LARGEST {
                return Err(too_large(key, self.describe()).into());
            }
            if bytes.len() > if copy.is_some() { PIECE } else { gathered } {
                copy = Some(ScratchCopy::add(copy, scratch, std::mem::take(&mut bytes)).await?);
            }
        }
        match copy {
            None => Ok(bytes.into()),
            Some(copy) => {
                let copy = ScratchCopy::add(Some(copy), scratch, bytes).await?;
                Ok(Content::of_file(copy.file, copy.length))
            }
        }
    }
}

/// Bytes in scratch space.
struct ScratchCopy {
    file: File,
    length: u64,
}

impl ScratchCopy {
    /// Appends bytes to the copy; the first bytes go into a new file without a name.
    async fn add(copy: Option<Self>, scratch: &Path, bytes: Vec<u8>) -> Result<Self, StoreError> {
        let (place, folder) = (scratch.display().to_string(), scratch.to_owned());
        let write = move || {
            let Self { file, length } = match copy {
                Some(copy) => copy,
                None => Self { file: tempfile::tempfile_in(folder)?, length: 0 },
            };
            file.write_all_at(&bytes, length)?;
            Ok(Self { file, length: length + bytes.len() as u64 })
        };
        let written = spawn_blocking(write).await.map_err(|_| StoreError::Worker("writing into scratch space"))?;
        written.map_err(|source| StoreError::Scratch { place, source })
    }
}

fn too_large(key: &str, store: String) -> BucketError {
    let message = format!("the object is larger than {LARGEST} bytes");
    BucketError { kind: ErrorKind::Invalid, operation: "read", key: key.to_owned(), store, message, source: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use lifeboat_bucket::{Memory, PutOptions, collect};
    use std::sync::Arc;

    /// Reads the object `k`, stores it again with more bytes behind it, and gives the new object.
    async fn with_more(store: &Store, scratch: &Path, gathered: usize) -> Result<Bytes, StoreError> {
        let before = store.content("k", scratch, gathered).await?.unwrap_or_default();
        let content = before.followed_by(b"more".to_vec().into());
        let expected = content.length();
        let stored = store.put_content("k", &content, PutOptions::default()).await?;
        assert_eq!((stored.size, &stored), (expected, &content.digest("k").await?));
        Ok(collect(store.bucket.get("k", None).await?, 64 << 20).await?)
    }

    #[tokio::test]
    async fn a_stored_file_is_stored_again_with_more_behind_it_however_large_it_is() {
        let scratch = tempfile::tempdir().unwrap();
        for size in [0, 3, 1 << 20, (9 << 20) + 1] {
            for gathered in [2, 3 << 20, 32 << 20] {
                let whole: Vec<u8> = (0..size).map(|n: u32| n.to_be_bytes()[2]).collect();
                let store = Store::new(Arc::new(Memory::default()));
                if size > 0 {
                    store.put("k", whole.clone().into(), PutOptions::default()).await.unwrap();
                }
                let stored = with_more(&store, scratch.path(), gathered).await.unwrap();
                assert!(stored == [whole.as_slice(), b"more"].concat(), "{size} {gathered}");
            }
        }
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "its copy has no name");
    }

    #[tokio::test]
    async fn a_stored_file_beyond_memory_and_scratch_space_stays_as_it_is() {
        let scratch = tempfile::tempdir().unwrap();
        let missing = scratch.path().join("missing");
        let store = Store::new(Arc::new(Memory::default()));
        store.put("k", b"stored".to_vec().into(), PutOptions::default()).await.unwrap();
        let error = with_more(&store, &missing, 5).await.unwrap_err();
        assert_eq!(error.to_string(), format!("cannot use scratch space in {}", missing.display()));
        assert_eq!(with_more(&store, &missing, 6).await.unwrap(), "storedmore");
    }
}
