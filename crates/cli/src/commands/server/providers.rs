//! Storage of locations: the providers that are built in, or plugins.

use super::plugins::Plugins;
use anyhow::{Context, Result};
use async_trait::async_trait;
use lifeboat_api::BackupStorageLocation;
use lifeboat_api::well_known::PROVIDER_DIRECTORY;
use lifeboat_bucket::{BlobStore, Gates, Prefixed, StorageAccess};
use lifeboat_control::Providers;
use lifeboat_provider::ProviderSettings;
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
        let store: Arc<dyn BlobStore> = match (lifeboat_provider::find(name), &self.plugins) {
            _ if name.is_empty() => return Err("object storage provider name must not be empty".to_owned()),
            (_, Some(plugins)) if plugins.has_store(name) => plugins.object_store(location, access).await?,
            (Some(provider), _) => provider.open(location, access, &self.settings).await?,
            (None, plugins) => {
                let elsewhere = match plugins {
                    Some(_) => "no plugin of this server has it: add it with `plugin add IMAGE`",
                    None => "those of plugins are known to the server alone",
                };
                let built_in = lifeboat_provider::plugin_names().join(" and ");
                return Err(format!("there is no provider {name:?}: built in are {built_in}, and {elsewhere}"));
            }
        };
        let prefix = location.spec.object_storage.prefix.trim_matches('/');
        Ok(if prefix.is_empty() { store } else { Arc::new(Prefixed::new(store, format!("{prefix}/"))) })
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
