//! What is in an archive, as far as its index says it.

use crate::archive::Archive;
use crate::index_cache::ArchiveVersion;
use crate::{IndexCache, OpenOptions, Store, StoreError};
use lifeboat_archive::index::{Index, Row};
use lifeboat_archive::layout::BackupFile;
use lifeboat_bucket::BlobStore;
use std::time::SystemTime;
use tokio::task::spawn_blocking;

/// The rows of an archive, which may not be open itself.
#[derive(Debug)]
pub struct ArchiveRows {
    name: String,
    known: Known,
}

#[derive(Debug)]
enum Known {
    /// From an index that was kept. The rows say nothing of where the objects stand in a copy that is made now.
    Kept(Index),
    Open(Archive),
}

impl ArchiveRows {
    /// The objects in the archive, in its order, as [`Archive::rows`] gives them.
    pub fn rows(&self) -> std::slice::Iter<'_, Row> {
        match &self.known {
            Known::Kept(index) => index.rows(),
            Known::Open(archive) => archive.rows(),
        }
    }

    /// The archive, to read objects. One that has no index is copied for that.
    ///
    /// # Errors
    /// As [`Store::open_archive`].
    pub async fn open(self, store: &Store, options: &OpenOptions) -> Result<Archive, StoreError> {
        match self.known {
            Known::Open(archive) => Ok(archive),
            Known::Kept(_) => store.open_archive(&self.name, options).await,
        }
    }
}

impl Store {
    /// What is in the archive of a backup. An archive without index is read as a whole, as [`Store::open_archive`] does, unless `cache`
    /// has kept its index from the last time; and it is kept there now. A cache that cannot be used changes nothing else.
    ///
    /// # Errors
    /// As [`Store::open_archive`].
    pub async fn archive_rows(
        &self,
        name: &str,
        options: &OpenOptions,
        cache: Option<&IndexCache>,
    ) -> Result<ArchiveRows, StoreError> {
        let written = match cache {
            Some(cache) => self.written_without_index(name).await?.map(|written| (cache.clone(), written)),
            None => None,
        };
        let Some((cache, (size, modified))) = written else {
            let archive = self.open_archive(name, options).await?;
            return Ok(ArchiveRows { name: name.to_owned(), known: Known::Open(archive) });
        };
        let (place, key) = (self.describe(), BackupFile::Tarball.key(name));
        let kept = {
            let (cache, place, key, limits) = (cache.clone(), place.clone(), key.clone(), options.limits);
            let read = move || cache.read(&ArchiveVersion { place: &place, key: &key, size, modified }, limits);
            spawn_blocking(read).await.map_err(|_| StoreError::Worker("reading a kept index"))?
        };
        if let Some(index) = kept {
            return Ok(ArchiveRows { name: name.to_owned(), known: Known::Kept(index) });
        }
        let (archive, index) = self.open_copied(name, size, options).await?;
        let copy = archive.tarball_size();
        let keep = move || cache.keep(&ArchiveVersion { place: &place, key: &key, size, modified }, copy, &index);
        if let Err(e) = spawn_blocking(keep).await.map_err(|_| StoreError::Worker("keeping an index"))? {
            tracing::warn!(error = %e, "the index of an archive cannot be kept: the archive is read again next time");
        }
        Ok(ArchiveRows { name: name.to_owned(), known: Known::Open(archive) })
    }

    /// Size and age of an archive that has no index; `None` where it has one, or where the bucket does not say how old it is.
    async fn written_without_index(&self, name: &str) -> Result<Option<(u64, SystemTime)>, StoreError> {
        if !self.bucket.reads_ranges() || self.exists(&BackupFile::Index.key(name)).await? {
            return Ok(None);
        }
        match self.bucket.head(&BackupFile::Tarball.key(name)).await {
            Ok(info) => Ok(info.modified.map(|modified| (info.size, modified))),
            // Opening it says what is missing.
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}
