//! The actions that an operation is given.

use crate::{BackupItemAction, DeleteItemAction, ItemBlockAction, RestoreItemAction, VolumeSnapshotter};
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

/// Actions that are not built into the engines, in the order in which they are called: an engine's own come before them.
#[derive(Clone, Default)]
pub struct Actions {
    /// For objects that are being saved.
    pub backup_item: Vec<Arc<dyn BackupItemAction>>,
    /// For blocks of them.
    pub item_block: Vec<Arc<dyn ItemBlockAction>>,
    /// For objects that are being restored.
    pub restore_item: Vec<Arc<dyn RestoreItemAction>>,
    /// For objects of a backup that is being deleted.
    pub delete_item: Vec<Arc<dyn DeleteItemAction>>,
    /// For volumes, in the order in which they are asked whether a volume is theirs.
    pub volume_snapshotters: Vec<LocatedSnapshotter>,
}

/// The snapshotter of a snapshot location.
#[derive(Clone)]
pub struct LocatedSnapshotter {
    /// The name of its VolumeSnapshotLocation, which the records of its snapshots have.
    pub location: String,
    /// What takes them, initialised with the configuration of that location.
    pub snapshotter: Arc<dyn VolumeSnapshotter>,
}

impl Debug for Actions {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        fn names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
            names.collect()
        }
        f.debug_struct("Actions")
            .field("backup_item", &names(self.backup_item.iter().map(|action| action.name())))
            .field("item_block", &names(self.item_block.iter().map(|action| action.name())))
            .field("restore_item", &names(self.restore_item.iter().map(|action| action.name())))
            .field("delete_item", &names(self.delete_item.iter().map(|action| action.name())))
            .field(
                "volume_snapshotters",
                &names(self.volume_snapshotters.iter().map(|located| located.location.as_str())),
            )
            .finish()
    }
}
