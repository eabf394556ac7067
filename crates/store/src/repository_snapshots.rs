//! Lists of snapshots in repositories whose backup is deleted. A list outlives its backup until all that it names is deleted.

use crate::{Store, StoreError};
use lifeboat_archive::layout::{REPOSITORY_SNAPSHOTS, repository_snapshots_key, uid_of_repository_snapshots};
use lifeboat_archive::repository_snapshot::RepositorySnapshot;
use lifeboat_bucket::{BlobStore, Entry, ListOptions, Listed, PutOptions};

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
        self.put_repository_snapshots(backup, uid, &all).await
    }

    async fn put_repository_snapshots(
        &self,
        backup: &str,
        uid: &str,
        all: &[RepositorySnapshot],
    ) -> Result<(), StoreError> {
        let bytes = serde_json::to_vec_pretty(all).map_err(|e| StoreError::Encode("the list of snapshots", e))?;
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

/// A list of snapshots in repositories.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotList {
    /// The backup.
    pub backup: String,
    /// Its UID.
    pub uid: String,
}

impl Store {
    /// Takes snapshots that are deleted off the list of a backup; a list that is empty then goes.
    ///
    /// # Errors
    /// [`StoreError::Sidecar`], [`StoreError::Bucket`].
    pub async fn unlist_repository_snapshots(
        &self,
        backup: &str,
        uid: &str,
        deleted: &[RepositorySnapshot],
    ) -> Result<(), StoreError> {
        let all = self.repository_snapshots(backup, uid).await?;
        let is_deleted = |one: &RepositorySnapshot| {
            deleted.iter().any(|other| (&other.repository, &other.snapshot_id) == (&one.repository, &one.snapshot_id))
        };
        let left: Vec<RepositorySnapshot> = all.iter().filter(|one| !is_deleted(one)).cloned().collect();
        match left.len() {
            0 => Ok(self.bucket.delete(&[repository_snapshots_key(backup, uid)]).await?),
            count if count == all.len() => Ok(()),
            _ => self.put_repository_snapshots(backup, uid, &left).await,
        }
    }

    /// The lists that are there.
    ///
    /// # Errors
    /// [`StoreError::Bucket`]. A list that cannot be read is passed over with a line of the program's log.
    pub async fn lists_of_repository_snapshots(&self) -> Result<Vec<SnapshotList>, StoreError> {
        let mut options = ListOptions { prefix: REPOSITORY_SNAPSHOTS.to_owned(), ..ListOptions::default() };
        let mut lists = Vec::new();
        loop {
            let page = self.bucket.list(options.clone()).await?;
            for entry in page.entries {
                let Entry::Object(Listed { key, .. }) = entry else { continue };
                let Some(bytes) = self.read(&key).await? else { continue };
                let first = serde_json::from_slice::<Vec<RepositorySnapshot>>(&bytes).map(|all| all.into_iter().next());
                match first {
                    Ok(Some(one)) => {
                        let uid = uid_of_repository_snapshots(&key, &one.backup).map(str::to_owned);
                        lists.extend(uid.map(|uid| SnapshotList { backup: one.backup, uid }));
                    }
                    Ok(None) => {}
                    Err(e) => tracing::warn!(key, error = %e, "a list of snapshots in repositories cannot be read"),
                }
            }
            match page.continuation {
                None => return Ok(lists),
                next => options.continuation = next,
            }
        }
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
        let list = SnapshotList { backup: "b".to_owned(), uid: "u".to_owned() };
        assert_eq!(store.lists_of_repository_snapshots().await.unwrap(), [list]);
        store.unlist_repository_snapshots("b", "u", &[snapshot("1"), snapshot("3")]).await.unwrap();
        assert_eq!(store.repository_snapshots("b", "u").await.unwrap(), [snapshot("2")]);
        // Velero takes the location for one that is whole.
        let folders: Vec<String> = store.folders().await.unwrap();
        assert!(folders.iter().all(|name| lifeboat_archive::layout::TOP_LEVEL.contains(&name.as_str())), "{folders:?}");
        store.unlist_repository_snapshots("b", "u", &[snapshot("2")]).await.unwrap();
        assert_eq!(store.lists_of_repository_snapshots().await.unwrap(), []);
    }
}
