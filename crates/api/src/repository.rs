//! The `BackupRepository` resource (api-and-controllers.md 1.10).

use crate::schema::{object, resource, words};
use crate::{Duration, Time, UploaderType};
use std::collections::BTreeMap;

resource! {
    /// A repository for the volumes of one namespace in one storage location.
    BackupRepository, "backuprepositories", "v1",
    /// Which repository.
    BackupRepositorySpec,
    /// Whether it can be used.
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
        /// How often it is maintained.
        maintenance_frequency: Duration = "maintenanceFrequency" required;
        /// Settings of the repository.
        repository_config: BTreeMap<String, String> = "repositoryConfig" nullable;
    }
}

words! {
    /// Whether a repository can be used; absent means `New`.
    #[allow(missing_docs, reason = "the words are Velero's")]
    pub enum BackupRepositoryPhase {
        New,
        Ready,
        NotReady,
    }
}

object! {
    /// Whether a repository can be used.
    pub struct BackupRepositoryStatus {
        /// Phase.
        phase: Option<BackupRepositoryPhase> = "phase";
        /// Why it cannot be used.
        message: String = "message";
        /// When it was last maintained.
        last_maintenance_time: Option<Time> = "lastMaintenanceTime" nullable;
        /// The latest maintenance runs, the oldest first.
        recent_maintenance: Vec<BackupRepositoryMaintenanceStatus> = "recentMaintenance";
    }
}

words! {
    /// How a maintenance run ended.
    #[allow(missing_docs, reason = "the words are Velero's")]
    pub enum BackupRepositoryMaintenanceResult {
        Succeeded,
        Failed,
    }
}

object! {
    /// A maintenance run.
    pub struct BackupRepositoryMaintenanceStatus {
        /// How it ended.
        result: Option<BackupRepositoryMaintenanceResult> = "result";
        /// When it began.
        start_timestamp: Option<Time> = "startTimestamp" nullable;
        /// When it ended.
        complete_timestamp: Option<Time> = "completeTimestamp" nullable;
        /// What went wrong.
        message: String = "message";
    }
}
