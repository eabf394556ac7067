//! The `Restore` resource (api-and-controllers.md 1.3).

use crate::{
    API_VERSION, Duration, HookErrorMode, HookStatus, LabelSelector, ObjectMeta, Time, TypedLocalObjectReference,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A restore: what to bring back, and how far that came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Restore {
    /// `Restore`.
    pub kind: String,
    /// `velero.io/v1`.
    pub api_version: String,
    /// Metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What to bring back.
    #[serde(default)]
    pub spec: RestoreSpec,
    /// How far it came.
    #[serde(default)]
    pub status: RestoreStatus,
}

impl Default for Restore {
    fn default() -> Self {
        Self {
            kind: "Restore".to_owned(),
            api_version: API_VERSION.to_owned(),
            metadata: ObjectMeta::default(),
            spec: RestoreSpec::default(),
            status: RestoreStatus::default(),
        }
    }
}

/// What to bring back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreSpec {
    /// The backup to restore from; exclusive with `schedule_name`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub backup_name: String,
    /// The schedule whose newest backup to restore from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub schedule_name: String,
    /// Namespaces to restore; empty or `*` for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub included_namespaces: Vec<String>,
    /// Namespaces to leave out.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub excluded_namespaces: Vec<String>,
    /// Types to restore; empty or `*` for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub included_resources: Vec<String>,
    /// Types to leave out.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub excluded_resources: Vec<String>,
    /// Source namespace to target namespace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "crate::meta::null_default")]
    pub namespace_mapping: BTreeMap<String, String>,
    /// Objects must match; exclusive with `or_label_selectors`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Objects must match one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub or_label_selectors: Vec<LabelSelector>,
    /// Whether volumes are restored from snapshots; unset means yes.
    #[serde(default, rename = "restorePVs", skip_serializing_if = "Option::is_none")]
    pub restore_pvs: Option<bool>,
    /// Which types get their status back; unset for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_status: Option<RestoreStatusSpec>,
    /// Whether node ports are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserve_node_ports: Option<bool>,
    /// Whether cluster-scoped objects are restored; unset means as needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_cluster_resources: Option<bool>,
    /// Commands and containers for restored pods.
    #[serde(default)]
    pub hooks: RestoreHooks,
    /// What to do with objects that exist: empty, `none` or `update`.
    #[serde(default, skip_serializing_if = "ExistingResourcePolicy::is_unset")]
    pub existing_resource_policy: ExistingResourcePolicy,
    /// How long asynchronous operations may take; zero for the default.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub item_operation_timeout: Duration,
    /// A ConfigMap with resource modifiers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_modifier: Option<TypedLocalObjectReference>,
    /// A ConfigMap with fine-grained filters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_policy: Option<TypedLocalObjectReference>,
    /// Whether the server's default modifiers are left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_default_resource_modifier: bool,
    /// Settings of the uploader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uploader_config: Option<UploaderConfigForRestore>,
}

/// What to do with objects that exist already.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum ExistingResourcePolicy {
    /// Not given: leave them, with a warning where they differ.
    #[default]
    Unset,
    /// Leave them, with a warning where they differ.
    None,
    /// Make them match the backup.
    Update,
    /// Some other word; validation refuses it.
    Other(String),
}

impl ExistingResourcePolicy {
    fn is_unset(&self) -> bool {
        *self == Self::Unset
    }
}

impl From<String> for ExistingResourcePolicy {
    fn from(text: String) -> Self {
        match text.as_str() {
            "" => Self::Unset,
            "none" => Self::None,
            "update" => Self::Update,
            _ => Self::Other(text),
        }
    }
}

impl From<ExistingResourcePolicy> for String {
    fn from(policy: ExistingResourcePolicy) -> Self {
        match policy {
            ExistingResourcePolicy::Unset => Self::new(),
            ExistingResourcePolicy::None => "none".to_owned(),
            ExistingResourcePolicy::Update => "update".to_owned(),
            ExistingResourcePolicy::Other(text) => text,
        }
    }
}

/// Which types get their status back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreStatusSpec {
    /// Types; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub included_resources: Vec<String>,
    /// Types to leave out.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub excluded_resources: Vec<String>,
}

/// Settings of the uploader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UploaderConfigForRestore {
    /// Whether holes are written as holes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_sparse_files: Option<bool>,
    /// Files downloaded at once; zero for the default.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parallel_files_download: i64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(n: &i64) -> bool {
    *n == 0
}

/// Commands and containers for restored pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RestoreHooks {
    /// Which hooks for which pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub resources: Vec<RestoreResourceHookSpec>,
}

/// Hooks for the pods that match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreResourceHookSpec {
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
    /// The hooks.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub post_hooks: Vec<RestoreResourceHook>,
}

/// One hook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RestoreResourceHook {
    /// A command in a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecRestoreHook>,
    /// Init containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<InitRestoreHook>,
}

/// A command in a container of a restored pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecRestoreHook {
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
    pub exec_timeout: Duration,
    /// How long to wait for the container; zero for the default.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub wait_timeout: Duration,
    /// Whether to wait until the container is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_for_ready: Option<bool>,
}

/// Init containers for a restored pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitRestoreHook {
    /// The containers, as written.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub init_containers: Vec<Value>,
    /// How long to wait.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub timeout: Duration,
}

/// Phase of a restore; absent means `New`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the words are Velero's")]
pub enum RestorePhase {
    New,
    FailedValidation,
    InProgress,
    WaitingForPluginOperations,
    WaitingForPluginOperationsPartiallyFailed,
    Completed,
    PartiallyFailed,
    Failed,
    Finalizing,
    FinalizingPartiallyFailed,
}

/// How far a restore came.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreStatus {
    /// Phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RestorePhase>,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub validation_errors: Vec<String>,
    /// Warnings.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warnings: i64,
    /// Errors.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub errors: i64,
    /// Why it failed as a whole.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failure_reason: String,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_timestamp: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_timestamp: Option<Time>,
    /// Objects done and in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<RestoreProgress>,
    /// Asynchronous operations begun.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restore_item_operations_attempted: i64,
    /// Asynchronous operations that ended well.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restore_item_operations_completed: i64,
    /// Asynchronous operations that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restore_item_operations_failed: i64,
    /// Hooks run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook_status: Option<HookStatus>,
}

/// Objects done and in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreProgress {
    /// In all, as far as known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub total_items: i64,
    /// Done.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub items_restored: i64,
}
