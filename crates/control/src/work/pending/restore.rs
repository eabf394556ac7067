//! Restores that wait for operations that their actions have begun (api-and-controllers.md 3.11 and 3.12).

use crate::records::RecordMap;
use crate::work::restore::{Place, engine_env, store_change};
use crate::work::running::{shortened, unfinalized, while_leading};
use crate::work::{Context, Effect, Finished, Unfinished};
use lifeboat_api::{Restore, RestorePhase, Time};
use lifeboat_object::chain;
use lifeboat_restore::{finalize, look_after_operations};
use std::time::Duration;

/// Asks the operations of a restore how far they are; when none goes on it can be finalized.
pub(crate) async fn look_after(context: &Context, restore: Restore, place: Option<Place>) -> Finished {
    let after = if let Some((_, location)) = place {
        let store = context.store(&location).await.map_err(Unfinished::Because)?;
        let env = engine_env(context, &restore, store, context.env.cancel.child_token()).await;
        let env = env.map_err(Unfinished::Because)?;
        let looking = look_after_operations(restore.clone(), &env);
        match while_leading(&context.leadership, &env.operation.cancel, looking).await {
            Ok(after) => after,
            Err(e) if !e.is_damage() => return Err(e.into()),
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
    if after.status == restore.status {
        return Err(Unfinished::NotYet(context.options.operation_frequency.to_std()));
    }
    let stored = context.client.change(&restore, &after).await?;
    Ok(vec![Effect::stored(stored)])
}

/// Finalizes a restore whose operations have ended, if that is still to be done, and ends it. Without its backup or the
/// location there is nothing that could say that it is complete.
pub(crate) async fn end(context: &Context, restore: Restore, place: Option<Place>) -> Finished {
    let after = match place {
        Some((_, location)) => {
            let store = context.store(&location).await.map_err(Unfinished::Because)?;
            let env = engine_env(context, &restore, store, context.env.cancel.child_token()).await;
            let env = env.map_err(Unfinished::Because)?;
            let patience = context.options.restore.resource_timeout.to_std();
            let finalizing = finalize(restore.clone(), patience, &env);
            match while_leading(&context.leadership, &env.operation.cancel, finalizing).await {
                Ok(after) if after.status.phase.is_some_and(RestorePhase::is_finalizing) => {
                    return Err(Unfinished::NotYet(FINALIZE_AGAIN));
                }
                Ok(after) => after,
                Err(e) if e.can_pass() => return Err(e.into()),
                Err(e) => mark_unfinalized(context, restore.clone(), &chain(&e)),
            }
        }
        None => mark_unfinalized(context, restore.clone(), WITHOUT_ORIGIN),
    };
    let finished = store_change(context, &restore, &after).await?;
    context.metrics.restore_ends(&after);
    RecordMap::new(context, &restore).forget().await;
    Ok(finished)
}

/// Between two looks at claims that have no volumes yet.
const FINALIZE_AGAIN: Duration = Duration::from_secs(2);

/// Why nothing can be said of what a restore was made from.
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
