//! Deletes snapshots in repositories that the deletion of their backup has left, from the lists that it has kept.

use super::backup::operation;
use super::repository::deletion::LocationRepositories;
use super::sweep::gone;
use super::{Context, StepError};
use crate::world::Meta;
use lifeboat_action::Actions;
use lifeboat_api::BackupStorageLocation;
use lifeboat_backup::{Env, delete_listed_snapshots};
use lifeboat_store::{SnapshotList, Store, StoreError};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Longest time for it in one sync, which it delays; the rest has its turn a day later.
const LONGEST: Duration = Duration::from_secs(600);
/// Longest time for the snapshots of one backup, so that a repository that is slow leaves time to others.
const LONGEST_OF_ONE: Duration = Duration::from_secs(240);

/// Deletes them, once a day and when the server begins. A list whose backup is still there is its own deletion's.
pub(super) async fn delete_kept_snapshots(context: &Context, store: &Store, location: &BackupStorageLocation) {
    if location.is_read_only() || !context.notes.locations.kept_snapshots_are_due(location.key(), Instant::now()) {
        return;
    }
    let name = &location.metadata.name;
    let done = timeout(LONGEST, Box::pin(delete(context, store, location))).await;
    // Also where the time was not enough: each sync would be that much longer.
    context.notes.locations.note_kept_snapshots(location.key(), Instant::now());
    match done {
        Ok(Ok(())) => {}
        Ok(Err(e)) => {
            tracing::warn!(location = name, error = %e, "snapshots that deleted backups have left could not be deleted");
        }
        Err(_) => tracing::warn!(
            location = name,
            "the time was not enough to delete all snapshots that deleted backups have left; it goes on in a day"
        ),
    }
}

async fn delete(context: &Context, store: &Store, location: &BackupStorageLocation) -> Result<(), StepError> {
    let lists = store.lists_of_repository_snapshots().await?;
    if lists.is_empty() {
        return Ok(());
    }
    let bucket = context.visited_bucket(location).await.map_err(StepError::Because)?;
    let repositories = LocationRepositories::in_bucket(context, bucket);
    for SnapshotList { backup, uid } in lists {
        match has_files(store, &backup, &uid).await {
            Ok(false) => {}
            Ok(true) => continue,
            Err(e) => {
                tracing::warn!(backup, error = %e, "it is not known whether the backup is still there, and its snapshots stay");
                continue;
            }
        }
        let of = gone(location, &backup, uid.clone());
        let env = Env {
            cluster: context.client.cluster.clone(),
            store: store.clone(),
            actions: Actions { repositories: Some(repositories.clone()), ..Actions::default() },
            operation: operation(context, &of, context.env.cancel.child_token()),
        };
        let location = &location.metadata.name;
        match timeout(LONGEST_OF_ONE, Box::pin(delete_listed_snapshots(&backup, &uid, &env))).await {
            Ok(Ok(_)) => {}
            Ok(Err(errors)) => {
                tracing::warn!(backup, location, errors = errors.join("; "), "snapshots of a deleted backup are left");
            }
            Err(_) => tracing::warn!(
                backup,
                location,
                "snapshots of a deleted backup are left: there was no time to delete them"
            ),
        }
    }
    Ok(())
}

/// Returns true if the backup with this UID has files, or nobody can say of which backup they are.
async fn has_files(store: &Store, backup: &str, uid: &str) -> Result<bool, StoreError> {
    match store.backup(backup).await {
        Ok(record) => Ok(record.metadata.uid == uid),
        Err(StoreError::OtherRecord { uid: other, .. }) => Ok(other == uid),
        Err(StoreError::NoBackup { .. }) => {
            Ok(store.claim_of(backup).await?.is_some_and(|claim| claim.backup_uid == uid))
        }
        Err(e) => Err(e),
    }
}
