//! The `Backup` resource (velero: pkg/apis/velero/v1/backup_types.go).

use crate::schema::{object, resource, words};
use crate::well_known::ANNOTATION_RESOURCE_POLICIES;
use crate::{Duration, LabelSelector, Time, TypedLocalObjectReference};
use std::collections::BTreeMap;

resource! {
    /// A backup: what to save, and how far that came.
    Backup, "backups", "v1",
    /// The contents and options of a backup.
    BackupSpec,
    /// The progress and the outcome.
    BackupStatus
}

object! {
    /// The contents and options of a backup.
    pub struct BackupSpec {
        /// Labels and annotations for the backups of a schedule.
        metadata: TemplateMetadata = "metadata";
        /// Namespaces to save; empty or `*` for all; globs allowed.
        included_namespaces: Vec<String> = "includedNamespaces" nullable;
        /// Namespaces to leave out.
        excluded_namespaces: Vec<String> = "excludedNamespaces" nullable;
        /// Types to save, both scopes (old-style filter).
        included_resources: Vec<String> = "includedResources" nullable;
        /// Types to leave out, both scopes (old-style filter).
        excluded_resources: Vec<String> = "excludedResources" nullable;
        /// Cluster-scoped types to save.
        included_cluster_scoped_resources: Vec<String> = "includedClusterScopedResources" nullable;
        /// Cluster-scoped types to leave out.
        excluded_cluster_scoped_resources: Vec<String> = "excludedClusterScopedResources" nullable;
        /// Namespaced types to save; empty for all.
        included_namespace_scoped_resources: Vec<String> = "includedNamespaceScopedResources" nullable;
        /// Namespaced types to leave out.
        excluded_namespace_scoped_resources: Vec<String> = "excludedNamespaceScopedResources" nullable;
        /// Objects must match; exclusive with `orLabelSelectors`.
        label_selector: Option<LabelSelector> = "labelSelector" nullable;
        /// Objects must match one of these.
        or_label_selectors: Vec<LabelSelector> = "orLabelSelectors" nullable;
        /// Set to false when no volumes are snapshotted; unset means true.
        snapshot_volumes: Option<bool> = "snapshotVolumes" nullable;
        /// Time for which the backup is kept; zero for the default.
        ttl: Duration = "ttl";
        /// Label of claims that are snapshotted as a group.
        volume_group_snapshot_label_key: String = "volumeGroupSnapshotLabelKey";
        /// True when cluster-scoped types are saved; unset means as needed (old-style filter).
        include_cluster_resources: Option<bool> = "includeClusterResources" nullable;
        /// Commands to run in pods.
        hooks: BackupHooks = "hooks";
        /// Where to put the backup; empty for the default location.
        storage_location: String = "storageLocation";
        /// Where native snapshots go.
        volume_snapshot_locations: Vec<String> = "volumeSnapshotLocations";
        /// Deprecated name of `defaultVolumesToFsBackup`.
        default_volumes_to_restic: Option<bool> = "defaultVolumesToRestic" nullable;
        /// True when volumes are saved through the file system unless a pod opts out.
        default_volumes_to_fs_backup: Option<bool> = "defaultVolumesToFsBackup" nullable;
        /// Objects of a type to save first, in this order: type to `namespace/name,…`.
        ordered_resources: BTreeMap<String, String> = "orderedResources" nullable;
        /// Time to wait for a CSI snapshot; zero for the default.
        csi_snapshot_timeout: Duration = "csiSnapshotTimeout";
        /// Time limit of asynchronous operations; zero for the default.
        item_operation_timeout: Duration = "itemOperationTimeout";
        /// A ConfigMap with resource policies.
        resource_policy: Option<TypedLocalObjectReference> = "resourcePolicy";
        /// True when the data of CSI snapshots is moved to the repository.
        snapshot_move_data: Option<bool> = "snapshotMoveData" nullable;
        /// Which data mover.
        data_mover: String = "datamover";
        /// The kind of data movement, full or incremental.
        backup_type: Option<BackupType> = "backupType" later;
        /// Settings of the uploader.
        uploader_config: Option<UploaderConfigForBackup> = "uploaderConfig" nullable;
        /// The treatment of claims that cannot be snapshotted as a group; absent means that their data is not saved; an
        /// addition of Lifeboat.
        volume_group_fallback: Option<VolumeGroupFallback> = "volumeGroupFallback";
        /// Makes the backup though the data of some volumes in scope cannot be saved as asked; an addition of Lifeboat.
        allow_unprotected: bool = "allowUnprotected";
        /// Ends the backup before its time; an addition of Lifeboat.
        cancel: bool = "cancel";
    }
}

object! {
    /// Labels and annotations of a schedule's template.
    pub struct TemplateMetadata {
        /// Labels.
        labels: BTreeMap<String, String> = "labels";
        /// Annotations. Velero's definitions have them after 1.18.
        annotations: BTreeMap<String, String> = "annotations";
    }
}

words! {
    /// `Full` or `Incremental`.
    pub enum BackupType {
        /// Without a parent snapshot.
        Full,
        /// On top of the latest snapshot.
        Incremental,
    }
}

words! {
    /// The treatment of the claims of a group that cannot be snapshotted together.
    pub enum VolumeGroupFallback {
        /// Each has a snapshot of its own, of a moment of its own.
        Single = "single",
    }
}

object! {
    /// Settings of the uploader.
    pub struct UploaderConfigForBackup {
        /// Files uploaded at once; zero for the default.
        parallel_files_upload: i64 = "parallelFilesUpload";
    }
}

object! {
    /// Commands to run in pods around their backup.
    pub struct BackupHooks {
        /// Which commands in which pods.
        resources: Vec<BackupResourceHookSpec> = "resources" nullable;
    }
}

object! {
    /// Commands for the pods that match.
    pub struct BackupResourceHookSpec {
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
        /// Before the pod is saved.
        pre_hooks: Vec<BackupResourceHook> = "pre";
        /// After the pod was saved.
        post_hooks: Vec<BackupResourceHook> = "post";
    }
}

object! {
    /// A hook: a command in a container.
    pub struct BackupResourceHook {
        /// A command in a container.
        exec: ExecHook = "exec" required;
    }
}

object! {
    /// A command in a container.
    pub struct ExecHook {
        /// The container; empty for the first.
        container: String = "container";
        /// The command.
        command: Vec<String> = "command" required filled;
        /// The effect of a failure.
        on_error: Option<HookErrorMode> = "onError";
        /// Time limit of the command; zero for the default.
        timeout: Duration = "timeout";
    }
}

words! {
    /// The effect of a hook's failure on the backup or restore.
    pub enum HookErrorMode {
        /// Record it and go on.
        Continue,
        /// Give the pod up.
        Fail,
    }
}

words! {
    /// Phase of a backup; absent means `New`.
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
}

impl Backup {
    /// Returns true if resource policies may have left objects out: those of a ConfigMap, or of a file.
    #[must_use]
    pub fn has_resource_policies(&self) -> bool {
        self.spec.resource_policy.is_some() || self.metadata.annotations.contains_key(ANNOTATION_RESOURCE_POLICIES)
    }
}

impl BackupPhase {
    /// Returns true while asynchronous operations of its actions go on.
    #[must_use]
    pub fn waits_for_operations(self) -> bool {
        matches!(self, Self::WaitingForPluginOperations | Self::WaitingForPluginOperationsPartiallyFailed)
    }

    /// Returns true if its asynchronous operations have ended and the backup itself has not.
    #[must_use]
    pub fn is_finalizing(self) -> bool {
        matches!(self, Self::Finalizing | Self::FinalizingPartiallyFailed)
    }

    /// Returns true if the backup has ended with contents that can be read and restored.
    #[must_use]
    pub fn has_contents(self) -> bool {
        matches!(self, Self::Completed | Self::PartiallyFailed)
    }
}

object! {
    /// The progress and the outcome of a backup.
    pub struct BackupStatus {
        /// Always 1 (deprecated).
        version: i64 = "version";
        /// Version of the archive's layout.
        format_version: String = "formatVersion";
        /// When it may be deleted.
        expiration: Option<Time> = "expiration" nullable;
        /// Phase.
        phase: Option<BackupPhase> = "phase";
        /// Place in the queue, from 1.
        queue_position: i64 = "queuePosition";
        /// Validation errors, for which the spec was refused.
        validation_errors: Vec<String> = "validationErrors" nullable;
        /// When it began.
        start_timestamp: Option<Time> = "startTimestamp" nullable;
        /// When it ended.
        completion_timestamp: Option<Time> = "completionTimestamp" nullable;
        /// Native snapshots tried.
        volume_snapshots_attempted: i64 = "volumeSnapshotsAttempted";
        /// Native snapshots made.
        volume_snapshots_completed: i64 = "volumeSnapshotsCompleted";
        /// Reason for which it failed as a whole.
        failure_reason: String = "failureReason";
        /// Warnings.
        warnings: i64 = "warnings";
        /// Errors.
        errors: i64 = "errors";
        /// Objects done and in all.
        progress: Option<BackupProgress> = "progress" nullable;
        /// CSI snapshots tried.
        csi_volume_snapshots_attempted: i64 = "csiVolumeSnapshotsAttempted";
        /// CSI snapshots made.
        csi_volume_snapshots_completed: i64 = "csiVolumeSnapshotsCompleted";
        /// Asynchronous operations begun.
        backup_item_operations_attempted: i64 = "backupItemOperationsAttempted";
        /// Asynchronous operations that ended well.
        backup_item_operations_completed: i64 = "backupItemOperationsCompleted";
        /// Asynchronous operations that failed.
        backup_item_operations_failed: i64 = "backupItemOperationsFailed";
        /// Hooks run.
        hook_status: Option<HookStatus> = "hookStatus" nullable;
        /// Number of times that a server began the work; absent when none did; an addition of Lifeboat.
        attempt: i64 = "attempt";
        /// Volumes in scope whose data nothing saved, though no policy leaves them out; absent when there are none; an addition of
        /// Lifeboat.
        unprotected_volumes: i64 = "unprotectedVolumes";
    }
}

object! {
    /// Objects done and in all.
    #[derive(Eq)]
    pub struct BackupProgress {
        /// In all, as far as known.
        total_items: i64 = "totalItems";
        /// Done.
        items_backed_up: i64 = "itemsBackedUp";
    }
}

object! {
    /// Hooks run.
    #[derive(Eq)]
    pub struct HookStatus {
        /// Tried.
        hooks_attempted: i64 = "hooksAttempted";
        /// Failed.
        hooks_failed: i64 = "hooksFailed";
    }
}
