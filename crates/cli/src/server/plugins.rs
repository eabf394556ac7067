//! The plugins of the server: those that are built in.

use async_trait::async_trait;
use lifeboat_action::{Actions, VolumeSnapshotter};
use lifeboat_api::{PluginInfo, VolumeSnapshotLocation};
use lifeboat_control::{Extensions, NoPlugins};
use lifeboat_operation::Journal;
use std::sync::Arc;

/// What is built in.
#[derive(Debug)]
pub(crate) struct Plugins;

#[async_trait]
impl Extensions for Plugins {
    async fn actions(&self, journal: &Journal) -> Result<Actions, String> {
        NoPlugins.actions(journal).await
    }

    async fn volume_snapshotter(
        &self,
        location: &VolumeSnapshotLocation,
        credentials: Option<Vec<u8>>,
        journal: &Journal,
    ) -> Result<Arc<dyn VolumeSnapshotter>, String> {
        NoPlugins.volume_snapshotter(location, credentials, journal).await
    }

    fn plugins(&self) -> Vec<PluginInfo> {
        built_in().map(|(kind, name)| PluginInfo { name: name.to_owned(), kind: kind.to_owned() }).collect()
    }
}

/// Kinds and names of what is built in, in Velero's order (plugin-protocol.md 5).
pub(crate) fn built_in() -> impl Iterator<Item = (&'static str, &'static str)> {
    let kinds: [(&str, &[&str]); 7] = [
        ("BackupItemAction", &lifeboat_backup::BUILT_IN_ACTIONS),
        ("BackupItemActionV2", &lifeboat_volume::csi::BACKUP_ACTIONS),
        ("ObjectStore", &["velero.io/aws", super::providers::DIRECTORY]),
        ("RestoreItemAction", &lifeboat_restore::BUILT_IN_ACTIONS),
        ("RestoreItemActionV2", &lifeboat_volume::csi::RESTORE_ACTIONS),
        ("DeleteItemAction", &lifeboat_volume::csi::DELETE_ACTIONS),
        ("ItemBlockAction", &lifeboat_backup::BUILT_IN_BLOCK_ACTIONS),
    ];
    kinds.into_iter().flat_map(|(kind, names)| names.iter().map(move |name| (kind, *name)))
}
