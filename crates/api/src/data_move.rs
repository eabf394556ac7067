//! Snapshots moved to and from a repository: `DataUpload` and `DataDownload` (velero: pkg/apis/velero/v2alpha1).

use crate::schema::{object, resource, words};
use crate::{Duration, Time};
use std::collections::BTreeMap;

words! {
    /// Phase of anything that moves the data of a volume; absent means `New`.
    #[allow(missing_docs, reason = "the words are Velero's")]
    pub enum DataPathPhase {
        New,
        Accepted,
        Prepared,
        InProgress,
        Canceling,
        Canceled,
        Completed,
        Failed,
    }
}

object! {
    /// Bytes done and in all.
    #[derive(Eq)]
    pub struct DataMoveProgress {
        /// In all, as far as known.
        total_bytes: i64 = "totalBytes" int64;
        /// Done.
        bytes_done: i64 = "bytesDone" int64;
    }
}

words! {
    /// Operating system of a node.
    pub enum NodeOs {
        /// Whatever the node has.
        Auto = "auto",
        /// Linux.
        Linux = "linux",
        /// Windows.
        Windows = "windows",
    }
}

resource! {
    /// Moves a snapshot of a volume to a repository.
    DataUpload, "datauploads", "v2alpha1",
    /// Which snapshot, and where to.
    DataUploadSpec,
    /// The progress and the outcome.
    DataUploadStatus
}

object! {
    /// Which snapshot to move, and where to.
    pub struct DataUploadSpec {
        /// The type of the snapshot; only `CSI` is known.
        snapshot_type: String = "snapshotType" required;
        /// The CSI snapshot.
        csi_snapshot: Option<CsiSnapshotSpec> = "csiSnapshot" nullable;
        /// The claim of the volume.
        source_pvc: String = "sourcePVC" required;
        /// Which data mover; empty or `velero` for the built-in one.
        data_mover: String = "datamover";
        /// The storage location of the repository.
        backup_storage_location: String = "backupStorageLocation" required;
        /// The namespace of the claim.
        source_namespace: String = "sourceNamespace" required;
        /// Settings of the data mover.
        data_mover_config: BTreeMap<String, String> = "dataMoverConfig" nullable;
        /// Set when the work is to stop.
        cancel: bool = "cancel";
        /// Time limit of the preparations.
        operation_timeout: Duration = "operationTimeout" required;
        /// The file system of the volume.
        source_fs_type: String = "sourceFSType" later;
        /// The snapshot to build on: empty or `auto` for the latest, `none` for none, otherwise its id.
        parent_snapshot: String = "parentSnapshot" later;
    }
}

object! {
    /// A CSI snapshot.
    pub struct CsiSnapshotSpec {
        /// The VolumeSnapshot.
        volume_snapshot: String = "volumeSnapshot" required;
        /// The storage class of the volume.
        storage_class: String = "storageClass" required;
        /// The VolumeSnapshotClass.
        snapshot_class: String = "snapshotClass";
        /// The CSI driver.
        driver: String = "driver";
    }
}

object! {
    /// The progress and the outcome of an upload.
    pub struct DataUploadStatus {
        /// Phase.
        phase: Option<DataPathPhase> = "phase";
        /// The path of the volume on the node.
        path: String = "path";
        /// The snapshot in the repository.
        snapshot_id: String = "snapshotID";
        /// Data that the data mover returned for the restore.
        data_mover_result: BTreeMap<String, String> = "dataMoverResult" nullable;
        /// Error message.
        message: String = "message";
        /// When it began.
        start_timestamp: Option<Time> = "startTimestamp" nullable;
        /// When it ended.
        completion_timestamp: Option<Time> = "completionTimestamp" nullable;
        /// Bytes done and in all.
        progress: DataMoveProgress = "progress";
        /// Bytes that the repository did not have.
        incremental_bytes: i64 = "incrementalBytes" int64;
        /// The node that does it.
        node: String = "node";
        /// The operating system of that node.
        node_os: Option<NodeOs> = "nodeOS";
        /// The node that prepares it.
        accepted_by_node: String = "acceptedByNode";
        /// When a node took it.
        accepted_timestamp: Option<Time> = "acceptedTimestamp" nullable;
    }
}

resource! {
    /// Moves a snapshot from a repository into a volume.
    DataDownload, "datadownloads", "v2alpha1",
    /// Which snapshot, and where to.
    DataDownloadSpec,
    /// The progress and the outcome.
    DataDownloadStatus
}

object! {
    /// Which snapshot to bring back, and where to.
    pub struct DataDownloadSpec {
        /// The volume to fill.
        target_volume: TargetVolumeSpec = "targetVolume" required;
        /// The storage location of the repository.
        backup_storage_location: String = "backupStorageLocation" required;
        /// Which data mover; empty or `velero` for the built-in one.
        data_mover: String = "datamover";
        /// The snapshot in the repository.
        snapshot_id: String = "snapshotID" required;
        /// The namespace the volume was saved from.
        source_namespace: String = "sourceNamespace" required;
        /// Settings of the data mover.
        data_mover_config: BTreeMap<String, String> = "dataMoverConfig";
        /// Set when the work is to stop.
        cancel: bool = "cancel";
        /// Time limit of the preparations, and of bringing the volume to its claim.
        operation_timeout: Duration = "operationTimeout" required;
        /// The operating system of the node that must do it.
        node_os: Option<NodeOs> = "nodeOS";
        /// Bytes in the snapshot.
        snapshot_size: i64 = "snapshotSize" int64;
    }
}

object! {
    /// A volume to fill.
    pub struct TargetVolumeSpec {
        /// The claim.
        pvc: String = "pvc" required;
        /// The volume; may be empty.
        pv: String = "pv" required;
        /// The namespace of the claim.
        namespace: String = "namespace" required;
        /// The file system of the volume.
        fs_type: String = "fsType" later;
    }
}

object! {
    /// The progress and the outcome of a download.
    pub struct DataDownloadStatus {
        /// Phase.
        phase: Option<DataPathPhase> = "phase";
        /// Error message.
        message: String = "message";
        /// When it began.
        start_timestamp: Option<Time> = "startTimestamp" nullable;
        /// When it ended.
        completion_timestamp: Option<Time> = "completionTimestamp" nullable;
        /// Bytes done and in all.
        progress: DataMoveProgress = "progress";
        /// The node that does it.
        node: String = "node";
        /// The node that prepares it.
        accepted_by_node: String = "acceptedByNode";
        /// When a node took it.
        accepted_timestamp: Option<Time> = "acceptedTimestamp" nullable;
    }
}

object! {
    /// The facts about an upload that a restore needs; kept in a ConfigMap while the restore runs.
    pub struct DataUploadResult {
        /// The storage location of the repository.
        backup_storage_location: String = "backupStorageLocation" required;
        /// Which data mover.
        data_mover: String = "datamover";
        /// The snapshot in the repository.
        snapshot_id: String = "snapshotID" required;
        /// The namespace the volume was saved from.
        source_namespace: String = "sourceNamespace" required;
        /// Data that the data mover returned for the restore.
        data_mover_result: BTreeMap<String, String> = "dataMoverResult";
        /// The operating system of the node that moved it.
        node_os: Option<NodeOs> = "nodeOS";
        /// Bytes in the snapshot.
        snapshot_size: i64 = "snapshotSize";
        /// The file system of the volume.
        fs_type: String = "fsType";
        /// The VolumeSnapshotClass.
        snapshot_class: String = "snapshotClass";
    }
}
