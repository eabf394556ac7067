//! Removes the files of a backup that ends because its Backup was deleted while it was made.

use lifeboat_api::Backup;
use lifeboat_store::{Store, StoreError};

/// Removes what a backup has claimed that ended because its Backup was deleted. It may have ended before it had claimed
/// its name, which may be that of another backup in the bucket, or after this run of it had made it visible
/// (`has_put`): then its record goes first. One that was visible before stays: in a copy of a cluster a Backup has the
/// UID of the original, which has finished it.
pub(super) async fn sweep_own(store: &Store, backup: &Backup, has_put: bool) -> Result<(), StoreError> {
    let (name, uid) = (&backup.metadata.name, &backup.metadata.uid);
    let claimed = store.claim_of(name).await?.is_some_and(|claim| claim.backup_uid == *uid);
    if !claimed {
        return Ok(());
    }
    match store.backup(name).await {
        Ok(record) if has_put && record.metadata.uid == *uid => store.delete_backup(name).await,
        Ok(_) => Ok(()),
        Err(StoreError::NoBackup { .. }) => store.sweep(name).await,
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use lifeboat_bucket::{BlobStore, Memory, PutOptions};
    use lifeboat_store::{ClaimOutcome, ClaimRequest};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    #[tokio::test]
    async fn what_goes_with_a_deleted_backup_is_its_own() {
        for (claimed_by, committed, has_put, expected) in [
            (None, false, false, 1),
            (Some("other"), false, false, 2),
            (Some("other"), true, false, 4),
            (Some("other"), true, true, 4),
            (Some("u"), false, false, 0),
            // It had become visible just then.
            (Some("u"), true, true, 0),
            // It was visible before: the original of this cluster has finished it.
            (Some("u"), true, false, 4),
        ] {
            let bucket: Arc<dyn BlobStore> = Arc::new(Memory::default());
            let store = Store::new(Arc::clone(&bucket));
            bucket.put("backups/b/x", b"x".to_vec().into(), PutOptions::default()).await.unwrap();
            let mut backup = Backup::default();
            backup.metadata.name = "b".into();
            backup.metadata.uid = claimed_by.unwrap_or("u").into();
            if let Some(uid) = claimed_by {
                let request = ClaimRequest {
                    name: "b".into(),
                    backup_uid: uid.into(),
                    cluster_uid: "c".into(),
                    namespace: "velero".into(),
                    take_over: false,
                    now: Timestamp::UNIX_EPOCH,
                };
                let ClaimOutcome::Writer(writer) = store.claim(&request).await.unwrap() else { panic!("a new name") };
                if committed {
                    writer.commit(&backup, "test", BTreeMap::new(), "v1").await.unwrap();
                }
            }
            backup.metadata.uid = "u".into();
            sweep_own(&store, &backup, has_put).await.unwrap();
            let left = bucket.list(lifeboat_bucket::ListOptions::default()).await.unwrap().entries.len();
            assert_eq!(left, expected, "{claimed_by:?} {committed} {has_put}");
        }
    }
}
