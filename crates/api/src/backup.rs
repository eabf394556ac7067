//! The `Backup` resource (api-and-controllers.md 1.2).

use crate::{API_VERSION, Duration, LabelSelector, ObjectMeta, Time, TypedLocalObjectReference};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A backup: what to save, and how far that came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backup {
    /// `Backup`.
    pub kind: String,
    /// `velero.io/v1`.
    pub api_version: String,
    /// Metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What to save.
    #[serde(default)]
    pub spec: BackupSpec,
    /// How far it came.
    #[serde(default)]
    pub status: BackupStatus,
}

impl Default for Backup {
    fn default() -> Self {
        Self {
            kind: "Backup".to_owned(),
            api_version: API_VERSION.to_owned(),
            metadata: ObjectMeta::default(),
            spec: BackupSpec::default(),
            status: BackupStatus::default(),
        }
    }
}

/// What to save.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupSpec {
    /// Labels and annotations for the backups of a schedule.
    #[serde(default)]
    pub metadata: TemplateMetadata,
    /// Namespaces to save; empty or `*` for all; globs allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub included_namespaces: Vec<String>,
    /// Namespaces to leave out.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub excluded_namespaces: Vec<String>,
    /// Types to save, both scopes (old-style filter).
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub included_resources: Vec<String>,
    /// Types to leave out, both scopes (old-style filter).
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub excluded_resources: Vec<String>,
    /// Cluster-scoped types to save.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub included_cluster_scoped_resources: Vec<String>,
    /// Cluster-scoped types to leave out.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub excluded_cluster_scoped_resources: Vec<String>,
    /// Namespaced types to save; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub included_namespace_scoped_resources: Vec<String>,
    /// Namespaced types to leave out.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub excluded_namespace_scoped_resources: Vec<String>,
    /// Objects must match; exclusive with `or_label_selectors`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Objects must match one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub or_label_selectors: Vec<LabelSelector>,
    /// Whether volumes are snapshotted; unset means yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_volumes: Option<bool>,
    /// How long to keep the backup; zero for the default.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub ttl: Duration,
    /// Label of claims that are snapshotted as a group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub volume_group_snapshot_label_key: String,
    /// Whether cluster-scoped types are saved; unset means as needed (old-style filter).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_cluster_resources: Option<bool>,
    /// Commands to run in pods.
    #[serde(default)]
    pub hooks: BackupHooks,
    /// Where to put the backup; empty for the default location.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub storage_location: String,
    /// Where native snapshots go.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub volume_snapshot_locations: Vec<String>,
    /// Deprecated name of `default_volumes_to_fs_backup`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_volumes_to_restic: Option<bool>,
    /// Whether volumes are saved through the file system unless a pod opts out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_volumes_to_fs_backup: Option<bool>,
    /// Objects of a type to save first, in this order: type to `namespace/name,…`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "crate::meta::null_default")]
    pub ordered_resources: BTreeMap<String, String>,
    /// How long to wait for a CSI snapshot; zero for the default.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub csi_snapshot_timeout: Duration,
    /// How long asynchronous operations may take; zero for the default.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub item_operation_timeout: Duration,
    /// A ConfigMap with resource policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_policy: Option<TypedLocalObjectReference>,
    /// Whether the data of CSI snapshots is moved to the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_move_data: Option<bool>,
    /// Which data mover.
    #[serde(default, rename = "datamover", skip_serializing_if = "String::is_empty")]
    pub data_mover: String,
    /// Whether data is moved in full or incrementally.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_type: Option<BackupType>,
    /// Settings of the uploader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uploader_config: Option<UploaderConfigForBackup>,
}

/// Labels and annotations of a schedule's template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateMetadata {
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "crate::meta::null_default")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "crate::meta::null_default")]
    pub annotations: BTreeMap<String, String>,
}

/// `Full` or `Incremental`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BackupType {
    /// Without a parent snapshot.
    Full,
    /// On top of the latest snapshot.
    Incremental,
}

/// Settings of the uploader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UploaderConfigForBackup {
    /// Files uploaded at once; zero for the default.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parallel_files_upload: i64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(n: &i64) -> bool {
    *n == 0
}

/// Commands to run in pods around their backup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BackupHooks {
    /// Which commands in which pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub resources: Vec<BackupResourceHookSpec>,
}

/// Commands for the pods that match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupResourceHookSpec {
    /// Name of the hook.
    pub name: String,
    /// Namespaces of the pods; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub included_namespaces: Vec<String>,
    /// Namespaces to leave out.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub excluded_namespaces: Vec<String>,
    /// Types; only pods make sense.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub included_resources: Vec<String>,
    /// Types to leave out.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub excluded_resources: Vec<String>,
    /// Labels of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Before the pod is saved.
    #[serde(
        default,
        rename = "pre",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::meta::null_default"
    )]
    pub pre_hooks: Vec<BackupResourceHook>,
    /// After the pod was saved.
    #[serde(
        default,
        rename = "post",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::meta::null_default"
    )]
    pub post_hooks: Vec<BackupResourceHook>,
}

/// One hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupResourceHook {
    /// A command in a container.
    pub exec: ExecHook,
}

/// A command in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecHook {
    /// The container; empty for the first.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub container: String,
    /// The command.
    pub command: Vec<String>,
    /// What a failure means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<HookErrorMode>,
    /// How long it may take; zero for the default.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub timeout: Duration,
}

/// What the failure of a hook means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HookErrorMode {
    /// Record it and go on.
    Continue,
    /// Give the pod up.
    Fail,
}

/// Phase of a backup; absent means `New`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the words are Velero's")]
pub enum BackupPhase {
    New,
    Queued,
    ReadyToStart,
    FailedValidation,
    InProgress,
    WaitingForPluginOperations,
    WaitingForPluginOperationsPartiallyFailed,
    Finalizing,
    FinalizingPartiallyFailed,
    Completed,
    PartiallyFailed,
    Failed,
    Deleting,
}

/// How far a backup came.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupStatus {
    /// Always 1 (deprecated).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub version: i64,
    /// Version of the archive's layout.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub format_version: String,
    /// When it may be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiration: Option<Time>,
    /// Phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<BackupPhase>,
    /// Place in the queue, from 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub queue_position: i64,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub validation_errors: Vec<String>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_timestamp: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_timestamp: Option<Time>,
    /// Native snapshots tried.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub volume_snapshots_attempted: i64,
    /// Native snapshots made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub volume_snapshots_completed: i64,
    /// Why it failed as a whole.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failure_reason: String,
    /// Warnings.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warnings: i64,
    /// Errors.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub errors: i64,
    /// Objects done and in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<BackupProgress>,
    /// CSI snapshots tried.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub csi_volume_snapshots_attempted: i64,
    /// CSI snapshots made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub csi_volume_snapshots_completed: i64,
    /// Asynchronous operations begun.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub backup_item_operations_attempted: i64,
    /// Asynchronous operations that ended well.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub backup_item_operations_completed: i64,
    /// Asynchronous operations that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub backup_item_operations_failed: i64,
    /// Hooks run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook_status: Option<HookStatus>,
}

/// Objects done and in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupProgress {
    /// In all, as far as known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub total_items: i64,
    /// Done.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub items_backed_up: i64,
}

/// Hooks run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookStatus {
    /// Tried.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hooks_attempted: i64,
    /// Failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hooks_failed: i64,
}
