//! Looks after asynchronous operations that a server of Velero has left (api-and-controllers.md 3.4 and 3.11).

use super::backup::{Target, end_without_location};
use super::{Context, Effect, Finished, Unfinished};
use crate::phase::operations::{End, settle_backup, settle_restore, tally};
use jiff::SignedDuration;
use lifeboat_api::{Backup, BackupStorageLocation, BackupStorageLocationAccessMode, Duration, Restore, RestorePhase};
use lifeboat_archive::layout::{BackupFile, RestoreFile};
use lifeboat_archive::sidecar;
use lifeboat_store::StoreError;
use serde_json::Value;

/// For what names no time of its own.
const DEFAULT_TIMEOUT: SignedDuration = SignedDuration::from_hours(4);

fn end(own: Duration, cancelled: bool) -> End {
    match own {
        _ if cancelled => End::Now,
        own if own.is_zero() => End::After(DEFAULT_TIMEOUT),
        own => End::After(SignedDuration::from_nanos(own.nanoseconds())),
    }
}

fn because(e: StoreError) -> Unfinished {
    Unfinished::Because(e.to_string())
}

fn encode(operations: &[Value]) -> Result<Vec<u8>, Unfinished> {
    sidecar::encode(&operations).map_err(|e| Unfinished::Because(format!("the operations cannot be written: {e}")))
}

/// Ends overdue operations of a backup; when none is left it can be finalized.
pub(crate) async fn backup(context: &Context, backup: Backup, target: Target) -> Finished {
    let name = &backup.metadata.name;
    let location = match target {
        Ok(location) if location.spec.access_mode != Some(BackupStorageLocationAccessMode::ReadOnly) => location,
        Ok(_) => return end_without_location(context, &backup, "BSL is read-only").await,
        Err(why) => return end_without_location(context, &backup, &why).await,
    };
    let store = context.store(&location).await.map_err(Unfinished::Because)?;
    let operations = store.backup_file(name, BackupFile::ItemOperations).await.map_err(because)?;
    let mut operations: Vec<Value> = operations.unwrap_or_default();
    let tally =
        tally(&mut operations, end(backup.spec.item_operation_timeout, backup.spec.cancel), true, context.env.now());
    let mut after = backup.clone();
    if !settle_backup(&mut after, &tally) {
        return Err(Unfinished::NotYet(context.options.operation_frequency.to_std()));
    }
    tracing::info!(backup = name, waiting = tally.waiting, failed = tally.failed, "operations of another server");
    let mut record = store.backup(name).await.map_err(because)?;
    record.status = after.status.clone();
    store.replace_file(name, BackupFile::ItemOperations, encode(&operations)?).await.map_err(because)?;
    store.replace_record(&record).await.map_err(because)?;
    let stored = context.client.change(&backup, &after).await?;
    Ok(vec![Effect::stored(stored)])
}

/// Ends overdue operations of a restore; when none is left it can be finalized.
pub(crate) async fn restore(
    context: &Context,
    restore: Restore,
    place: Option<(Backup, BackupStorageLocation)>,
) -> Finished {
    let name = &restore.metadata.name;
    let mut after = restore.clone();
    if let Some((_, location)) = place {
        let store = context.store(&location).await.map_err(Unfinished::Because)?;
        let operations = store.restore_file(name, RestoreFile::ItemOperations).await.map_err(because)?;
        let mut operations: Vec<Value> = operations.unwrap_or_default();
        let tally = tally(
            &mut operations,
            end(restore.spec.item_operation_timeout, restore.spec.cancel),
            false,
            context.env.now(),
        );
        if !settle_restore(&mut after, &tally) {
            return Err(Unfinished::NotYet(context.options.operation_frequency.to_std()));
        }
        tracing::info!(restore = name, waiting = tally.waiting, failed = tally.failed, "operations of another server");
        let file = RestoreFile::ItemOperations;
        store.put_restore_file(name, file, encode(&operations)?).await.map_err(because)?;
    } else {
        after.status.phase = Some(RestorePhase::FinalizingPartiallyFailed);
    }
    let stored = context.client.change(&restore, &after).await?;
    Ok(vec![Effect::stored(stored)])
}
