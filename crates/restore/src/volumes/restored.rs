//! The volumes of a restore: the ones that are provisioned anew, made from native snapshots, or come back as they are.

use crate::volumes::mounting_pods::MountingPods;
use crate::volumes::native::NativeVolumeRestore;
use crate::volumes::retained::RetainedVolumes;
use lifeboat_volume::data_movement::restore::DownloadSettings;
use lifeboat_volume::mover_pod::MoverPods;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The volumes of a restore.
#[derive(Debug)]
pub(crate) struct RestoredVolumes {
    /// Volumes that are provisioned anew.
    pub(crate) provisioned: BTreeSet<String>,
    /// Volumes that are made from native snapshots.
    pub(crate) native: NativeVolumeRestore,
    /// Volumes that come back as they are, and data that does not come.
    pub(crate) retained: RetainedVolumes,
    /// The location of the backup, from which data movers bring data.
    pub(crate) downloads: DownloadSettings,
    /// The movers that the restore starts itself.
    pub(crate) pods: Option<Arc<MoverPods>>,
    /// The pods that mount the claims which these fill.
    pub(crate) mounting: MountingPods,
}
