//! The `BackupRepository` resource (api-and-controllers.md 1.10).

use crate::schema::{object, resource, words};
use crate::{Duration, Time, UploaderType};
use std::collections::BTreeMap;

resource! {
    /// A repository for the volumes of one namespace in one storage location.
    BackupRepository, "backuprepositories", "v1",
    /// Which repository.
    BackupRepositorySpec,
    /// The state of the repository, as the server reports it.
    BackupRepositoryStatus
}

object! {
    /// Which repository.
    pub struct BackupRepositorySpec {
        /// The namespace whose volumes it holds.
        volume_namespace: String = "volumeNamespace" required;
        /// The storage location it lies in.
        backup_storage_location: String = "backupStorageLocation" required;
        /// Its format.
        repository_type: UploaderType = "repositoryType";
        /// The address of a restic repository (deprecated).
        restic_identifier: String = "resticIdentifier";
        /// Interval between maintenance runs.
        maintenance_frequency: Duration = "maintenanceFrequency" required;
        /// Settings of the repository.
        repository_config: BTreeMap<String, String> = "repositoryConfig" nullable;
    }
}

words! {
    /// The phase of a repository; absent means `New`.
    #[allow(missing_docs, reason = "the words are Velero's")]
    pub enum BackupRepositoryPhase {
        New,
        Ready,
        NotReady,
    }
}

object! {
    /// The state of a repository, and its last maintenance runs.
    pub struct BackupRepositoryStatus {
        /// Phase.
        phase: Option<BackupRepositoryPhase> = "phase";
        /// Reason for which the repository cannot be used.
        message: String = "message";
        /// When it was last maintained.
        last_maintenance_time: Option<Time> = "lastMaintenanceTime" nullable;
        /// The latest maintenance runs, the oldest first.
        recent_maintenance: Vec<BackupRepositoryMaintenanceStatus> = "recentMaintenance";
    }
}

words! {
    /// The outcome of a maintenance run.
    #[allow(missing_docs, reason = "the words are Velero's")]
    pub enum BackupRepositoryMaintenanceResult {
        Succeeded,
        Failed,
    }
}

object! {
    /// A maintenance run.
    pub struct BackupRepositoryMaintenanceStatus {
        /// The outcome.
        result: Option<BackupRepositoryMaintenanceResult> = "result";
        /// When it began.
        start_timestamp: Option<Time> = "startTimestamp" nullable;
        /// When it ended.
        complete_timestamp: Option<Time> = "completeTimestamp" nullable;
        /// Error message.
        message: String = "message";
    }
}
