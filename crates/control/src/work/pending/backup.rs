//! Backups that wait for operations that their actions have begun
//! (velero: pkg/controller/backup_operations_controller.go, pkg/controller/backup_finalizer_controller.go).

use super::{Reached, given_up, note_reached};
use crate::work::backup::{BackupTarget, engine_env, is_record_of, note_failure, store_change, take_status};
use crate::work::running::{shortened, unfinalized, until_written, while_leading};
use crate::work::{Context, Effect, SnapshotLocations, StepError, StepResult};
use crate::world::Meta;
use lifeboat_api::{Backup, BackupPhase, BackupStorageLocation, Time};
use lifeboat_backup::{Env, finalize, look_after_operations};
use lifeboat_object::chain;
use lifeboat_store::{Store, StoreError};

/// Asks the operations of a backup how far they are; when none goes on it can be finalized.
pub(crate) async fn look_after(context: &Context, backup: Backup, target: BackupTarget) -> StepResult {
    let location = match target {
        Ok(location) if !location.is_read_only() => location,
        Ok(location) => {
            let why = format!("its backup storage location {} is read-only", location.metadata.name);
            return end_unfinalized(context, &backup, &why).await;
        }
        Err(why) => return end_unfinalized(context, &backup, &why).await,
    };
    let (env, record) = match reached(context, &backup, &location).await? {
        Reached::Ready(reached) => reached,
        Reached::Ended(ended) => return Ok(ended),
    };
    let looking = look_after_operations(record, backup.spec.cancel, &env);
    let record = match while_leading(&context.leadership, &env.operation.cancel, looking).await {
        Ok(record) => record,
        Err(e) if !e.is_damage() => return give_up(context, &backup, e.into()).await,
        Err(e) => return end_unfinalized(context, &backup, &chain(&e)).await,
    };
    let mut after = backup.clone();
    take_status(&mut after, &record);
    note_reached(&mut after.metadata);
    if after == backup {
        return Err(StepError::NotYet(context.options.operation_frequency.to_std()));
    }
    let stored = context.client.change(&backup, &after).await?;
    Ok(vec![Effect::stored(stored)])
}

/// Finalizes a backup whose operations have ended, if that is still to be done, and takes its outcome over from its record.
pub(crate) async fn end(context: &Context, backup: Backup, target: BackupTarget) -> StepResult {
    let location = match target {
        Ok(location) => location,
        Err(why) => return end_unfinalized(context, &backup, &why).await,
    };
    let (env, record) = match reached(context, &backup, &location).await? {
        Reached::Ready(reached) => reached,
        Reached::Ended(ended) => return Ok(ended),
    };
    let finalizing = finalize(record, backup.spec.cancel, &env);
    let record = match while_leading(&context.leadership, &env.operation.cancel, finalizing).await {
        Ok(record) => record,
        Err(e) if e.can_pass() => return give_up(context, &backup, StepError::because(&e)).await,
        Err(e) => return end_unfinalized(context, &backup, &chain(&e)).await,
    };
    let mut after = backup.clone();
    take_status(&mut after, &record);
    note_reached(&mut after.metadata);
    let saved = store_change(context, &backup, &after).await?;
    tracing::info!(backup = after.metadata.name, phase = after.phase(), "backup ends");
    context.metrics.backup_ends(&after, None);
    Ok(saved)
}

/// Ends a backup that waits or is being finalized and cannot be, for this reason. Its files stay as they are.
async fn end_unfinalized(context: &Context, backup: &Backup, why: &str) -> StepResult {
    tracing::error!(backup = backup.metadata.name, why, "a backup cannot be finalized");
    let now = context.env.now();
    let ended = until_written(context, backup, |after| {
        after.status.phase = Some(BackupPhase::PartiallyFailed);
        after.status.errors += 1;
        after.status.failure_reason = shortened(unfinalized(why));
        after.status.completion_timestamp = Some(Time::new(now));
        note_reached(&mut after.metadata);
    })
    .await?;
    context.metrics.backup_ends(&ended, None);
    Ok(vec![Effect::stored(ended)])
}

/// Opens the environment of the engine and the record of a pending backup.
async fn reached(
    context: &Context,
    backup: &Backup,
    location: &BackupStorageLocation,
) -> Result<Reached<(Env, Backup)>, StepError> {
    let store = match context.store(location).await {
        Ok(store) => store,
        Err(why) => return give_up(context, backup, StepError::Because(why)).await.map(Reached::Ended),
    };
    let record = match own_record(context, backup, &store).await? {
        Reached::Ready(record) => record,
        Reached::Ended(ended) => return Ok(Reached::Ended(ended)),
    };
    let (locations, cancel) = (SnapshotLocations::Named(&[]), context.env.cancel.child_token());
    match engine_env(context, backup, store, locations, cancel).await {
        Ok(env) => Ok(Reached::Ready((env, record))),
        Err(why) => give_up(context, backup, StepError::Because(why)).await.map(Reached::Ended),
    }
}

/// Ends a backup that cannot be gone on with for this reason, when that has been so for too long.
async fn give_up(context: &Context, backup: &Backup, why: StepError) -> StepResult {
    let (begun, timeout) = (backup.status.start_timestamp, backup.spec.item_operation_timeout);
    end_unfinalized(context, backup, &given_up(context, backup, begun, timeout, why).await?).await
}

/// The record of this very backup in its location. When there is none, or that of another one, the backup is noted as failed.
async fn own_record(context: &Context, backup: &Backup, store: &Store) -> Result<Reached<Backup>, StepError> {
    let why = match store.backup(&backup.metadata.name).await {
        Ok(record) if is_record_of(&record, backup) => return Ok(Reached::Ready(record)),
        Ok(_) => "the files in the bucket are those of another backup",
        Err(StoreError::NoBackup { .. }) => "the files of the backup are not in the bucket",
        Err(e) if !e.is_damage() => return give_up(context, backup, e.into()).await.map(Reached::Ended),
        Err(e) => return end_unfinalized(context, backup, &chain(&e)).await.map(Reached::Ended),
    };
    note_failure(context, backup, why.to_owned()).await.map(Reached::Ended)
}
