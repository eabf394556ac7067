//! Blobs by name in both storage layouts: flat (object stores) and sharded with suffix `.f` (kopia: repo/blob/filesystem,
//! repo/blob/sharded).

use crate::KopiaError;
use crate::format::time::UnixNanos;
use bytes::Bytes;
use futures::stream::BoxStream;
use lifeboat_bucket::BlobStore;
use std::ops::Range;
use std::sync::Arc;

/// A blob of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobInfo {
    /// The name.
    pub name: String,
    /// The length.
    pub length: u64,
    /// The storage's time, the clock of epochs.
    pub modified: UnixNanos,
}

/// A bucket seen as blobs of a repository.
#[derive(Debug, Clone)]
pub struct Blobs {
    store: Arc<dyn BlobStore>,
}

impl Blobs {
    /// Recognises the layout: `.shards` or `kopia.repository.f` say sharded.
    ///
    /// # Errors
    /// Those of the bucket; a `.shards` that cannot be read.
    pub async fn open(store: Arc<dyn BlobStore>) -> Result<Self, KopiaError> {
        todo!()
    }
    /// The location, as the store describes itself.
    pub fn location(&self) -> String {
        todo!()
    }
    /// Reads a blob whole, at most `limit` bytes.
    ///
    /// # Errors
    /// Those of the bucket; a blob that is longer.
    pub async fn read(&self, name: &str, limit: u64) -> Result<Bytes, KopiaError> {
        todo!()
    }
    /// Reads exactly this range. Fewer bytes are an error.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn read_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, KopiaError> {
        todo!()
    }
    /// Lists the blobs whose name begins with `prefix`, in no order that may be relied on. Temporary files are left out.
    pub fn list(&self, prefix: &str) -> BoxStream<'_, Result<BlobInfo, KopiaError>> {
        todo!()
    }
    /// Stores a blob. Blobs are immutable but for the format blobs and the schedule.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn put(&self, name: &str, bytes: Bytes) -> Result<(), KopiaError> {
        todo!()
    }
    /// Deletes blobs; one that is not there is deleted.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn delete(&self, names: &[String]) -> Result<(), KopiaError> {
        todo!()
    }
}
