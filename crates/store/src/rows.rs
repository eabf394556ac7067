//! The objects of an archive, as its index lists them.

use crate::archive::Archive;
use crate::archive_cache::ArchiveVersion;
use crate::{ArchiveCache, OpenOptions, Store, StoreError};
use lifeboat_archive::index::{Index, Row};
use lifeboat_archive::layout::BackupFile;
use lifeboat_bucket::BlobStore;
use tokio::task::spawn_blocking;

/// The rows of an archive, which may not be open itself.
#[derive(Debug)]
pub struct ArchiveRows {
    name: String,
    known: RowSource,
    /// The cache for what is read of the archive.
    cache: Option<ArchiveCache>,
}

#[derive(Debug)]
enum RowSource {
    /// The rows of an index that was kept. They do not tell where the objects stand in a copy that is made now.
    Kept(Index),
    Open(Archive),
}

impl ArchiveRows {
    /// The objects in the archive, in its order, as [`Archive::rows`] gives them.
    pub fn rows(&self) -> std::slice::Iter<'_, Row> {
        match &self.known {
            RowSource::Kept(index) => index.rows(),
            RowSource::Open(archive) => archive.rows(),
        }
    }

    /// The cache for what is read of the archive; `None` for an archive that has an index, which is cheap to read
    /// again.
    #[must_use]
    pub fn cache(&self) -> Option<&ArchiveCache> {
        self.cache.as_ref()
    }

    /// Opens the archive, to read objects. An archive that has no index is copied for that.
    ///
    /// # Errors
    /// As [`Store::open_archive`].
    pub async fn open(self, store: &Store, options: &OpenOptions) -> Result<Archive, StoreError> {
        match self.known {
            RowSource::Open(archive) => Ok(archive),
            RowSource::Kept(_) => store.open_archive(&self.name, options).await,
        }
    }
}

impl Store {
    /// The rows of the archive of a backup. An archive without an index that fits is read as a whole, as
    /// [`Store::open_archive`] does, unless `cache` has kept its index from the last time; and it is kept there now. A
    /// cache that cannot be used changes nothing else.
    ///
    /// # Errors
    /// As [`Store::open_archive`].
    pub async fn archive_rows(
        &self,
        name: &str,
        options: &OpenOptions,
        cache: Option<&ArchiveCache>,
    ) -> Result<ArchiveRows, StoreError> {
        let owned = name.to_owned();
        let of =
            |known: RowSource, cache: Option<&ArchiveCache>| ArchiveRows { name: owned, known, cache: cache.cloned() };
        let Some(cache) = cache.filter(|_| self.bucket.reads_ranges() && !options.ignore_index) else {
            return Ok(of(RowSource::Open(self.open_archive(name, options).await?), cache));
        };
        let info = self.tarball_info(name).await?;
        if let Some(archive) = self.open_by_index(name, info.size, options).await? {
            return Ok(of(RowSource::Open(archive), None));
        }
        // Where the bucket does not say when it was written, it is not known whether it is the same archive.
        let Some(modified) = info.modified else {
            let (archive, _) = self.open_copied(name, info.size, options).await?;
            return Ok(of(RowSource::Open(archive), Some(cache)));
        };
        let (place, key) = (self.describe(), BackupFile::Tarball.key(name));
        let version = ArchiveVersion { place, key, size: info.size, modified };
        let kept = {
            let (files, version, limits) = (cache.clone(), version.clone(), options.limits);
            let read = spawn_blocking(move || files.index(&version, limits));
            read.await.map_err(|_| StoreError::Worker("reading a kept index"))?
        };
        if let Some(index) = kept {
            return Ok(of(RowSource::Kept(index), Some(cache)));
        }
        let (archive, index) = self.open_copied(name, info.size, options).await?;
        let (files, copy) = (cache.clone(), archive.tarball_size());
        let keep = spawn_blocking(move || files.keep_index(&version, copy, &index));
        if let Err(e) = keep.await.map_err(|_| StoreError::Worker("keeping an index"))? {
            tracing::warn!(error = %e, "the index of an archive cannot be kept: the archive is read again next time");
        }
        Ok(of(RowSource::Open(archive), Some(cache)))
    }
}
