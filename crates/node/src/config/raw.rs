//! The JSON of the ConfigMap as it is written.

use super::security::RawSecurity;
use lifeboat_api::LabelSelector;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawConfig {
    pub(super) load_concurrency: Option<RawConcurrency>,
    pub(super) prepare_queue_length: Option<i64>,
    pub(super) load_affinity: Option<Vec<RawAffinity>>,
    #[serde(rename = "backupPVC")]
    pub(super) backup_pvc: Option<BTreeMap<String, RawBackupClaim>>,
    #[serde(rename = "restorePVC")]
    pub(super) restore_pvc: Option<RawRestoreClaim>,
    pub(super) pod_resources: Option<RawResources>,
    pub(super) priority_class_name: String,
    pub(super) privileged_fs_backup: bool,
    #[serde(rename = "cachePVC")]
    pub(super) cache_pvc: Option<RawCache>,
    pub(super) pod_labels: Option<BTreeMap<String, String>>,
    pub(super) pod_annotations: Option<BTreeMap<String, String>>,
    pub(super) csi_snapshot_metadata_service_configs: Option<RawSnapshotMetadata>,
    pub(super) movers: RawSecurity,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawConcurrency {
    pub(super) global_config: Option<i64>,
    pub(super) per_node_config: Option<Vec<RawNodeRule>>,
    pub(super) prepare_queue_length: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawNodeRule {
    pub(super) node_selector: LabelSelector,
    pub(super) number: i64,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawAffinity {
    pub(super) node_selector: LabelSelector,
    pub(super) storage_class: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawBackupClaim {
    pub(super) storage_class: String,
    pub(super) read_only: bool,
    pub(super) spc_no_relabeling: bool,
    pub(super) annotations: Option<BTreeMap<String, String>>,
    pub(super) secret_names: Option<Vec<String>>,
    pub(super) config_map_names: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawRestoreClaim {
    pub(super) ignore_delay_binding: bool,
    pub(super) secret_names: Option<Vec<String>>,
    pub(super) config_map_names: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawResources {
    pub(super) cpu_request: String,
    pub(super) cpu_limit: String,
    pub(super) memory_request: String,
    pub(super) memory_limit: String,
    pub(super) ephemeral_storage_request: String,
    pub(super) ephemeral_storage_limit: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawCache {
    pub(super) storage_class: String,
    #[serde(rename = "residentThresholdInMB")]
    pub(super) resident_threshold_in_mb: Option<i64>,
    #[serde(rename = "thresholdInGB")]
    pub(super) threshold_in_gb: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawSnapshotMetadata {
    pub(super) sa_name: String,
}
