//! The restores of other clusters and namespaces, and of commands, that read a backup: their claims in the bucket tell it.

use super::{Context, StepError};
use crate::world::Meta;
use lifeboat_api::{Backup, BackupStorageLocation, DeleteBackupRequest};
use lifeboat_lifecycle::phase::facts::deletion_has_begun;
use lifeboat_lifecycle::phase::request::{ForeignRestore, restore_waited_for, tell_of_restore};
use lifeboat_store::{ReadingRestore, Store, StoreError};
use tokio::time::Instant;

/// The first restore that reads this backup, and that no Restore of this namespace tells of. Of a backup whose deletion has begun none is
/// asked for.
///
/// # Errors
/// The claims in the bucket, or the record of the backup, could not be read.
pub(super) async fn foreign_restore(
    context: &Context,
    backup: &Backup,
    location: &BackupStorageLocation,
    store: &Store,
) -> Result<Option<ForeignRestore>, StepError> {
    if deletion_has_begun(backup) {
        return Ok(None);
    }
    let name = &backup.metadata.name;
    let failed = |e: StoreError| {
        StepError::Because(format!(
            "backup {name} is not deleted yet: whether restores of other clusters read it could not be asked: {e}"
        ))
    };
    let (now, moment) = (context.env.now(), Instant::now());
    let reads = |all: Vec<ReadingRestore>| -> Vec<ReadingRestore> {
        all.into_iter().filter(|restore| restore.claim.backup == *name && restore.until > now).collect()
    };
    // What was found lately only keeps a backup: before one is deleted they are looked for anew.
    let mut of_name = reads(context.notes.locations.reading_restores(location.key(), moment).unwrap_or_default());
    if of_name.is_empty() {
        let found = store.reading_restores(now).await.map_err(failed)?;
        context.notes.locations.note_reading_restores(location.key(), moment, found.clone());
        of_name = reads(found);
    }
    if of_name.is_empty() {
        return Ok(None);
    }
    let cluster = context.cluster_uid().await?;
    let record = match store.backup(name).await {
        Ok(record) => record.metadata.uid,
        // Nothing is there to be read.
        Err(StoreError::NoBackup { .. } | StoreError::OtherRecord { .. }) => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let is_foreign = |restore: &ReadingRestore| {
        let claim = &restore.claim;
        let is_of_record = claim.backup_uid.is_empty() || claim.backup_uid == record;
        // Those of this server are Restores here, which tell more.
        is_of_record && (cluster.is_empty() || !claim.is_of_server(&cluster, &context.options.namespace))
    };
    let found = of_name.into_iter().find(is_foreign);
    Ok(found.map(|ReadingRestore { restore, claim, until }| {
        let cluster = if claim.cluster_uid.is_empty() { "unknown" } else { &claim.cluster_uid };
        let place = match claim.namespace.as_str() {
            "" => format!("of a command in cluster {cluster}"),
            namespace => format!("of namespace {namespace} in cluster {cluster}"),
        };
        ForeignRestore { restore, place, until }
    }))
}

/// Says in a request for which restore it waits, and with an event of the backup when that is another one than before.
pub(super) async fn say_restore(
    context: &Context,
    backup: &Backup,
    request: &DeleteBackupRequest,
    restore: &ForeignRestore,
) -> Result<(), StepError> {
    let is_new = restore_waited_for(request).is_none_or(|told| !told.starts_with(&restore.named()));
    let mut after = request.clone();
    tell_of_restore(&mut after, restore);
    context.client.change(request, &after).await?;
    if is_new {
        let told = format!("the deletion waits for {restore}");
        tracing::info!(backup = backup.metadata.name, "{told}");
        context.warn_of(backup, "DeletionWaits", &told).await;
    }
    Ok(())
}
