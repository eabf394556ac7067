//! Volumes saved and restored through a pod's file system: `PodVolumeBackup` and `PodVolumeRestore`
//! (velero: pkg/apis/velero/v1).

use crate::schema::{object, resource, words};
use crate::{DataMoveProgress, DataPathPhase, ObjectReference, Time};
use std::collections::BTreeMap;

words! {
    /// The program that moves the files of a volume.
    #[derive(Default)]
    pub enum UploaderType {
        /// kopia.
        Kopia = "kopia",
        /// restic: read only by old versions.
        Restic = "restic",
        /// Not said, which means the server's setting.
        #[default]
        Unset = "",
    }
}

impl UploaderType {
    /// The next step where data lies in a repository of restic, which no server restores. Commands read it.
    pub const RESTIC_NEXT_STEP: &str = "get its files with \"lifeboat repo restore --format restic --velero NAMESPACE --bucket URL \
         --password-file FILE SNAPSHOT TARGET\"; \"lifeboat repo snapshots\" with the same flags lists what is there";
}

resource! {
    /// Saves a volume of a pod through its file system.
    PodVolumeBackup, "podvolumebackups", "v1",
    /// Which volume, and where to.
    PodVolumeBackupSpec,
    /// The progress and the outcome.
    PodVolumeBackupStatus
}

object! {
    /// Which volume to save, and where to.
    pub struct PodVolumeBackupSpec {
        /// The node that runs the pod.
        node: String = "node" required;
        /// The pod.
        pod: ObjectReference = "pod" required;
        /// The name of the volume in the pod.
        volume: String = "volume" required;
        /// The storage location of the repository.
        backup_storage_location: String = "backupStorageLocation" required;
        /// The repository of restic; otherwise empty.
        repo_identifier: String = "repoIdentifier" required;
        /// The program that moves the files.
        uploader_type: UploaderType = "uploaderType";
        /// Tags of the snapshot.
        tags: BTreeMap<String, String> = "tags";
        /// Settings of the uploader.
        uploader_settings: BTreeMap<String, String> = "uploaderSettings" nullable;
        /// Set when the work is to stop.
        cancel: bool = "cancel";
        /// The snapshot to build on: empty or `auto` for the latest, `none` for none, otherwise its id.
        parent_snapshot: String = "parentSnapshot" later;
    }
}

object! {
    /// The progress and the outcome of the backup of a volume.
    pub struct PodVolumeBackupStatus {
        /// Phase.
        phase: Option<DataPathPhase> = "phase";
        /// The path of the volume on the node.
        path: String = "path";
        /// The snapshot in the repository.
        snapshot_id: String = "snapshotID";
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
        /// When a node took it.
        accepted_timestamp: Option<Time> = "acceptedTimestamp" nullable;
    }
}

resource! {
    /// Restores a volume of a pod through its file system.
    PodVolumeRestore, "podvolumerestores", "v1",
    /// Which volume, and where from.
    PodVolumeRestoreSpec,
    /// The progress and the outcome.
    PodVolumeRestoreStatus
}

object! {
    /// Which volume to restore, and where from.
    pub struct PodVolumeRestoreSpec {
        /// The pod.
        pod: ObjectReference = "pod" required;
        /// The name of the volume in the pod.
        volume: String = "volume" required;
        /// The storage location of the repository.
        backup_storage_location: String = "backupStorageLocation" required;
        /// The repository of restic; otherwise empty.
        repo_identifier: String = "repoIdentifier" required;
        /// The program that moves the files.
        uploader_type: UploaderType = "uploaderType";
        /// The snapshot in the repository.
        snapshot_id: String = "snapshotID" required;
        /// The namespace the volume was saved from.
        source_namespace: String = "sourceNamespace" required;
        /// Settings of the uploader.
        uploader_settings: BTreeMap<String, String> = "uploaderSettings" nullable;
        /// Set when the work is to stop.
        cancel: bool = "cancel";
        /// Bytes in the snapshot.
        snapshot_size: i64 = "snapshotSize" int64;
    }
}

object! {
    /// The progress and the outcome of the restore of a volume.
    pub struct PodVolumeRestoreStatus {
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
        /// When a node took it.
        accepted_timestamp: Option<Time> = "acceptedTimestamp" nullable;
        /// The node that does it.
        node: String = "node";
    }
}
