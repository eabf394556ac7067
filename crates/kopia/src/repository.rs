//! A repository that is open.

use crate::KopiaError;
use crate::content::Contents;
use crate::crypto::Password;
use crate::format::time::UnixNanos;
use lifeboat_bucket::BlobStore;
use std::path::PathBuf;
use std::sync::Arc;

/// The clock of the caller.
pub type Clock = Arc<dyn Fn() -> UnixNanos + Send + Sync>;

/// What the caller gives to open a repository.
#[derive(Clone)]
pub struct OpenOptions {
    /// A folder of this process alone, for indexes. Removed by the caller.
    pub scratch: PathBuf,
    /// The clock, for locks of upgrades and the age of what was read.
    pub clock: Clock,
    /// The most bytes of memory for indexes and contents that are kept.
    pub memory: u64,
}

/// An open repository. Everything that reads it shares one.
#[derive(Debug)]
pub struct Repository {}

impl Repository {
    /// Opens the repository in a bucket, whose prefix (such as `kopia/<namespace>/` of Velero) is off already.
    ///
    /// # Errors
    /// No repository, a wrong password, an upgrade, what this version cannot read, those of the bucket.
    pub async fn open(
        store: Arc<dyn BlobStore>,
        password: &Password,
        options: OpenOptions,
    ) -> Result<Self, KopiaError> {
        todo!()
    }
    /// Its contents.
    pub fn contents(&self) -> &Contents {
        todo!()
    }
    /// Its snapshots, oldest first. A manifest of type `snapshot` that cannot be read is in the list with its reason.
    ///
    /// # Errors
    /// Those of [`crate::manifest::load`].
    pub async fn snapshots(&self) -> Result<Vec<crate::snapshot::Snapshot>, KopiaError> {
        todo!()
    }
}
