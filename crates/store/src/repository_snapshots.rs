//! Lists of snapshots in repositories that outlive their backup, because nothing here can delete them.

use crate::{Store, StoreError};
use lifeboat_archive::layout::repository_snapshots_key;
use lifeboat_archive::repository_snapshot::RepositorySnapshot;
use lifeboat_bucket::PutOptions;

impl Store {
    /// Adds these to the list of the backup with this name and UID, so that they can be found and deleted when its
    /// files are gone. A deletion that was cut off may have listed some before, and deleted the files that name them.
    ///
    /// # Errors
    /// [`StoreError::Sidecar`], [`StoreError::Bucket`].
    pub async fn list_repository_snapshots(
        &self,
        backup: &str,
        uid: &str,
        snapshots: &[RepositorySnapshot],
    ) -> Result<(), StoreError> {
        let mut all = self.repository_snapshots(backup, uid).await?;
        let is_new = |one: &&RepositorySnapshot| {
            !all.iter().any(|other| (&other.repository, &other.snapshot_id) == (&one.repository, &one.snapshot_id))
        };
        let new: Vec<RepositorySnapshot> = snapshots.iter().filter(is_new).cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        all.extend(new);
        let bytes = serde_json::to_vec_pretty(&all).map_err(|e| StoreError::Encode("the list of snapshots", e))?;
        let options = PutOptions { content_type: Some("application/json"), ..PutOptions::default() };
        self.put(&repository_snapshots_key(backup, uid), bytes.into(), options).await
    }

    /// The list of the backup with this name and UID; empty when there is none.
    ///
    /// # Errors
    /// [`StoreError::Sidecar`], [`StoreError::Bucket`].
    pub async fn repository_snapshots(&self, backup: &str, uid: &str) -> Result<Vec<RepositorySnapshot>, StoreError> {
        let key = repository_snapshots_key(backup, uid);
        let Some(bytes) = self.read(&key).await? else { return Ok(Vec::new()) };
        serde_json::from_slice(&bytes).map_err(|e| StoreError::Sidecar { key, source: e.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    #[tokio::test]
    async fn what_was_listed_stays_when_the_backup_goes_and_is_listed_once() {
        let snapshot = |id: &str| RepositorySnapshot {
            repository: "kopia/shop".to_owned(),
            snapshot_id: id.to_owned(),
            uploader: "kopia".to_owned(),
            volume_namespace: "shop".to_owned(),
            backup: "b".to_owned(),
            deleted_at: Timestamp::UNIX_EPOCH,
        };
        let store = Store::in_memory();
        store.list_repository_snapshots("b", "u", &[]).await.unwrap();
        store.list_repository_snapshots("b", "u", &[snapshot("1"), snapshot("2")]).await.unwrap();
        store.list_repository_snapshots("b", "u", &[snapshot("2"), snapshot("3")]).await.unwrap();
        store.delete_backup("b").await.unwrap();
        assert_eq!(store.repository_snapshots("b", "u").await.unwrap(), ["1", "2", "3"].map(snapshot));
        assert_eq!(store.repository_snapshots("b", "v").await.unwrap(), []);
        // Velero takes the location for one that is whole.
        let folders: Vec<String> = store.folders().await.unwrap();
        assert!(folders.iter().all(|name| lifeboat_archive::layout::TOP_LEVEL.contains(&name.as_str())), "{folders:?}");
    }
}
