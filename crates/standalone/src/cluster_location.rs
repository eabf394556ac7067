//! The storage locations of the cluster, opened on this machine: with the credentials that the user's rights let it read.

use anyhow::{Result, anyhow, bail};
use lifeboat_api::BackupStorageLocation;
use lifeboat_bucket::{BlobStore, Gates};
use lifeboat_client::Client;
use lifeboat_provider::{ProviderSettings, open_location};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::errors::missing;
use std::path::PathBuf;
use std::sync::Arc;

/// The storage location of this name, or the default one when none is named.
pub(crate) async fn location(location: &str, client: &Client) -> Result<BackupStorageLocation> {
    let found = if location.is_empty() {
        let locations: Vec<BackupStorageLocation> = client.list("").await?;
        locations.into_iter().find(|location| location.spec.default)
    } else {
        client.get::<BackupStorageLocation>(location).await?
    };
    match found {
        Some(found) => Ok(found),
        None if location.is_empty() => bail!("no storage location is the default one: name one"),
        None => Err(missing::<BackupStorageLocation>(location)),
    }
}

/// Opens the bucket of this storage location.
///
/// # Errors
/// When its credentials cannot be read, or this machine does not reach it.
pub(crate) async fn open_location_here(
    found: &BackupStorageLocation,
    client: &Client,
    globals: &Globals,
) -> Result<Arc<dyn BlobStore>> {
    // Whatever the user may read on this machine.
    let directory_root = Some(PathBuf::from("/"));
    let settings = ProviderSettings { directory_root, gates: Gates::default(), patience: globals.patience() };
    let opened = async {
        let access = client.storage_access(found).await?;
        open_location(found, access, &settings, "those of plugins are known to the server alone").await
    };
    opened.await.map_err(|why: String| {
        anyhow!("the storage location {:?} cannot be read from here: {why}", found.metadata.name)
    })
}
