//! Deletes snapshots of backups in the repositories of a location.

use super::open::writer_options;
use super::password::{explained, known_password};
use crate::work::Context;
use async_trait::async_trait;
use lifeboat_action::{DeletedSnapshots, SnapshotDeletion, SnapshotsToDelete, VolumeRepositories};
use lifeboat_bucket::BlobStore;
use lifeboat_repository::{DeletedSnapshot, SnapshotOwner, blobs_of, delete_snapshots};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Longest time for the snapshots of one backup in one repository: its indexes are read anew.
const LONGEST: Duration = Duration::from_secs(20 * 60);

/// The repositories in the bucket of a location.
pub(crate) struct LocationRepositories {
    context: Context,
    bucket: Arc<dyn BlobStore>,
}

impl LocationRepositories {
    /// Opens repositories in this bucket, which is that of the location below its prefix.
    pub(crate) fn in_bucket(context: &Context, bucket: Arc<dyn BlobStore>) -> Arc<dyn VolumeRepositories> {
        Arc::new(Self { context: context.clone(), bucket })
    }
}

#[async_trait]
impl VolumeRepositories for LocationRepositories {
    async fn delete_snapshots(&self, snapshots: &SnapshotsToDelete) -> Result<DeletedSnapshots, String> {
        let SnapshotsToDelete { volume_namespace, snapshot_ids, backup, backup_uid } = snapshots;
        let password = known_password(&self.context).await?;
        let options = writer_options(&self.context);
        let blobs = blobs_of(Arc::clone(&self.bucket), volume_namespace);
        let owner = SnapshotOwner { backup, backup_uid };
        let deletion = Box::pin(delete_snapshots(blobs, password, snapshot_ids, owner, options));
        let late = |_| format!("it took longer than {} minutes", LONGEST.as_secs() / 60);
        let deleted = timeout(LONGEST, deletion).await.map_err(late)?.map_err(|error| explained(&error))?;
        let end = |end| match end {
            DeletedSnapshot::Deleted => SnapshotDeletion::Deleted,
            DeletedSnapshot::Missing => SnapshotDeletion::Missing,
            DeletedSnapshot::OfAnother(owner) => SnapshotDeletion::OfAnother(owner),
        };
        Ok(DeletedSnapshots { ends: deleted.ends.into_iter().map(end).collect(), unnamed: deleted.unnamed })
    }
}
