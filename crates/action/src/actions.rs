//! The actions that an operation is given.

use crate::{
    BackupItemAction, DeleteItemAction, ItemBlockAction, RestoreItemAction, VolumeRepositories, VolumeSnapshotter,
};
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
    /// The repositories in the storage location of a backup that is being deleted; `None` where nothing can open them.
    pub repositories: Option<Arc<dyn VolumeRepositories>>,
}

/// Part of the names of all actions of Velero's CSI plugin.
const OF_CSI: &str = "velero.io/csi-";

impl Actions {
    /// Takes out those that are called only while the feature `EnableCSI` is on, and gives their names
    /// (velero: pkg/backup/item_backupper.go).
    ///
    /// compat: the name decides, so that a server whose image still has the old CSI plugin does not take snapshots in two ways.
    pub fn leave_out_csi(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        let mut stays = |name: &str| {
            let is_of_csi = name.contains(OF_CSI);
            if is_of_csi {
                names.push(name.to_owned());
            }
            !is_of_csi
        };
        self.backup_item.retain(|action| stays(action.name()));
        self.restore_item.retain(|action| stays(action.name()));
        names
    }
}

/// The snapshotter of a snapshot location.
#[derive(Clone)]
pub struct LocatedSnapshotter {
    /// The name of its VolumeSnapshotLocation, which the records of its snapshots have.
    pub location: String,
    /// The snapshotter, initialised with the configuration of that location.
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
            .field("repositories", &self.repositories.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ActionError, ActionScope, BackupItemInput, BackupItemOutput, RestoreItemInput, RestoreItemOutput};
    use async_trait::async_trait;
    use lifeboat_api::Backup;
    use serde_json::Value;

    struct Named(&'static str);

    #[async_trait]
    impl BackupItemAction for Named {
        fn name(&self) -> &str {
            self.0
        }

        fn applies_to(&self) -> ActionScope {
            ActionScope::default()
        }

        async fn execute(&self, input: BackupItemInput<'_>) -> Result<BackupItemOutput, ActionError> {
            Ok(BackupItemOutput::unchanged(input.item))
        }
    }

    #[async_trait]
    impl RestoreItemAction for Named {
        fn name(&self) -> &str {
            self.0
        }

        fn applies_to(&self) -> ActionScope {
            ActionScope::default()
        }

        async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
            Ok(RestoreItemOutput::with(input.item))
        }
    }

    #[async_trait]
    impl DeleteItemAction for Named {
        fn name(&self) -> &str {
            self.0
        }

        fn applies_to(&self) -> ActionScope {
            ActionScope::default()
        }

        async fn execute(&self, _: &Value, _: &Backup) -> Result<(), ActionError> {
            Ok(())
        }
    }

    #[test]
    fn without_the_csi_feature_actions_with_csi_plugin_names_are_left_out() {
        let mut actions = Actions {
            backup_item: vec![
                Arc::new(Named("velero.io/csi-pvc-backupper")),
                Arc::new(Named("example.com/csi-pvc-backupper")),
                Arc::new(Named("velero.io/vsphere-pvc-backupper")),
            ],
            restore_item: vec![Arc::new(Named("a")), Arc::new(Named("my-velero.io/csi-x"))],
            delete_item: vec![Arc::new(Named("velero.io/csi-volumesnapshot-delete"))],
            ..Actions::default()
        };
        assert_eq!(actions.leave_out_csi(), ["velero.io/csi-pvc-backupper", "my-velero.io/csi-x"]);
        let names: Vec<&str> = actions.backup_item.iter().map(|action| action.name()).collect();
        assert_eq!(names, ["example.com/csi-pvc-backupper", "velero.io/vsphere-pvc-backupper"]);
        let names: Vec<&str> = actions.restore_item.iter().map(|action| action.name()).collect();
        assert_eq!(names, ["a"]);
        assert_eq!(actions.delete_item.len(), 1);
    }
}
