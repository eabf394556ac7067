//! Looks after the operations that actions have begun for a pending restore (restore.md 1.9, api-and-controllers.md 3.11).

use crate::env::Env;
use futures::{FutureExt, StreamExt};
use jiff::SignedDuration;
use lifeboat_action::{ActionError, Follow, Followed, RestoreItemAction, Standing};
use lifeboat_api::{Restore, RestorePhase, RestoreStatus};
use lifeboat_archive::layout::RestoreFile;
use lifeboat_archive::operations::RestoreOperation;
use lifeboat_archive::sidecar;
use lifeboat_store::StoreError;
use std::sync::Arc;

/// Operations that are asked for at once.
const AT_ONCE: usize = 8;

/// Asks each operation of a pending restore how far it is, and ends those whose time is over; all of them when the user has
/// cancelled the restore. Gives the restore with what they have come to: its phase says whether operations go on, or
/// [`crate::finalize`] can end it. One that does not wait is given back as it is.
///
/// What has ended is stored before this returns, so that it may be cut off anywhere and done again. An operation whose action
/// cannot answer is asked again the next time, until its time is over.
///
/// # Errors
/// [`StoreError`]: the restore waits as before.
pub async fn look_after_operations(mut restore: Restore, env: &Env) -> Result<Restore, StoreError> {
    use RestorePhase::{WaitingForPluginOperations, WaitingForPluginOperationsPartiallyFailed};
    if !matches!(restore.status.phase, Some(WaitingForPluginOperations | WaitingForPluginOperationsPartiallyFailed)) {
        return Ok(restore);
    }
    let name = restore.metadata.name.clone();
    let mut operations = read(&name, env).await?;
    let followed: Vec<Option<Followed>> = {
        let asked: Vec<_> = operations.iter().map(|operation| follow(operation, &restore, env).boxed()).collect();
        futures::stream::iter(asked).buffered(AT_ONCE).collect().await
    };
    let mut has_any_ended = false;
    for (operation, followed) in operations.iter_mut().zip(followed) {
        let Some(followed) = followed else { continue };
        if let Some((message, why)) = followed.news() {
            let spec = &operation.spec;
            let fields = [("action", spec.restore_item_action.as_str()), ("operation", &spec.operation_id), why];
            env.operation.journal.info(message, &fields);
        }
        has_any_ended |= followed.status.has_ended();
        operation.status = followed.status;
    }
    if has_any_ended {
        let bytes = sidecar::encode(&operations).map_err(|e| StoreError::Encode("the item operations", e))?;
        env.store.put_restore_file(&name, RestoreFile::ItemOperations, bytes).await?;
    }
    settle(&mut restore.status, &operations);
    Ok(restore)
}

/// The operations of a restore, as they were last stored.
pub(crate) async fn read(name: &str, env: &Env) -> Result<Vec<RestoreOperation>, StoreError> {
    Ok(env.store.restore_file(name, RestoreFile::ItemOperations).await?.unwrap_or_default())
}

/// Asks one operation; `None` when it has ended before.
async fn follow(operation: &RestoreOperation, restore: &Restore, env: &Env) -> Option<Followed> {
    if operation.status.has_ended() {
        return None;
    }
    let follow = Follow {
        before: operation.status.clone(),
        now: (env.operation.clock)(),
        within: SignedDuration::from_nanos(restore.spec.item_operation_timeout.nanoseconds()),
        is_cancelled: restore.spec.cancel,
    };
    let action = action(&operation.spec.restore_item_action, env);
    let id = &operation.spec.operation_id;
    let missing = || ActionError::missing(&operation.spec.restore_item_action);
    let progress = async { action.as_ref().ok_or_else(missing)?.progress(id, restore).await };
    let cancel = async { action.as_ref().ok_or_else(missing)?.cancel(id, restore).await };
    Some(follow.ask(progress, cancel).await)
}

/// The action of a name. None of the engine's own begins operations.
fn action(name: &str, env: &Env) -> Option<Arc<dyn RestoreItemAction>> {
    env.actions.restore_item.iter().find(|action| action.name() == name).cloned()
}

/// Brings what the operations have come to into the status of a restore.
fn settle(status: &mut RestoreStatus, operations: &[RestoreOperation]) {
    use RestorePhase as P;
    let Standing { completed, failed, waiting } = Standing::of(operations.iter().map(|operation| &operation.status));
    status.errors += (failed - status.restore_item_operations_failed).max(0);
    status.restore_item_operations_attempted = completed + failed + waiting;
    status.restore_item_operations_completed = completed;
    status.restore_item_operations_failed = failed;
    let is_good = status.phase == Some(P::WaitingForPluginOperations) && failed == 0;
    status.phase = Some(match (waiting, is_good) {
        (0, true) => P::Finalizing,
        (0, false) => P::FinalizingPartiallyFailed,
        (_, true) => P::WaitingForPluginOperations,
        (_, false) => P::WaitingForPluginOperationsPartiallyFailed,
    });
}
