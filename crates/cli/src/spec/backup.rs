//! What to back up.

use super::config_map;
use crate::flags::{self, List, OrSelectors, Pairs};
use clap::Args;
use lifeboat_api::{Backup, BackupType, Duration, LabelSelector, UploaderConfigForBackup};

/// What to back up: the flags of `velero backup create`.
#[derive(Debug, Args)]
pub(crate) struct BackupSpecArgs {
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
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    include_cluster_resources: Option<bool>,
    /// Only objects with these labels
    #[arg(long, short = 'l', value_parser = flags::selector, value_name = "SELECTOR")]
    selector: Option<LabelSelector>,
    /// Only objects that match one of the selectors, joined by ' or '
    #[arg(long, value_parser = flags::or_selectors, value_name = "SELECTORS")]
    or_selector: Option<OrSelectors>,
    /// Objects to save first, as TYPE=NAMESPACE/NAME,NAMESPACE/NAME;TYPE=NAME
    #[arg(long, value_parser = flags::ordered_resources, value_name = "ORDER")]
    ordered_resources: Option<Pairs>,
    /// Labels for the backup
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    labels: Option<Pairs>,
    /// Annotations for the backup
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    annotations: Option<Pairs>,
    /// How long to keep the backup, such as 720h
    #[arg(long, value_parser = flags::duration, default_value = "0s", value_name = "DURATION")]
    ttl: Duration,
    /// The name of the storage location, as the backup's record has it; the server's default when left out
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    storage_location: String,
    /// Where native snapshots go (refused by this version)
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    volume_snapshot_locations: Vec<String>,
    /// How long to wait for a CSI snapshot; the server's default when 0
    #[arg(long, value_parser = flags::duration, default_value = "0s", value_name = "DURATION")]
    csi_snapshot_timeout: Duration,
    /// How long asynchronous operations may take; the server's default when 0
    #[arg(long, value_parser = flags::duration, default_value = "0s", value_name = "DURATION")]
    item_operation_timeout: Duration,
    /// A ConfigMap with resource policies (refused by this version)
    #[arg(long, value_name = "NAME")]
    resource_policies_configmap: Option<String>,
    /// Which data mover moves snapshot data: velero, velero-fs, velero-block or another one's name
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    data_mover: String,
    /// Whether data is moved in full or incrementally
    #[arg(long, value_parser = flags::backup_type, value_name = "Full|Incremental")]
    backup_type: Option<BackupType>,
    /// Files of a volume uploaded at once; the node agent's default when 0
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..), value_name = "N")]
    parallel_files_upload: i64,
    /// Take snapshots of volumes (this version takes none and says so for each volume)
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    snapshot_volumes: Option<bool>,
    /// Move snapshot data to the repository (refused by this version)
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    snapshot_move_data: Option<bool>,
    /// Save volumes through the file system (refused by this version)
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    default_volumes_to_fs_backup: Option<bool>,
}

impl BackupSpecArgs {
    /// Puts the flags into a Backup.
    pub(crate) fn apply(&self, backup: &mut Backup) {
        let list = |given: &Option<List>| given.clone().unwrap_or_default().0;
        let pairs = |given: &Option<Pairs>| given.clone().unwrap_or_default().0;
        backup.metadata.labels = pairs(&self.labels);
        backup.metadata.annotations = pairs(&self.annotations);
        let spec = &mut backup.spec;
        spec.included_namespaces.clone_from(&self.include_namespaces.0);
        spec.excluded_namespaces = list(&self.exclude_namespaces);
        spec.included_resources = list(&self.include_resources);
        spec.excluded_resources = list(&self.exclude_resources);
        spec.included_cluster_scoped_resources = list(&self.include_cluster_scoped_resources);
        spec.excluded_cluster_scoped_resources = list(&self.exclude_cluster_scoped_resources);
        spec.included_namespace_scoped_resources = list(&self.include_namespace_scoped_resources);
        spec.excluded_namespace_scoped_resources = list(&self.exclude_namespace_scoped_resources);
        spec.include_cluster_resources = self.include_cluster_resources;
        spec.label_selector.clone_from(&self.selector);
        spec.or_label_selectors = self.or_selector.clone().unwrap_or_default().0;
        spec.ordered_resources = pairs(&self.ordered_resources);
        spec.ttl = self.ttl;
        spec.snapshot_volumes = self.snapshot_volumes;
        spec.snapshot_move_data = self.snapshot_move_data;
        spec.default_volumes_to_fs_backup = self.default_volumes_to_fs_backup;
        spec.storage_location.clone_from(&self.storage_location);
        spec.volume_snapshot_locations.clone_from(&self.volume_snapshot_locations);
        spec.csi_snapshot_timeout = self.csi_snapshot_timeout;
        spec.item_operation_timeout = self.item_operation_timeout;
        spec.resource_policy = self.resource_policies_configmap.as_deref().map(config_map);
        spec.data_mover.clone_from(&self.data_mover);
        spec.backup_type = self.backup_type;
        spec.uploader_config = (self.parallel_files_upload > 0)
            .then_some(UploaderConfigForBackup { parallel_files_upload: self.parallel_files_upload });
    }
}
