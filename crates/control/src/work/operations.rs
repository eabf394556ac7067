//! Looks after asynchronous operations of backups and restores that wait for these (api-and-controllers.md 3.4 and 3.11).

use super::backup::{self, Target, end_unfinalized, own_record};
use super::restore;
use super::running::while_leading;
use super::{Context, Effect, Finished, Unfinished};
use lifeboat_api::{Backup, BackupStorageLocation, BackupStorageLocationAccessMode, Restore, RestorePhase};
use lifeboat_backup::look_after_operations as of_backup;
use lifeboat_restore::look_after_operations as of_restore;

/// Asks the operations of a backup how far they are; when none goes on it can be finalized.
pub(crate) async fn backup(context: &Context, backup: Backup, target: Target) -> Finished {
    let location = match target {
        Ok(location) if location.spec.access_mode != Some(BackupStorageLocationAccessMode::ReadOnly) => location,
        Ok(location) => {
            let why = format!("its backup storage location {} is read-only", location.metadata.name);
            return end_unfinalized(context, &backup, &why).await;
        }
        Err(why) => return end_unfinalized(context, &backup, &why).await,
    };
    let store = context.store(&location).await.map_err(Unfinished::Because)?;
    let record = match own_record(context, &backup, &store).await? {
        Ok(record) => record,
        Err(ended) => return Ok(ended),
    };
    let env = backup::engine_env(context, &backup, store, context.env.cancel.child_token());
    let looking = of_backup(record, backup.spec.cancel, &env);
    let record = while_leading(&context.leadership, &env.operation.cancel, looking).await?;
    let mut after = backup.clone();
    backup::take_status(&mut after, &record.status);
    if after.status == backup.status {
        return Err(Unfinished::NotYet(context.options.operation_frequency.to_std()));
    }
    let stored = context.client.change(&backup, &after).await?;
    Ok(vec![Effect::stored(stored)])
}

/// Asks the operations of a restore how far they are; when none goes on it can be finalized.
pub(crate) async fn restore(
    context: &Context,
    restore: Restore,
    place: Option<(Backup, BackupStorageLocation)>,
) -> Finished {
    let after = if let Some((_, location)) = place {
        let store = context.store(&location).await.map_err(Unfinished::Because)?;
        let env = restore::engine_env(context, &restore, store, context.env.cancel.child_token());
        let looking = of_restore(restore.clone(), &env);
        while_leading(&context.leadership, &env.operation.cancel, looking).await?
    } else {
        // Nothing can be stored of it: the next step ends it.
        let mut after = restore.clone();
        after.status.phase = Some(RestorePhase::FinalizingPartiallyFailed);
        after
    };
    if after.status == restore.status {
        return Err(Unfinished::NotYet(context.options.operation_frequency.to_std()));
    }
    let stored = context.client.change(&restore, &after).await?;
    Ok(vec![Effect::stored(stored)])
}

#[cfg(test)]
mod tests;
