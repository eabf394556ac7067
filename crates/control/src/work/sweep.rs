//! Removes what a backup left that was never committed and whose Backup is gone (design: claim and commit).
//!
//! No other work removes it: it has no record, so sync never takes it over, and no Backup, so no deletion reaches it.

use super::backup::engine_env;
use super::{Context, Finished, SnapshotLocations, Unfinished};
use crate::world::Left;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{Backup, BackupStorageLocation, BackupStorageLocationAccessMode as AccessMode};
use lifeboat_archive::sidecar::Claim;
use lifeboat_backup::remove_snapshots;
use lifeboat_store::{Store, StoreError};

/// So long ago must the last sign of life be. In this cluster no server works on a Backup that is gone; but a copy of
/// the whole cluster has its UID, and Backups that are not known here.
const AGE: SignedDuration = SignedDuration::from_hours(1);

/// Whether a folder without a record holds what a server of this namespace left. What another cluster, another
/// namespace or a command without a server has claimed is left alone; so is what has no claim. Nothing goes from a
/// location that is only read.
pub(crate) async fn is_left(context: &Context, store: &Store, location: &BackupStorageLocation, name: &str) -> bool {
    if location.spec.access_mode == Some(AccessMode::ReadOnly) {
        return false;
    }
    match found_left(context, store, name).await {
        Ok(left) => left,
        Err(e) => {
            tracing::warn!(backup = name, error = %e, "it is not known whose unfinished files these are");
            false
        }
    }
}

async fn found_left(context: &Context, store: &Store, name: &str) -> Result<bool, Unfinished> {
    let unfinished = |e: StoreError| Unfinished::Because(e.to_string());
    let Some(claim) = store.claim_of(name).await.map_err(unfinished)? else { return Ok(false) };
    let namespace = &context.options.namespace;
    if claim.namespace != *namespace {
        return Ok(false);
    }
    let cluster = context.client.cluster.uid().await?;
    Ok(is_ours_and_old(&claim, &cluster, namespace, context.env.now())
        // Asked after its claim was read: a Backup is older than its claim.
        && context.client.get::<Backup>(name).await?.is_none())
}

fn is_ours_and_old(claim: &Claim, cluster_uid: &str, namespace: &str, now: Timestamp) -> bool {
    claim.is_of_server(cluster_uid, namespace) && now.duration_since(claim.last_sign()) >= AGE
}

/// Removes the snapshots, and then the files; what fails is tried again after the next search. No backup of this name may begin meanwhile.
pub(crate) async fn sweep(context: &Context, left: Left) -> Finished {
    let (backup, location) = (&left.name, &left.location.metadata.name);
    match removed(context, &left).await {
        Ok(true) => {
            tracing::info!(backup, location, "removed the files of an unfinished backup whose Backup is gone");
        }
        Ok(false) => {}
        Err(e) => {
            tracing::warn!(backup, location, error = %e, "the files of an unfinished backup could not be removed");
        }
    }
    Ok(Vec::new())
}

async fn removed(context: &Context, left: &Left) -> Result<bool, Unfinished> {
    let Left { location, name } = left;
    let unfinished = |e: StoreError| Unfinished::Because(e.to_string());
    let store = context.visited_store(location).await.map_err(Unfinished::Because)?;
    // A record or a Backup may have come since the folder was found.
    if has_record(&store, name).await.map_err(unfinished)? || !found_left(context, &store, name).await? {
        return Ok(false);
    }
    // The claim is all that knows its UID, by which its snapshots are found.
    if let Some(claim) = store.claim_of(name).await.map_err(unfinished)? {
        let backup = gone(location, name, claim.backup_uid);
        let cancel = context.env.cancel.child_token();
        let env = Box::pin(engine_env(context, &backup, store.clone(), SnapshotLocations::All, cancel)).await;
        if !Box::pin(remove_snapshots(&backup, &env.map_err(Unfinished::Because)?)).await {
            return Err(Unfinished::Because("snapshots of it may be left".to_owned()));
        }
    }
    store.sweep(name).await.map_err(unfinished)?;
    Ok(true)
}

/// What is known of a Backup that is gone.
fn gone(location: &BackupStorageLocation, name: &str, uid: String) -> Backup {
    let mut backup = Backup::default();
    backup.metadata.namespace.clone_from(&location.metadata.namespace);
    (backup.metadata.name, backup.metadata.uid) = (name.to_owned(), uid);
    backup
}

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

/// Whether a backup is visible. A record that cannot be read is an error: it says nothing.
async fn has_record(store: &Store, name: &str) -> Result<bool, StoreError> {
    match store.backup(name).await {
        Ok(_) => Ok(true),
        Err(StoreError::NoBackup { .. }) => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_archive::sidecar::CLAIM_FORMAT;
    use lifeboat_bucket::{BlobStore, Memory, PutOptions};
    use lifeboat_store::{ClaimOutcome, ClaimRequest};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    #[test]
    fn only_an_old_claim_of_this_server_is_given_up() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = at("2026-11-22T12:00:00Z");
        let yesterday = "2026-11-21T12:00:00Z";
        for (cluster, namespace, claimed, refreshed, expected) in [
            ("c", "velero", "2026-11-22T11:00:00Z", None, true),
            ("c", "velero", "2026-11-22T11:00:01Z", None, false),
            ("c", "velero", "2026-11-22T13:00:01Z", None, false),
            // Begun long ago, and still being written: by the original of this cluster.
            ("c", "velero", yesterday, Some("2026-11-22T11:59:00Z"), false),
            ("c", "velero", yesterday, Some("2026-11-22T11:00:00Z"), true),
            ("c", "other", yesterday, None, false),
            ("d", "velero", yesterday, None, false),
            ("", "velero", yesterday, None, false),
            ("c", "", yesterday, None, false),
        ] {
            let claim = Claim {
                format: CLAIM_FORMAT.into(),
                cluster_uid: cluster.into(),
                backup_uid: "u".into(),
                namespace: namespace.into(),
                attempt: 1,
                claimed: at(claimed),
                refreshed: refreshed.map(at),
            };
            let what = format!("{cluster} {namespace} {claimed} {refreshed:?}");
            assert_eq!(is_ours_and_old(&claim, "c", "velero", now), expected, "{what}");
            assert!(!is_ours_and_old(&claim, "", "velero", now) && !is_ours_and_old(&claim, "c", "", now), "{what}");
        }
    }

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
