//! Checks the asynchronous operations of a pending restore (velero: pkg/controller/restore_operations_controller.go).

use crate::state::env::Env;
use futures::FutureExt;
use jiff::SignedDuration;
use lifeboat_action::{ActionError, Inquiry, InquiryResult, OperationCounts, RestoreItemAction, ask_all};
use lifeboat_api::{Restore, RestorePhase, RestoreStatus};
use lifeboat_archive::layout::RestoreFile;
use lifeboat_archive::operations::RestoreOperation;
use lifeboat_archive::sidecar;
use lifeboat_store::StoreError;
use lifeboat_volume::csi::{CLAIM_RESTORE_ACTION, operations_of_claims};
use std::sync::Arc;

/// Asks for the progress of each operation of a pending restore, and ends those whose time is over, or all when the
/// user has cancelled the restore. Returns the restore with the results: its phase tells whether operations go on, or
/// [`crate::end::finalize`] can end it. A restore that does not wait for operations is returned unchanged.
///
/// Results are stored before it returns, so that it may be cut off anywhere and done again. An operation whose action
/// cannot answer is asked about again the next time, until its time is over.
///
/// # Errors
/// [`StoreError`]: the restore waits as before.
pub async fn look_after_operations(mut restore: Restore, env: &Env) -> Result<Restore, StoreError> {
    if !restore.status.phase.is_some_and(RestorePhase::waits_for_operations) {
        return Ok(restore);
    }
    let name = restore.metadata.name.clone();
    let mut operations = read(&name, env).await?;
    let asked = operations.iter().map(|operation| ask(operation, &restore, env).boxed()).collect();
    let answers = ask_all(asked, (env.operation.clock)()).await;
    let mut has_any_ended = false;
    for (operation, answer) in operations.iter_mut().zip(answers) {
        let Some(answer) = answer else { continue };
        let spec = &operation.spec;
        answer.tell(&spec.restore_item_action, &spec.operation_id, &env.operation.journal);
        has_any_ended |= answer.status.has_ended();
        operation.status = answer.status;
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
async fn ask(operation: &RestoreOperation, restore: &Restore, env: &Env) -> Option<InquiryResult> {
    if operation.status.has_ended() {
        return None;
    }
    let inquiry = Inquiry {
        before: operation.status.clone(),
        now: (env.operation.clock)(),
        within: SignedDuration::from_nanos(restore.spec.item_operation_timeout.nanoseconds()),
        is_cancelled: restore.spec.cancel,
        // The action for claims: its operations are DataDownloads.
        reports_movement: operation.spec.restore_item_action == CLAIM_RESTORE_ACTION,
    };
    let action = action(&operation.spec.restore_item_action, env);
    let id = &operation.spec.operation_id;
    let missing = || ActionError::missing(&operation.spec.restore_item_action);
    let progress = async { action.as_ref().ok_or_else(missing)?.progress(id, restore).await };
    let cancel = async { action.as_ref().ok_or_else(missing)?.cancel(id, restore).await };
    Some(inquiry.ask(progress, cancel).await)
}

/// The action of a name. Of the engine's own only that of claims begins operations.
fn action(name: &str, env: &Env) -> Option<Arc<dyn RestoreItemAction>> {
    if name == CLAIM_RESTORE_ACTION {
        return Some(operations_of_claims(&env.cluster));
    }
    env.actions.restore_item.iter().find(|action| action.name() == name).cloned()
}

/// Writes the results of the operations into the status of a restore.
fn settle(status: &mut RestoreStatus, operations: &[RestoreOperation]) {
    use RestorePhase as P;
    let OperationCounts { completed, failed, waiting } =
        OperationCounts::of(operations.iter().map(|operation| &operation.status));
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
