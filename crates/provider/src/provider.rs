//! A provider, and the list of those that are built in.

use crate::directory::DirectoryProvider;
use crate::s3::S3Provider;
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
    /// What is wrong with it, and how it is written.
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

/// The providers that are built in.
#[must_use]
pub fn built_in() -> [&'static dyn Provider; 2] {
    [&S3Provider, &DirectoryProvider]
}

/// The built-in provider of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Provider> {
    built_in().into_iter().find(|provider| provider.names().contains(&name))
}

/// All names of the built-in providers, the short ones too.
#[must_use]
pub fn names() -> Vec<&'static str> {
    built_in().into_iter().flat_map(Provider::names).copied().collect()
}

/// The full name of each built-in provider, as of a plugin.
#[must_use]
pub fn plugin_names() -> Vec<&'static str> {
    built_in().into_iter().filter_map(|provider| provider.names().first()).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_providers_have_a_name_or_a_scheme_in_common() {
        let all = names();
        assert_eq!(all, ["velero.io/aws", "aws", "lifeboat.io/directory"]);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        let schemes: Vec<&str> = built_in().iter().flat_map(|provider| provider.url_schemes()).copied().collect();
        assert_eq!(schemes.iter().collect::<BTreeSet<_>>().len(), schemes.len());
        for provider in built_in() {
            for name in provider.names() {
                assert_eq!(find(name).unwrap().names(), provider.names());
            }
        }
        assert!(find("azure").is_none());
    }

    #[test]
    fn every_name_and_key_stands_on_the_page_of_providers() {
        let page = include_str!("../../../docs/providers.md");
        for provider in built_in() {
            for word in provider.names().iter().chain(provider.config_keys()) {
                assert!(page.contains(&format!("`{word}`")), "docs/providers.md does not tell of {word}");
            }
        }
    }
}
