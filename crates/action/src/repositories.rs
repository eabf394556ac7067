//! The repositories of volumes in the storage location of a backup.
//!
//! No plugin implements this: the server gives it to the engines, which need not know the format of repositories.

use async_trait::async_trait;

/// Snapshots of a backup in the repository of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotsToDelete {
    /// The namespace of the volumes, by which the repository is found.
    pub volume_namespace: String,
    /// Their IDs there.
    pub snapshot_ids: Vec<String>,
    /// The name of the backup.
    pub backup: String,
    /// The UID of the backup, as its files have it.
    pub backup_uid: String,
}

/// The end of the deletion of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotDeletion {
    /// It is deleted.
    Deleted,
    /// It was not there.
    Missing,
    /// It stays, because it belongs to something else, which this text names.
    OfAnother(String),
}

/// The outcome of a deletion in one repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeletedSnapshots {
    /// The ends of the snapshots that were named, in their order.
    pub ends: Vec<SnapshotDeletion>,
    /// The number of others that were deleted, because their tags have the UID of the backup: those of attempts that were cut off.
    pub unnamed: usize,
}

/// Deletes snapshots in repositories.
#[async_trait]
pub trait VolumeRepositories: Send + Sync {
    /// Deletes snapshots, and others of the same backup by their tags. A repository that is not there has none.
    ///
    /// # Errors
    /// The reason for people. Some may be deleted; doing it again does no harm.
    async fn delete_snapshots(&self, snapshots: &SnapshotsToDelete) -> Result<DeletedSnapshots, String>;
}
