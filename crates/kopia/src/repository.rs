//! A repository that is open.

use crate::KopiaError;
use crate::blobs::Blobs;
use crate::content::{Contents, IndexSource, Parts};
use crate::crypto::{Crypto, Password};
use crate::format::blob_name::FORMAT;
use crate::format::repository::RepositoryFormat;
use crate::guard::{Clock, FormatGuard};
use crate::lost_indexes::load_indexes;
use crate::manifest::{self, Manifests};
use crate::snapshot::Snapshot;
use crate::tasks::blocking;
use lifeboat_bucket::BlobStore;
use std::path::PathBuf;
use std::sync::Arc;

/// Options of opening a repository.
#[derive(Clone)]
pub struct OpenOptions {
    /// A folder of this process alone, for indexes. Files in it have no names, so nothing stays.
    pub scratch: PathBuf,
    /// The clock, for locks of upgrades and the age of what was read.
    pub clock: Clock,
    /// The most bytes of memory for indexes and contents that are kept or in flight.
    pub memory: u64,
    /// The threads that decrypt.
    pub threads: usize,
    /// Where the indexes are taken from.
    pub indexes: IndexSource,
}

/// An open repository. Everything that reads it shares one.
#[derive(Debug, Clone)]
pub struct Repository {
    contents: Contents,
    guard: Arc<FormatGuard>,
    blobs: Blobs,
    crypto: Arc<Crypto>,
}

impl Repository {
    /// Opens the repository in a bucket, whose prefix (such as `kopia/<namespace>/` of Velero) is off already, and loads its
    /// indexes.
    ///
    /// # Errors
    /// No repository, a wrong password, an upgrade, what this version cannot read, indexes that are lost or damaged, those of
    /// the bucket.
    pub async fn open(store: Arc<dyn BlobStore>, password: Password, options: OpenOptions) -> Result<Self, KopiaError> {
        let blobs = Blobs::open(store).await?;
        let guard = FormatGuard::open(blobs.clone(), password, options.clock.clone()).await?;
        Self::open_guarded(blobs, guard, options).await
    }

    /// Reads the format of the repository in a bucket as this password opens it, and nothing else of it.
    ///
    /// # Errors
    /// No repository, a wrong password, an upgrade, what this version cannot read, those of the bucket.
    pub async fn read_format(
        store: Arc<dyn BlobStore>,
        password: Password,
        clock: Clock,
    ) -> Result<Arc<RepositoryFormat>, KopiaError> {
        let blobs = Blobs::open(store).await?;
        Ok(FormatGuard::open(blobs, password, clock).await?.format())
    }

    /// Opens a repository whose format is known.
    #[cfg(test)]
    pub(crate) async fn open_known(
        store: Arc<dyn BlobStore>,
        blob: &[u8],
        format: &RepositoryFormat,
        options: OpenOptions,
    ) -> Result<Self, KopiaError> {
        let blobs = Blobs::open(store).await?;
        let blob = bytes::Bytes::copy_from_slice(blob);
        let guard = FormatGuard::known(blobs.clone(), blob, format.clone(), options.clock.clone());
        Self::open_guarded(blobs, guard, options).await
    }

    async fn open_guarded(blobs: Blobs, guard: FormatGuard, options: OpenOptions) -> Result<Self, KopiaError> {
        let guard = Arc::new(guard);
        let format = guard.format();
        let crypto =
            blocking(move || Crypto::new(&format).map_err(|e| KopiaError::damaged(format!("blob {FORMAT}"), e)));
        let crypto = Arc::new(crypto.await?);
        let contents = Contents::new(Parts {
            blobs: blobs.clone(),
            crypto: crypto.clone(),
            guard: guard.clone(),
            clock: options.clock,
            source: options.indexes,
            scratch: &options.scratch,
            memory: options.memory,
            threads: options.threads,
        });
        Box::pin(load_indexes(&contents, &blobs)).await?;
        Ok(Self { contents, guard, blobs, crypto })
    }

    /// Its contents.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Its format, as it was read last.
    pub fn format(&self) -> Arc<RepositoryFormat> {
        self.guard.format()
    }

    /// Its blobs.
    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// Its keys.
    pub fn crypto(&self) -> &Arc<Crypto> {
        &self.crypto
    }

    /// Its guard of the format.
    pub(crate) fn guard(&self) -> &FormatGuard {
        &self.guard
    }

    /// Its manifests as of the last refresh.
    ///
    /// # Errors
    /// Errors of [`manifest::load`].
    pub async fn manifests(&self) -> Result<Manifests, KopiaError> {
        manifest::load(&self.contents).await
    }

    /// Its snapshots, oldest first. A manifest of type `snapshot` that cannot be read is in the list with its reason.
    ///
    /// # Errors
    /// Errors of [`manifest::load`].
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>, KopiaError> {
        let mut snapshots = self.manifests().await?.snapshots();
        snapshots.sort_by(|a, b| (a.time(), &a.id).cmp(&(b.time(), &b.id)));
        Ok(snapshots)
    }
}
