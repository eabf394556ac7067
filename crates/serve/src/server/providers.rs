//! Storage of locations: the providers that are built in, or plugins.

use super::plugins::Plugins;
use anyhow::{Context, Result};
use async_trait::async_trait;
use lifeboat_api::BackupStorageLocation;
use lifeboat_api::well_known::PROVIDER_DIRECTORY;
use lifeboat_bucket::{BlobStore, Gates, StorageAccess};
use lifeboat_control::Providers;
use lifeboat_provider::{ProviderSettings, below_prefix, open_location};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Opens the storage of locations: by a program where one is used, else by a built-in provider.
#[derive(Debug)]
pub(crate) struct StorageProviders {
    settings: ProviderSettings,
    /// Plugins that provide all other storage; `None` outside a server.
    plugins: Option<Arc<Plugins>>,
}

impl StorageProviders {
    pub(crate) fn new(directory_root: Option<&Path>, patience: Duration) -> Result<Self> {
        let canonical = |root: &Path| {
            root.canonicalize().with_context(|| format!("--directory-root {}: it must be there", root.display()))
        };
        let directory_root = directory_root.map(canonical).transpose()?;
        Ok(Self { settings: ProviderSettings { directory_root, gates: Gates::default(), patience }, plugins: None })
    }

    /// The same, and the object stores of plugins.
    pub(crate) fn with_plugins(self, plugins: Arc<Plugins>) -> Self {
        Self { plugins: Some(plugins), ..self }
    }
}

#[async_trait]
impl Providers for StorageProviders {
    async fn open(
        &self,
        location: &BackupStorageLocation,
        access: StorageAccess,
    ) -> Result<Arc<dyn BlobStore>, String> {
        let name = location.spec.provider.as_str();
        if let Some(plugins) = self.plugins.as_ref().filter(|plugins| plugins.has_store(name)) {
            return Ok(below_prefix(location, plugins.object_store(location, access).await?));
        }
        let others = match self.plugins {
            Some(_) => "no plugin of this server has it: add it with `plugin add IMAGE`",
            None => "those of plugins are known to the server alone",
        };
        open_location(location, access, &self.settings, others).await
    }

    fn may_keep(&self, location: &BackupStorageLocation) -> bool {
        !self.is_directory(location)
    }

    fn is_directory(&self, location: &BackupStorageLocation) -> bool {
        location.spec.provider == PROVIDER_DIRECTORY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_that_is_missing_is_refused_before_the_server_starts() {
        let folder = tempfile::tempdir().unwrap();
        let opened = |root: &Path| StorageProviders::new(Some(root), Duration::from_secs(60));
        assert!(opened(folder.path()).is_ok());
        let why = format!("{:#}", opened(&folder.path().join("missing")).unwrap_err());
        assert!(why.contains("it must be there"), "{why}");
    }
}
