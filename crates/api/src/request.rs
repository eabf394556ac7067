//! Requests of a client to the server: `DeleteBackupRequest`, `DownloadRequest` and `ServerStatusRequest`
//! (velero: pkg/apis/velero/v1).

use crate::Time;
use crate::schema::{FieldType, Schema, object, of_type, resource, words};
use serde::{Deserialize, Serialize};

resource! {
    /// Asks to delete a backup and everything that belongs to it.
    DeleteBackupRequest, "deletebackuprequests", "v1",
    /// Which backup.
    DeleteBackupRequestSpec,
    /// The progress and the outcome of the request.
    DeleteBackupRequestStatus
}

object! {
    /// Which backup to delete.
    pub struct DeleteBackupRequestSpec {
        /// The backup.
        backup_name: String = "backupName" required;
    }
}

words! {
    /// Phase of a request to delete a backup; absent means `New`.
    #[allow(missing_docs, reason = "the words are Velero's")]
    pub enum DeleteBackupRequestPhase {
        New,
        InProgress,
        Processed,
    }
}

object! {
    /// The progress and the outcome of a request to delete a backup.
    pub struct DeleteBackupRequestStatus {
        /// Phase.
        phase: Option<DeleteBackupRequestPhase> = "phase";
        /// Errors of the deletion: each names a part that could not be deleted, and the reason.
        errors: Vec<String> = "errors" nullable;
    }
}

resource! {
    /// Asks for a URL under which a file of a backup or restore can be downloaded.
    DownloadRequest, "downloadrequests", "v1",
    /// Which file.
    DownloadRequestSpec,
    /// The URL.
    DownloadRequestStatus
}

object! {
    /// Which file to download.
    pub struct DownloadRequestSpec {
        /// The file.
        target: DownloadTarget = "target" required;
    }
}

object! {
    /// A file of a backup or restore.
    pub struct DownloadTarget {
        /// Which file of it.
        kind: DownloadTargetKind = "kind" required;
        /// The backup or restore.
        name: String = "name" required;
    }
}

words! {
    /// Which file of a backup or restore.
    #[derive(Default)]
    #[allow(missing_docs, reason = "the words are Velero's")]
    pub enum DownloadTargetKind {
        #[default]
        BackupLog,
        BackupContents,
        BackupVolumeSnapshots,
        BackupItemOperations,
        BackupResourceList,
        BackupResults,
        RestoreLog,
        RestoreResults,
        RestoreResourceList,
        RestoreItemOperations,
        CsiBackupVolumeSnapshots = "CSIBackupVolumeSnapshots",
        CsiBackupVolumeSnapshotContents = "CSIBackupVolumeSnapshotContents",
        BackupVolumeInfos,
        RestoreVolumeInfo,
    }
}

words! {
    /// Phase of a request to download a file; absent means `New`.
    #[allow(missing_docs, reason = "the words are Velero's")]
    pub enum DownloadRequestPhase {
        New,
        Processed,
        Failed (later),
    }
}

object! {
    /// The URL of a requested file.
    pub struct DownloadRequestStatus {
        /// Phase.
        phase: Option<DownloadRequestPhase> = "phase";
        /// The URL; that it was signed does not mean that the file exists.
        download_url: String = "downloadURL";
        /// When the URL ceases to work.
        expiration: Option<Time> = "expiration" nullable;
        /// Reason for which there is no URL.
        message: String = "message" later;
    }
}

resource! {
    /// Asks the server for its version and plugins.
    ServerStatusRequest, "serverstatusrequests", "v1",
    /// Nothing to say.
    ServerStatusRequestSpec,
    /// The answer.
    ServerStatusRequestStatus
}

/// Nothing to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatusRequestSpec {}

impl FieldType for ServerStatusRequestSpec {
    fn schema() -> Schema {
        of_type("object")
    }

    #[cfg(test)]
    fn full() -> Self {
        Self {}
    }
}

words! {
    /// Phase of a request for the server's status; absent means `New`.
    #[allow(missing_docs, reason = "the words are Velero's")]
    pub enum ServerStatusRequestPhase {
        New,
        Processed,
    }
}

object! {
    /// The server's answer.
    pub struct ServerStatusRequestStatus {
        /// Phase.
        phase: Option<ServerStatusRequestPhase> = "phase";
        /// When the server answered.
        processed_timestamp: Option<Time> = "processedTimestamp" nullable;
        /// The server's version.
        server_version: String = "serverVersion";
        /// The plugins it runs.
        plugins: Vec<PluginInfo> = "plugins" nullable;
    }
}

object! {
    /// A plugin that a server runs.
    pub struct PluginInfo {
        /// Name.
        name: String = "name" required;
        /// The kind of plugin.
        kind: String = "kind" required;
    }
}
