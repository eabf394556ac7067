//! Removes the files of a backup that was never committed and whose Backup is gone (design: claim and commit).
//!
//! No other work removes them: without a record, no sync takes the backup over, and without a Backup, no deletion
//! reaches it.

use super::backup::engine_env;
use super::{Context, SnapshotLocations, StepError, StepResult};
use crate::world::{Leftover, Meta};
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{Backup, BackupStorageLocation, Restore};
use lifeboat_archive::restore_claim::RestoreClaim;
use lifeboat_archive::sidecar::BackupClaim;
use lifeboat_backup::remove_snapshots;
use lifeboat_lifecycle::phase::writable::spares_until;
use lifeboat_object::first_names;
use lifeboat_store::{Store, StoreError};
use tokio::time::Instant;

/// Time since the last sign of life after which files are removed. In this cluster no server works on a Backup that is
/// gone; but a copy of the whole cluster has its UID, and Backups that are not known here.
const AGE: SignedDuration = SignedDuration::from_hours(1);

/// Returns true if a folder without a record holds files that a server of this namespace left. Files that another
/// cluster, another namespace or a command without a server has claimed are left alone; so are files without a claim.
/// Nothing is removed from a read-only location.
pub(crate) async fn is_left(context: &Context, store: &Store, location: &BackupStorageLocation, name: &str) -> bool {
    if location.is_read_only() {
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

async fn found_left(context: &Context, store: &Store, name: &str) -> Result<bool, StepError> {
    let unfinished = |e: StoreError| StepError::Because(e.to_string());
    let Some(claim) = store.claim_of(name).await.map_err(unfinished)? else { return Ok(false) };
    let namespace = &context.options.namespace;
    if claim.namespace != *namespace {
        return Ok(false);
    }
    let cluster = context.cluster_uid().await?;
    Ok(is_ours_and_old(&claim, &cluster, namespace, context.env.now())
        // Asked after its claim was read: a Backup is older than its claim.
        && context.client.get::<Backup>(name).await?.is_none())
}

fn is_ours_and_old(claim: &BackupClaim, cluster_uid: &str, namespace: &str, now: Timestamp) -> bool {
    claim.is_of_server(cluster_uid, namespace) && now.duration_since(claim.last_sign()) >= AGE
}

/// Removes, once a day, what restores of this server have left whose Restores are gone, and what commands of this cluster have left, when
/// the time of it is over.
pub(super) async fn sweep_restores(context: &Context, store: &Store, location: &BackupStorageLocation) {
    let is_read = location.is_read_only();
    let is_spared = || spares_until(location, context.env.now()).is_some();
    if is_read || is_spared() || !context.notes.locations.restores_are_due(location.key(), Instant::now()) {
        return;
    }
    // A server whose clock is ahead would remove what was promised for longer.
    let now = match context.earliest_now().await {
        Ok(now) => now,
        Err(e) => return tracing::warn!(error = %e, "what restores have left is not removed now"),
    };
    let cluster = match context.cluster_uid().await {
        Ok(cluster) => cluster,
        Err(e) => return tracing::warn!(error = %e, "what restores have left is not removed now"),
    };
    let is_left = |name: String, claim: RestoreClaim| {
        // Of a cluster that is not known nobody can say which restores are gone.
        let is_ours = !cluster.is_empty() && claim.is_of_server(&cluster, &context.options.namespace);
        // A command has no Restore. When its time is over and it has ended, nothing needs its files; but one of an older version has told
        // its user that they stay.
        let is_of_command = claim.is_of_command(&cluster) && claim.swept;
        async move {
            if is_of_command {
                let has_ended = store.has_ended_long_ago(&name, &claim, now).await;
                return has_ended.unwrap_or_else(|e| {
                    tracing::warn!(restore = name, error = %e, "it is not known whether a restore has ended, and its files stay");
                    false
                });
            }
            is_ours && matches!(context.client.get::<Restore>(&name).await, Ok(None))
        }
    };
    let (key, location) = (location.key(), &location.metadata.name);
    match store.sweep_restores(now, is_left).await {
        Ok(swept) => {
            context.notes.locations.note_restores_swept(key, Instant::now());
            if !swept.is_empty() {
                let restores = first_names(&swept);
                tracing::info!(location, restores, "removed the last files of restores that are gone");
            }
        }
        Err(e) => tracing::warn!(location, error = %e, "what restores have left could not be removed"),
    }
}

/// Removes the snapshots, and then the files; what fails is tried again after the next sync. No backup of this name may begin meanwhile.
pub(crate) async fn sweep(context: &Context, left: Leftover) -> StepResult {
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

async fn removed(context: &Context, left: &Leftover) -> Result<bool, StepError> {
    let Leftover { location, name } = left;
    let unfinished = |e: StoreError| StepError::Because(e.to_string());
    let store = context.visited_store(location).await.map_err(StepError::Because)?;
    // A record or a Backup may have come since the folder was found.
    if has_record(&store, name).await.map_err(unfinished)? || !found_left(context, &store, name).await? {
        return Ok(false);
    }
    // The claim is all that knows its UID, by which its CSI snapshots are found; beside it lie the notes of the native ones.
    if let Some(claim) = store.claim_of(name).await.map_err(unfinished)? {
        let backup = gone(location, name, claim.backup_uid);
        let cancel = context.env.cancel.child_token();
        let env = Box::pin(engine_env(context, &backup, store.clone(), SnapshotLocations::All, cancel)).await;
        if !Box::pin(remove_snapshots(&backup, &env.map_err(StepError::Because)?)).await {
            return Err(StepError::Because("snapshots of it may be left".to_owned()));
        }
    }
    store.sweep(name).await.map_err(unfinished)?;
    Ok(true)
}

/// A Backup with the name and the UID of one that is gone.
pub(super) fn gone(location: &BackupStorageLocation, name: &str, uid: String) -> Backup {
    let mut backup = Backup::default();
    backup.metadata.namespace.clone_from(&location.metadata.namespace);
    (backup.metadata.name, backup.metadata.uid) = (name.to_owned(), uid);
    backup
}

/// Returns true if a backup is visible. A record that cannot be read is an error, because it may be there or not.
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
    use crate::options::ServerClock;
    use crate::stub::{OneBucket, context, sandbox};
    use lifeboat_archive::layout::restore_claim_key;
    use lifeboat_archive::sidecar::CLAIM_FORMAT;
    use lifeboat_bucket::{BlobStore, Memory, PutOptions};
    use lifeboat_lifecycle::phase::writable::note_writable;
    use lifeboat_store::RestoreOwner;
    use std::sync::Arc;

    #[tokio::test]
    async fn a_fast_clock_removes_nothing_promised_and_commands_leave_no_files() {
        let at = |year: u32| format!("{year}-01-01T00:00:00Z").parse::<Timestamp>().unwrap();
        let (_sandbox, cluster) = sandbox().await;
        let own = cluster.uid().await.unwrap();
        let bucket = Arc::new(Memory::default());
        let (store, mut context) = (Store::new(bucket.clone()), context(cluster, Arc::new(OneBucket(bucket.clone()))));
        // The API server has the time of this machine, which lies between.
        let days_ago = context.client.cluster.time().await.unwrap().unwrap() - SignedDuration::from_hours(48);
        context.env.clock = ServerClock(Arc::new(|| "2090-01-01T00:00:00Z".parse().unwrap()));
        for (name, cluster, namespace, until) in [
            ("server-over", &*own, "velero", 2001),
            ("server-promised", &own, "velero", 2080),
            ("command-over", &own, "", 2001),
            ("command-promised", &own, "", 2080),
            ("command-running", &own, "", 2001),
            ("command-before", &own, "", 2001),
            ("another-cluster", "that", "", 2001),
            ("another-server", &own, "other", 2001),
            ("unknown", "", "", 2001),
        ] {
            let owner = RestoreOwner {
                name: name.into(),
                uid: "u".into(),
                cluster_uid: cluster.into(),
                namespace: namespace.into(),
                keep_replaced_until: at(until),
                reads: None,
            };
            // That one has no results yet.
            let begun = if name == "command-running" { days_ago } else { at(2000) };
            store.claim_restore(&owner, begun).await.unwrap();
        }
        // Of a version that has told that its files stay.
        let before = store.restore_claim("command-before").await.unwrap().unwrap();
        let before = RestoreClaim { swept: false, ..before };
        let key = restore_claim_key("command-before");
        bucket.put(&key, serde_json::to_vec(&before).unwrap().into(), PutOptions::default()).await.unwrap();
        let left = async || {
            let mut left = Vec::new();
            for name in [
                "server-over",
                "server-promised",
                "command-over",
                "command-promised",
                "command-running",
                "command-before",
                "another-cluster",
                "another-server",
                "unknown",
            ] {
                left.extend(store.restore_claim(name).await.unwrap().map(|_| name));
            }
            left
        };
        let mut location = BackupStorageLocation::default();
        sweep_restores(&context, &store, &location).await;
        assert_eq!(left().await.len(), 9, "it is the first hour of the location");
        note_writable(&mut location, at(2000));
        sweep_restores(&context, &store, &location).await;
        let expected = [
            "server-promised",
            "command-promised",
            "command-running",
            "command-before",
            "another-cluster",
            "another-server",
            "unknown",
        ];
        assert_eq!(left().await, expected);
    }

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
            let claim = BackupClaim {
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
}
