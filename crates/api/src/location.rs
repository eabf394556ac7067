//! Where backups and snapshots go: `BackupStorageLocation` and `VolumeSnapshotLocation` (velero:
//! pkg/apis/velero/v1).

use crate::schema::{object, resource, words};
use crate::{Duration, SecretKeySelector, Time};
use std::collections::BTreeMap;

resource! {
    /// A place for backups in an object store.
    BackupStorageLocation, "backupstoragelocations", "v1",
    /// The place and how to reach it.
    BackupStorageLocationSpec,
    /// The availability of the location.
    BackupStorageLocationStatus
}

object! {
    /// The place and how to reach it.
    pub struct BackupStorageLocationSpec {
        /// The provider of the object store.
        provider: String = "provider" required;
        /// Settings for the provider.
        config: BTreeMap<String, String> = "config";
        /// The Secret with the credentials; unset for the server's own.
        credential: Option<SecretKeySelector> = "credential";
        /// The place in the object store.
        object_storage: ObjectStorageLocation = "objectStorage" required;
        /// True when backups that name no location go here.
        default: bool = "default";
        /// The access to the location; unset means `ReadWrite`.
        access_mode: Option<BackupStorageLocationAccessMode> = "accessMode";
        /// Interval at which backups found here are shown in the cluster; `0s` for never, unset for the server's
        /// setting.
        backup_sync_period: Option<Duration> = "backupSyncPeriod" nullable;
        /// Interval at which the location is checked; `0s` for only once, unset for the server's setting.
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
    /// The access to a location: reading alone, or writing too.
    pub enum BackupStorageLocationAccessMode {
        /// Only read.
        ReadOnly,
        /// Read and written.
        ReadWrite,
    }
}

words! {
    /// The availability of a location.
    #[allow(missing_docs, reason = "the words are Velero's")]
    pub enum BackupStorageLocationPhase {
        Available,
        Unavailable,
    }
}

object! {
    /// The availability of a location, and the times of its last checks.
    pub struct BackupStorageLocationStatus {
        /// Phase.
        phase: Option<BackupStorageLocationPhase> = "phase";
        /// When backups found here were last shown in the cluster.
        last_synced_time: Option<Time> = "lastSyncedTime" nullable;
        /// When the location was last checked.
        last_validation_time: Option<Time> = "lastValidationTime" nullable;
        /// Reason for which the location is unavailable.
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
    /// The availability of the location.
    VolumeSnapshotLocationStatus
}

object! {
    /// The place and how to reach it.
    pub struct VolumeSnapshotLocationSpec {
        /// The provider of the snapshots.
        provider: String = "provider" required;
        /// Settings for the provider.
        config: BTreeMap<String, String> = "config";
        /// The Secret with the credentials; unset for the server's own.
        credential: Option<SecretKeySelector> = "credential";
    }
}

words! {
    /// The availability of a location.
    #[allow(missing_docs, reason = "the words are Velero's")]
    pub enum VolumeSnapshotLocationPhase {
        Available,
        Unavailable,
    }
}

object! {
    /// The availability of a location; neither Velero nor Lifeboat writes it.
    pub struct VolumeSnapshotLocationStatus {
        /// Phase.
        phase: Option<VolumeSnapshotLocationPhase> = "phase";
    }
}
