//! The `Restore` resource (velero: pkg/apis/velero/v1/restore_types.go).

use crate::schema::{FieldType, Schema, object, of_type, resource, words};
use crate::{Duration, HookErrorMode, HookStatus, LabelSelector, Time, TypedLocalObjectReference};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

resource! {
    /// A restore: what to bring back, and how far that came.
    Restore, "restores", "v1",
    /// The contents and options of a restore.
    RestoreSpec,
    /// The progress and the outcome.
    RestoreStatus
}

object! {
    /// The contents and options of a restore.
    pub struct RestoreSpec {
        /// The backup to restore from; exclusive with `scheduleName`.
        backup_name: String = "backupName";
        /// The schedule whose newest backup to restore from.
        schedule_name: String = "scheduleName";
        /// Namespaces to restore; empty or `*` for all.
        included_namespaces: Vec<String> = "includedNamespaces" nullable;
        /// Namespaces to leave out.
        excluded_namespaces: Vec<String> = "excludedNamespaces" nullable;
        /// Types to restore; empty or `*` for all.
        included_resources: Vec<String> = "includedResources" nullable;
        /// Types to leave out.
        excluded_resources: Vec<String> = "excludedResources" nullable;
        /// Source namespace to target namespace.
        namespace_mapping: BTreeMap<String, String> = "namespaceMapping";
        /// Objects must match; exclusive with `orLabelSelectors`.
        label_selector: Option<LabelSelector> = "labelSelector" nullable;
        /// Objects must match one of these.
        or_label_selectors: Vec<LabelSelector> = "orLabelSelectors" nullable;
        /// Set to false when no volumes are restored from snapshots; unset means true.
        restore_pvs: Option<bool> = "restorePVs" nullable;
        /// Which types get their status back; unset for none.
        restore_status: Option<RestoreStatusSpec> = "restoreStatus" nullable;
        /// True when node ports are kept.
        preserve_node_ports: Option<bool> = "preserveNodePorts" nullable;
        /// True when cluster-scoped objects are restored; unset means as needed.
        include_cluster_resources: Option<bool> = "includeClusterResources" nullable;
        /// Commands and containers for restored pods.
        hooks: RestoreHooks = "hooks";
        /// The treatment of objects that exist already: empty, `none`, `update`, `recreate` or `exact`.
        existing_resource_policy: ExistingResourcePolicy = "existingResourcePolicy" nullable;
        /// The treatment of some of the objects that exist already: the first entry that matches an object counts, and
        /// `existingResourcePolicy` where none does; an addition of Lifeboat.
        existing_resource_policy_overrides: Vec<ExistingResourcePolicyOverride> = "existingResourcePolicyOverrides";
        /// Types of objects that may be deleted and made anew by the policy `recreate` although that can take more with it: custom
        /// resources, objects with finalizers, StatefulSets that delete their claims; an addition of Lifeboat.
        allow_recreate: Vec<String> = "allowRecreate";
        /// The digest of the plan that this restore may carry out and no other; an addition of Lifeboat.
        plan_digest: String = "planDigest";
        /// True when objects are removed that the backup lacks; with `existingResourcePolicy: exact` and `planDigest`
        /// only; an addition of Lifeboat.
        prune: bool = "prune";
        /// True when restored objects get their owners back, except those whose controllers adopt them; an addition of
        /// Lifeboat.
        restore_owner_references: bool = "restoreOwnerReferences";
        /// Time limit of asynchronous operations; zero for the default.
        item_operation_timeout: Duration = "itemOperationTimeout";
        /// A ConfigMap with resource modifiers.
        resource_modifier: Option<TypedLocalObjectReference> = "resourceModifier" nullable;
        /// A ConfigMap with fine-grained filters. Velero's definitions have it after 1.18.
        resource_policy: Option<TypedLocalObjectReference> = "resourcePolicy" nullable;
        /// True when the server's default modifiers are left out. Velero's definitions have it after 1.18.
        skip_default_resource_modifier: Option<bool> = "skipDefaultResourceModifier" nullable;
        /// Settings of the uploader.
        uploader_config: Option<UploaderConfigForRestore> = "uploaderConfig" nullable;
        /// Ends the restore before its time; an addition of Lifeboat.
        cancel: bool = "cancel";
    }
}

impl RestoreSpec {
    /// Returns true if it may delete objects, to make them anew or because the backup lacks them: their originals are kept then.
    #[must_use]
    pub fn may_replace(&self) -> bool {
        let overrides = self.existing_resource_policy_overrides.iter().map(|one| &one.policy);
        self.prune
            || overrides
                .chain([&self.existing_resource_policy])
                .any(|policy| *policy == ExistingResourcePolicy::Recreate)
    }
}

/// The treatment of objects that exist already.
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
    /// Where they differ, delete them and make them anew; an addition of Lifeboat.
    Recreate,
    /// Make them match the backup, and look for those that the backup lacks; an addition of Lifeboat.
    Exact,
    /// Some other word; validation refuses it.
    Other(String),
}

impl FieldType for ExistingResourcePolicy {
    fn schema() -> Schema {
        // compat: any word, because Velero's schema has no enumeration here and validation answers instead.
        of_type("string")
    }

    fn is_omitted(&self) -> bool {
        *self == Self::Unset
    }

    #[cfg(test)]
    fn full() -> Self {
        Self::Update
    }
}

impl From<String> for ExistingResourcePolicy {
    fn from(text: String) -> Self {
        match text.as_str() {
            "" => Self::Unset,
            "none" => Self::None,
            "update" => Self::Update,
            "recreate" => Self::Recreate,
            "exact" => Self::Exact,
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
            ExistingResourcePolicy::Recreate => "recreate".to_owned(),
            ExistingResourcePolicy::Exact => "exact".to_owned(),
            ExistingResourcePolicy::Other(text) => text,
        }
    }
}

object! {
    /// The treatment of existing objects that meet all the conditions of this entry.
    pub struct ExistingResourcePolicyOverride {
        /// The treatment: `none`, `update` or `recreate`.
        policy: ExistingResourcePolicy = "policy" required;
        /// Types; empty or `*` for all.
        included_resources: Vec<String> = "includedResources";
        /// Types that it does not match.
        excluded_resources: Vec<String> = "excludedResources";
        /// Namespaces of the backup, with wildcards; empty for all, and for cluster-scoped objects.
        included_namespaces: Vec<String> = "includedNamespaces";
        /// Labels of the object in the backup.
        label_selector: Option<LabelSelector> = "labelSelector";
    }
}

object! {
    /// Which types get their status back.
    pub struct RestoreStatusSpec {
        /// Types; empty for all.
        included_resources: Vec<String> = "includedResources" nullable;
        /// Types to leave out.
        excluded_resources: Vec<String> = "excludedResources" nullable;
    }
}

object! {
    /// Settings of the uploader.
    pub struct UploaderConfigForRestore {
        /// True when holes are written as holes.
        write_sparse_files: Option<bool> = "writeSparseFiles" nullable;
        /// Files downloaded at once; zero for the default.
        parallel_files_download: i64 = "parallelFilesDownload";
    }
}

object! {
    /// Commands and containers for restored pods.
    pub struct RestoreHooks {
        /// Which hooks for which pods.
        resources: Vec<RestoreResourceHookSpec> = "resources";
    }
}

object! {
    /// Hooks for the pods that match.
    pub struct RestoreResourceHookSpec {
        /// Name of the hook.
        name: String = "name" required;
        /// Namespaces of the pods; empty for all.
        included_namespaces: Vec<String> = "includedNamespaces" nullable;
        /// Namespaces to leave out.
        excluded_namespaces: Vec<String> = "excludedNamespaces" nullable;
        /// Types; only pods make sense.
        included_resources: Vec<String> = "includedResources" nullable;
        /// Types to leave out.
        excluded_resources: Vec<String> = "excludedResources" nullable;
        /// Labels of the pods.
        label_selector: Option<LabelSelector> = "labelSelector" nullable;
        /// The hooks.
        post_hooks: Vec<RestoreResourceHook> = "postHooks";
    }
}

object! {
    /// A hook: a command in a container, or init containers.
    pub struct RestoreResourceHook {
        /// A command in a container.
        exec: Option<ExecRestoreHook> = "exec";
        /// Init containers.
        init: Option<InitRestoreHook> = "init";
    }
}

object! {
    /// A command in a container of a restored pod.
    pub struct ExecRestoreHook {
        /// The container; empty for the first.
        container: String = "container";
        /// The command.
        command: Vec<String> = "command" required filled;
        /// The effect of a failure.
        on_error: Option<HookErrorMode> = "onError";
        /// Time limit of the command; zero for the default.
        exec_timeout: Duration = "execTimeout";
        /// Time to wait for the container; zero for the default.
        wait_timeout: Duration = "waitTimeout";
        /// True when the hook waits until the container is ready.
        wait_for_ready: Option<bool> = "waitForReady" nullable;
    }
}

object! {
    /// Init containers for a restored pod.
    pub struct InitRestoreHook {
        /// The containers, as written.
        init_containers: Vec<Value> = "initContainers" untyped;
        /// Time limit of the init containers.
        timeout: Duration = "timeout";
    }
}

words! {
    /// Phase of a restore; absent means `New`.
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
}

impl RestorePhase {
    /// Returns true while asynchronous operations of its actions go on.
    #[must_use]
    pub fn waits_for_operations(self) -> bool {
        matches!(self, Self::WaitingForPluginOperations | Self::WaitingForPluginOperationsPartiallyFailed)
    }

    /// Returns true if its asynchronous operations have ended and the restore itself has not.
    #[must_use]
    pub fn is_finalizing(self) -> bool {
        matches!(self, Self::Finalizing | Self::FinalizingPartiallyFailed)
    }
}

object! {
    /// The progress and the outcome of a restore.
    pub struct RestoreStatus {
        /// Phase.
        phase: Option<RestorePhase> = "phase";
        /// Validation errors, for which the spec was refused.
        validation_errors: Vec<String> = "validationErrors" nullable;
        /// Warnings.
        warnings: i64 = "warnings";
        /// Errors.
        errors: i64 = "errors";
        /// Reason for which it failed as a whole.
        failure_reason: String = "failureReason";
        /// When it began.
        start_timestamp: Option<Time> = "startTimestamp" nullable;
        /// When it ended.
        completion_timestamp: Option<Time> = "completionTimestamp" nullable;
        /// Objects done and in all.
        progress: Option<RestoreProgress> = "progress" nullable;
        /// Asynchronous operations begun.
        restore_item_operations_attempted: i64 = "restoreItemOperationsAttempted";
        /// Asynchronous operations that ended well.
        restore_item_operations_completed: i64 = "restoreItemOperationsCompleted";
        /// Asynchronous operations that failed.
        restore_item_operations_failed: i64 = "restoreItemOperationsFailed";
        /// Hooks run.
        hook_status: Option<HookStatus> = "hookStatus" nullable;
        /// Number of times that a server began the work; absent when none did; an addition of Lifeboat.
        attempt: i64 = "attempt";
    }
}

object! {
    /// Objects done and in all.
    #[derive(Eq)]
    pub struct RestoreProgress {
        /// In all, as far as known.
        total_items: i64 = "totalItems";
        /// Done.
        items_restored: i64 = "itemsRestored";
    }
}

/// Names, for people, the two ways to give a restore one of its permissions: the flag of a command, and the annotation
/// of the same word.
#[must_use]
pub fn permission(annotation: &str) -> String {
    let word = annotation.rsplit('/').next().unwrap_or_default();
    format!("--{word} (the annotation {annotation}: \"true\" of the restore)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::well_known::ANNOTATION_REUSE_VOLUMES;

    #[test]
    fn who_applies_a_restore_reads_the_annotation_beside_the_flag() {
        let expected = "--reuse-volumes (the annotation lifeboat.io/reuse-volumes: \"true\" of the restore)";
        assert_eq!(permission(ANNOTATION_REUSE_VOLUMES), expected);
    }
}
