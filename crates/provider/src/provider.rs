//! A provider of object storage.

use crate::url::{UrlBucket, UrlError};
use async_trait::async_trait;
use lifeboat_api::BackupStorageLocation;
use lifeboat_bucket::{BlobStore, Gates, StorageAccess};
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A provider of object storage.
#[async_trait]
pub trait Provider: Debug + Send + Sync {
    /// The names that a location may give in `spec.provider`: first the full one, as of a plugin, then its short forms.
    fn names(&self) -> &'static [&'static str];

    /// The keys that `spec.config` of a location may have.
    fn config_keys(&self) -> &'static [&'static str];

    /// The schemes of the URLs that name its buckets. The empty one stands for a path without scheme.
    fn url_schemes(&self) -> &'static [&'static str];

    /// The forms of its URLs, for messages.
    fn url_forms(&self) -> &'static str;

    /// Parses a URL with one of its schemes: `rest` is what follows `://`, or the whole path.
    ///
    /// # Errors
    /// The mistake in it, and how such URLs are written.
    fn parse_url(&self, scheme: &str, rest: &str) -> Result<Box<dyn UrlBucket>, UrlError>;

    /// Checks the configuration of a location without looking at its storage.
    ///
    /// # Errors
    /// The reason for which it cannot be used.
    fn check(&self, location: &BackupStorageLocation) -> Result<(), String>;

    /// Opens the bucket of a location, without its prefix.
    ///
    /// # Errors
    /// A message for people that says why it cannot be used.
    async fn open(
        &self,
        location: &BackupStorageLocation,
        access: StorageAccess,
        settings: &ProviderSettings,
    ) -> Result<Arc<dyn BlobStore>, String>;
}

/// Settings of the process that opens buckets of locations.
#[derive(Debug)]
pub struct ProviderSettings {
    /// The directory, with all links followed, below which locations may name directories; unset where none may.
    pub directory_root: Option<PathBuf>,
    /// Limits of calls of directories that hang.
    pub gates: Gates,
    /// The longest time for one request, all its attempts together.
    pub patience: Duration,
}
