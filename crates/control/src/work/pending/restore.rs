//! Restores that wait for operations that their actions have begun
//! (velero: pkg/controller/restore_operations_controller.go, pkg/controller/restore_finalizer_controller.go).

use super::{Reached, given_up, note_reached};
use crate::records::RecordMap;
use crate::work::restore::{LocatedBackup, engine_env, store_change};
use crate::work::running::{shortened, unfinalized, while_leading};
use crate::work::{Context, Effect, StepError, StepResult};
use lifeboat_api::{BackupStorageLocation, Restore, RestorePhase, Time};
use lifeboat_object::chain;
use lifeboat_restore::{Env, finalize, look_after_operations};
use std::time::Duration;

/// Asks the operations of a restore how far they are; when none goes on it can be finalized.
pub(crate) async fn look_after(context: &Context, restore: Restore, place: Option<LocatedBackup>) -> StepResult {
    let mut after = if let Some((_, location)) = place {
        let env = match Box::pin(reached(context, &restore, &location)).await? {
            Reached::Ready(env) => env,
            Reached::Ended(ended) => return Ok(ended),
        };
        let looking = Box::pin(look_after_operations(restore.clone(), &env));
        match while_leading(&context.leadership, &env.operation.cancel, looking).await {
            Ok(after) => after,
            Err(e) if !e.is_damage() => return Box::pin(give_up(context, &restore, e.into())).await,
            Err(e) => {
                // The next step ends it, and says this.
                tracing::error!(restore = restore.metadata.name, error = %chain(&e), "its operations cannot be read");
                let mut after = restore.clone();
                after.status.phase = Some(RestorePhase::FinalizingPartiallyFailed);
                after
            }
        }
    } else {
        // Nothing can be stored of it: the next step ends it.
        let mut after = restore.clone();
        after.status.phase = Some(RestorePhase::FinalizingPartiallyFailed);
        after
    };
    note_reached(&mut after.metadata);
    if after == restore {
        return Err(StepError::NotYet(context.options.operation_frequency.to_std()));
    }
    let stored = context.client.change(&restore, &after).await?;
    Ok(vec![Effect::stored(stored)])
}

/// Finalizes a restore whose operations have ended, if that is still to be done, and ends it. Without its backup or the
/// location there is nothing that could say that it is complete.
pub(crate) async fn end(context: &Context, restore: Restore, place: Option<LocatedBackup>) -> StepResult {
    let after = match place {
        Some((_, location)) => {
            let env = match reached(context, &restore, &location).await? {
                Reached::Ready(env) => env,
                Reached::Ended(ended) => return Ok(ended),
            };
            let patience = context.options.restore.resource_timeout.to_std();
            let finalizing = finalize(restore.clone(), patience, &env);
            match while_leading(&context.leadership, &env.operation.cancel, finalizing).await {
                Ok(after) if after.status.phase.is_some_and(RestorePhase::is_finalizing) => {
                    let mut reached = restore.clone();
                    note_reached(&mut reached.metadata);
                    context.client.change(&restore, &reached).await?;
                    return Err(StepError::NotYet(FINALIZE_AGAIN));
                }
                Ok(after) => after,
                Err(e) if e.can_pass() => return give_up(context, &restore, e.into()).await,
                Err(e) => mark_unfinalized(context, restore.clone(), &chain(&e)),
            }
        }
        None => mark_unfinalized(context, restore.clone(), WITHOUT_ORIGIN),
    };
    note_ended(context, &restore, after).await
}

async fn note_ended(context: &Context, restore: &Restore, mut after: Restore) -> StepResult {
    note_reached(&mut after.metadata);
    let finished = store_change(context, restore, &after).await?;
    context.metrics.restore_ends(&after);
    RecordMap::new(context, restore).forget().await;
    Ok(finished)
}

/// Opens the environment of the engine for a pending restore.
async fn reached(
    context: &Context,
    restore: &Restore,
    location: &BackupStorageLocation,
) -> Result<Reached<Env>, StepError> {
    let opened = match context.store(location).await {
        Ok(store) => engine_env(context, restore, store, context.env.cancel.child_token()).await,
        Err(why) => Err(why),
    };
    match opened {
        Ok(env) => Ok(Reached::Ready(env)),
        Err(why) => give_up(context, restore, StepError::Because(why)).await.map(Reached::Ended),
    }
}

/// Ends a restore that cannot be gone on with for this reason, when that has been so for too long.
async fn give_up(context: &Context, restore: &Restore, why: StepError) -> StepResult {
    let (begun, timeout) = (restore.status.start_timestamp, restore.spec.item_operation_timeout);
    let why = given_up(context, restore, begun, timeout, why).await?;
    note_ended(context, restore, mark_unfinalized(context, restore.clone(), &why)).await
}

/// Pause between two looks at claims that have no volumes yet.
const FINALIZE_AGAIN: Duration = Duration::from_secs(2);

/// The reason for ending a restore whose backup or location is gone.
const WITHOUT_ORIGIN: &str = "its backup or the location of that is gone";

/// A restore that cannot be finalized as it ends, for this reason.
fn mark_unfinalized(context: &Context, mut restore: Restore, why: &str) -> Restore {
    tracing::error!(restore = restore.metadata.name, why, "a restore cannot be finalized");
    let status = &mut restore.status;
    status.phase = Some(RestorePhase::PartiallyFailed);
    status.errors += 1;
    status.failure_reason = shortened(unfinalized(why));
    status.completion_timestamp = Some(Time::new(context.env.now()));
    restore
}
