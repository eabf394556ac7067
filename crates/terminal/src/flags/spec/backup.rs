//! Contents of a backup.

use super::config_map::config_map;
use crate::flags::{self, KeyValuePairs, List, Optional, OrSelectors};
use clap::Args;
use lifeboat_api::{Backup, BackupType, Duration, LabelSelector, UploaderConfigForBackup, VolumeGroupFallback};

/// Contents of a backup: the flags of `velero backup create`.
#[derive(Debug, Args)]
pub struct BackupSpecArgs {
    /// Namespaces to include; use '*' for all
    #[arg(long, value_parser = flags::list, default_value = "*", value_name = "NAMES")]
    include_namespaces: List,
    /// Namespaces to exclude
    #[arg(long, value_parser = flags::list, value_name = "NAMES")]
    exclude_namespaces: Option<List>,
    /// Types to include, such as deployments.apps; all when left out
    #[arg(long, value_parser = flags::list, value_name = "TYPES")]
    include_resources: Option<List>,
    /// Types to exclude
    #[arg(long, value_parser = flags::list, value_name = "TYPES")]
    exclude_resources: Option<List>,
    /// Cluster-scoped types to include
    #[arg(long, value_parser = flags::list, value_name = "TYPES")]
    include_cluster_scoped_resources: Option<List>,
    /// Cluster-scoped types to exclude
    #[arg(long, value_parser = flags::list, value_name = "TYPES")]
    exclude_cluster_scoped_resources: Option<List>,
    /// Namespaced types to include
    #[arg(long, value_parser = flags::list, value_name = "TYPES")]
    include_namespace_scoped_resources: Option<List>,
    /// Namespaced types to exclude
    #[arg(long, value_parser = flags::list, value_name = "TYPES")]
    exclude_namespace_scoped_resources: Option<List>,
    /// Include cluster-scoped types: true, false, or as needed when left out
    #[arg(long, default_value = "")]
    include_cluster_resources: Optional<bool>,
    /// Only objects with these labels
    #[arg(long, short = 'l', value_parser = flags::selector, value_name = "SELECTOR")]
    selector: Option<LabelSelector>,
    /// Only objects that match one of the selectors, joined by ' or '
    #[arg(long, value_parser = flags::or_selectors, value_name = "SELECTORS")]
    or_selector: Option<OrSelectors>,
    /// Objects to save first, as TYPE=NAMESPACE/NAME,NAMESPACE/NAME;TYPE=NAME
    #[arg(long, value_parser = flags::ordered_resources, value_name = "ORDER")]
    ordered_resources: Option<KeyValuePairs>,
    /// Labels for the backup
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    labels: Vec<KeyValuePairs>,
    /// Annotations for the backup
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    annotations: Vec<KeyValuePairs>,
    /// Time for which the backup is kept, such as 720h; the server's default when 0
    #[arg(long, value_parser = flags::duration, default_value = "0s", value_name = "DURATION")]
    ttl: Duration,
    /// The name of the storage location, as the backup's record has it; the server's default when left out
    #[arg(long, default_value = "", value_name = "NAME")]
    storage_location: String,
    /// Locations of native snapshots, at most one of each provider. The server checks and records them, and takes no
    /// snapshots yet; `local backup` refuses them
    #[arg(long, value_parser = flags::strings, value_name = "NAMES")]
    volume_snapshot_locations: Vec<List>,
    /// Longest wait for a CSI snapshot; 10 minutes when 0
    #[arg(long, value_parser = flags::duration, default_value = "0s", value_name = "DURATION")]
    csi_snapshot_timeout: Duration,
    /// Longest time for asynchronous operations, past which DataUploads and DataDownloads go on while bytes are moved; the server's
    /// default when 0
    #[arg(long, value_parser = flags::duration, default_value = "0s", value_name = "DURATION")]
    item_operation_timeout: Duration,
    /// A ConfigMap with resource policies
    #[arg(long, default_value = "", value_name = "NAME")]
    resource_policies_configmap: String,
    /// Which data mover moves snapshot data: velero, which node agents are, or another one's name
    #[arg(long, default_value = "", value_name = "NAME")]
    data_mover: String,
    /// Move data in full or incrementally. Recorded, without effect: each volume is compared with its last snapshot
    #[arg(long, value_parser = flags::optional(flags::backup_type), default_value = "", value_name = "Full|Incremental")]
    backup_type: Optional<BackupType>,
    /// Files of a volume uploaded at once; the node agent's default when 0.
    #[arg(long, default_value_t = 0, value_name = "N")]
    parallel_files_upload: i64,
    /// Take snapshots of volumes that no policy and no pod says anything else of; volume explain says what comes of it
    #[arg(long, default_value = "")]
    snapshot_volumes: Optional<bool>,
    /// Move the data of CSI snapshots into the repository, by a node agent (`install --use-node-agent`)
    #[arg(long, default_value = "")]
    snapshot_move_data: Optional<bool>,
    /// Save volumes through the file system, by a node agent (`install --use-node-agent`)
    #[arg(long, default_value = "")]
    default_volumes_to_fs_backup: Optional<bool>,
    /// Fallback for claims that cannot be snapshotted as a group: single takes a snapshot of each by itself, of
    /// different moments. Otherwise their data is not saved, which is an error of each
    #[arg(long, value_parser = flags::optional(flags::volume_group_fallback), default_value = "", value_name = "single")]
    volume_group_fallback: Optional<VolumeGroupFallback>,
    /// Make the backup though the data of some volumes cannot be saved as asked; they are named in its results
    #[arg(long)]
    allow_unprotected: bool,
}

impl BackupSpecArgs {
    /// Puts the flags into a Backup.
    pub fn apply(&self, backup: &mut Backup) {
        let list = |given: &Option<List>| given.clone().unwrap_or_default().0;
        backup.metadata.labels = flags::merged(&self.labels);
        backup.metadata.annotations = flags::merged(&self.annotations);
        let spec = &mut backup.spec;
        spec.included_namespaces.clone_from(&self.include_namespaces.0);
        spec.excluded_namespaces = list(&self.exclude_namespaces);
        spec.included_resources = list(&self.include_resources);
        spec.excluded_resources = list(&self.exclude_resources);
        spec.included_cluster_scoped_resources = list(&self.include_cluster_scoped_resources);
        spec.excluded_cluster_scoped_resources = list(&self.exclude_cluster_scoped_resources);
        spec.included_namespace_scoped_resources = list(&self.include_namespace_scoped_resources);
        spec.excluded_namespace_scoped_resources = list(&self.exclude_namespace_scoped_resources);
        spec.include_cluster_resources = *self.include_cluster_resources;
        spec.label_selector.clone_from(&self.selector);
        spec.or_label_selectors = self.or_selector.clone().unwrap_or_default().0;
        spec.ordered_resources = self.ordered_resources.clone().unwrap_or_default().0;
        spec.ttl = self.ttl;
        spec.snapshot_volumes = *self.snapshot_volumes;
        spec.snapshot_move_data = *self.snapshot_move_data;
        spec.default_volumes_to_fs_backup = *self.default_volumes_to_fs_backup;
        spec.volume_group_fallback = *self.volume_group_fallback;
        spec.allow_unprotected = self.allow_unprotected;
        spec.storage_location.clone_from(&self.storage_location);
        spec.volume_snapshot_locations = flags::joined(&self.volume_snapshot_locations);
        spec.csi_snapshot_timeout = self.csi_snapshot_timeout;
        spec.item_operation_timeout = self.item_operation_timeout;
        spec.resource_policy = config_map(&self.resource_policies_configmap);
        spec.data_mover.clone_from(&self.data_mover);
        spec.backup_type = *self.backup_type;
        spec.uploader_config = (self.parallel_files_upload > 0).then_some(UploaderConfigForBackup {
            parallel_files_upload: self.parallel_files_upload,
            ..UploaderConfigForBackup::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::spec::tests::parsed;
    use serde_json::{Value, json};

    /// Returns the Backup that the flags make, without the fields that every Backup has.
    fn made(line: &str) -> Value {
        let mut backup = Backup::default();
        parsed::<BackupSpecArgs>(line).apply(&mut backup);
        let mut object = serde_json::to_value(&backup).unwrap();
        assert_eq!(object["spec"]["includedNamespaces"], json!(["*"]), "{line}");
        let mut spec = object["spec"].take();
        let always = ["includedNamespaces", "metadata", "ttl", "csiSnapshotTimeout", "itemOperationTimeout", "hooks"];
        spec.as_object_mut().unwrap().retain(|key, _| !always.contains(&key.as_str()));
        let (labels, annotations) = (&object["metadata"]["labels"], &object["metadata"]["annotations"]);
        json!({"labels": labels, "annotations": annotations, "spec": spec})
    }

    #[test]
    fn flags_make_the_spec() {
        let of = |spec: Value| json!({"labels": null, "annotations": null, "spec": spec});
        for (line, expected) in [
            ("", of(json!({}))),
            (
                "--labels a=b,c=d --labels c=e --annotations x=y",
                json!({
                    "labels": {"a": "b", "c": "e"}, "annotations": {"x": "y"}, "spec": {}
                }),
            ),
            ("--exclude-resources a,b --exclude-resources c", of(json!({"excludedResources": ["c"]}))),
            (
                "--volume-snapshot-locations a,b --volume-snapshot-locations= --volume-snapshot-locations c",
                of(json!({"volumeSnapshotLocations": ["a", "b", "c"]})),
            ),
            ("--ordered-resources pods=a --ordered-resources pods=b", of(json!({"orderedResources": {"pods": "b"}}))),
            (
                "--include-cluster-resources --snapshot-volumes=0",
                of(json!({
                    "includeClusterResources": true, "snapshotVolumes": false
                })),
            ),
            ("--include-cluster-resources --include-cluster-resources=", of(json!({}))),
            ("--backup-type INCREMENTAL --backup-type= --backup-type full", of(json!({"backupType": "Full"}))),
            ("--backup-type= --resource-policies-configmap= --storage-location= --data-mover=", of(json!({}))),
            ("--labels= --include-resources= --ordered-resources=", of(json!({}))),
            ("--parallel-files-upload -1", of(json!({}))),
            ("--volume-group-fallback single", of(json!({"volumeGroupFallback": "single"}))),
            ("--volume-group-fallback single --volume-group-fallback=", of(json!({}))),
            (
                "--parallel-files-upload 2 --resource-policies-configmap p",
                of(json!({
                    "uploaderConfig": {"parallelFilesUpload": 2}, "resourcePolicy": {"apiGroup": null, "kind": "configmap", "name": "p"}
                })),
            ),
        ] {
            assert_eq!(made(line), expected, "{line}");
        }
    }
}
