//! Where backups and snapshots go: `BackupStorageLocation` and `VolumeSnapshotLocation` (api-and-controllers.md 1.5
//! and 1.6).

use crate::schema::{object, resource, words};
use crate::{Duration, SecretKeySelector, Time};
use std::collections::BTreeMap;

resource! {
    /// A place for backups in an object store.
    BackupStorageLocation, "backupstoragelocations", "v1",
    /// The place and how to reach it.
    BackupStorageLocationSpec,
    /// Whether it can be reached.
    BackupStorageLocationStatus
}

object! {
    /// The place and how to reach it.
    pub struct BackupStorageLocationSpec {
        /// Who provides the object store.
        provider: String = "provider" required;
        /// Settings for the provider.
        config: BTreeMap<String, String> = "config";
        /// The Secret with the credentials; unset for the server's own.
        credential: Option<SecretKeySelector> = "credential";
        /// The place in the object store.
        object_storage: ObjectStorageLocation = "objectStorage" required;
        /// Whether backups that name no location go here.
        default: bool = "default";
        /// Whether it may be written to; unset means `ReadWrite`.
        access_mode: Option<BackupStorageLocationAccessMode> = "accessMode";
        /// How often backups found here are shown in the cluster; `0s` for never, unset for the server's setting.
        backup_sync_period: Option<Duration> = "backupSyncPeriod" nullable;
        /// How often the location is checked; `0s` for only once, unset for the server's setting.
        validation_frequency: Option<Duration> = "validationFrequency" nullable;
    }
}

object! {
    /// A place in an object store.
    pub struct ObjectStorageLocation {
        /// The bucket.
        bucket: String = "bucket" required;
        /// The folder in the bucket; empty for its root.
        prefix: String = "prefix";
        /// Certificates to trust, in PEM, as base64 (deprecated; exclusive with `caCertRef`).
        ca_cert: String = "caCert" base64;
        /// The Secret with certificates to trust.
        ca_cert_ref: Option<SecretKeySelector> = "caCertRef";
    }
}

impl BackupStorageLocation {
    /// Tells whether it is only read.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.spec.access_mode == Some(BackupStorageLocationAccessMode::ReadOnly)
    }
}

words! {
    /// Whether a location may be written to.
    pub enum BackupStorageLocationAccessMode {
        /// Only read.
        ReadOnly,
        /// Read and written.
        ReadWrite,
    }
}

words! {
    /// Whether a location can be reached.
    #[allow(missing_docs, reason = "the words are Velero's")]
    pub enum BackupStorageLocationPhase {
        Available,
        Unavailable,
    }
}

object! {
    /// Whether a location can be reached.
    pub struct BackupStorageLocationStatus {
        /// Phase.
        phase: Option<BackupStorageLocationPhase> = "phase";
        /// When backups found here were last shown in the cluster.
        last_synced_time: Option<Time> = "lastSyncedTime" nullable;
        /// When the location was last checked.
        last_validation_time: Option<Time> = "lastValidationTime" nullable;
        /// Why it cannot be reached.
        message: String = "message";
        /// Never written (deprecated).
        last_synced_revision: String = "lastSyncedRevision";
        /// Never written (deprecated).
        access_mode: Option<BackupStorageLocationAccessMode> = "accessMode";
    }
}

resource! {
    /// A place for native snapshots of volumes.
    VolumeSnapshotLocation, "volumesnapshotlocations", "v1",
    /// The place and how to reach it.
    VolumeSnapshotLocationSpec,
    /// Whether it can be reached.
    VolumeSnapshotLocationStatus
}

object! {
    /// The place and how to reach it.
    pub struct VolumeSnapshotLocationSpec {
        /// Who provides the snapshots.
        provider: String = "provider" required;
        /// Settings for the provider.
        config: BTreeMap<String, String> = "config";
        /// The Secret with the credentials; unset for the server's own.
        credential: Option<SecretKeySelector> = "credential";
    }
}

words! {
    /// Whether a location can be reached.
    #[allow(missing_docs, reason = "the words are Velero's")]
    pub enum VolumeSnapshotLocationPhase {
        Available,
        Unavailable,
    }
}

object! {
    /// Whether a location can be reached; nobody writes it.
    pub struct VolumeSnapshotLocationStatus {
        /// Phase.
        phase: Option<VolumeSnapshotLocationPhase> = "phase";
    }
}
