//! Looks after the operations that actions have begun for a pending backup
//! (velero: pkg/controller/backup_operations_controller.go).

use crate::actions::{ActionContext, built_in};
use crate::env::Env;
use crate::volumes::snapshots::csi_snapshots_of;
use futures::FutureExt;
use jiff::SignedDuration;
use lifeboat_action::{ActionError, BackupItemAction, Inquiry, InquiryResult, OperationCounts, ask_all};
use lifeboat_api::{Backup, BackupPhase, BackupStatus, OperationPhase, OperationStatus, Time};
use lifeboat_archive::ReadLimits;
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::operations::BackupOperation;
use lifeboat_archive::sidecar;
use lifeboat_store::{OpenOptions, Rewrite, StoreError};
use lifeboat_volume::csi::{CLAIM_BACKUP_ACTION, SNAPSHOT_API, served};
use std::sync::Arc;

/// The time after which the bucket shows anew that operations go on.
const SHOW_EVERY: SignedDuration = SignedDuration::from_hours(1);

/// Asks each operation of a pending backup how far it is, and ends those whose time is over; all of them when the user has
/// cancelled the backup. Gives the record as it is stored then: its phase says whether operations go on, or
/// [`crate::end::finalize`] can end the backup. `record` is what [`lifeboat_store::Store::backup`] gives; one that does not wait is
/// given back as it is.
///
/// The state of operations that have ended is stored before this returns, and that of others every hour, so that it may be cut off anywhere and done
/// again; the backup can be proved at every moment. An operation whose action cannot answer is asked again the next
/// time, until its time is over.
///
/// # Errors
/// [`StoreError`]: the backup waits as before.
pub async fn look_after_operations(mut record: Backup, is_cancelled: bool, env: &Env) -> Result<Backup, StoreError> {
    if !record.status.phase.is_some_and(BackupPhase::waits_for_operations) {
        return Ok(record);
    }
    let name = record.metadata.name.clone();
    let mut operations = read(&name, env).await?;
    let known = Box::pin(known(&operations, &record, env)).await;
    let asker = OperationInquirer { known: &known, record: &record, is_cancelled, env };
    let asked = operations.iter().map(|operation| asker.ask(operation).boxed()).collect();
    let answers = ask_all(asked, (env.operation.clock)()).await;
    let mut is_changed = false;
    for (operation, answer) in operations.iter_mut().zip(answers) {
        let Some(answer) = answer else { continue };
        let spec = &operation.spec;
        answer.tell(&spec.backup_item_action, &spec.operation_id, &env.operation.journal);
        is_changed |= answer.status.has_ended() || is_to_be_shown(&operation.status, &answer.status);
        operation.status = answer.status;
    }
    is_changed |= settle(&mut record.status, &operations);
    if is_changed {
        let operations = sidecar::encode(&operations).map_err(|e| StoreError::Encode("the item operations", e))?;
        let change = Rewrite {
            objects: Vec::new(),
            files: vec![(BackupFile::ItemOperations, operations.into())],
            record: record.clone(),
            mtime: 0,
        };
        Box::pin(env.store.rewrite(&name, change, &open_options(env))).await?;
    }
    Ok(record)
}

/// Returns true if the bucket is to show that an operation goes on: other clusters see it there alone.
fn is_to_be_shown(stored: &OperationStatus, answered: &OperationStatus) -> bool {
    let at = |status: &OperationStatus| status.updated.or(status.created).map(Time::timestamp);
    let (before, after) = (at(stored), at(answered));
    before.zip(after).is_some_and(|(before, after)| after.duration_since(before) >= SHOW_EVERY)
}

/// The operations of a backup, as they were last stored.
pub(crate) async fn read(name: &str, env: &Env) -> Result<Vec<BackupOperation>, StoreError> {
    Ok(env.store.backup_file(name, BackupFile::ItemOperations).await?.unwrap_or_default())
}

/// The options with which the archive of a committed backup is opened, to be rewritten.
pub(crate) fn open_options(env: &Env) -> OpenOptions {
    OpenOptions { limits: ReadLimits::default(), scratch: env.operation.scratch.clone(), ignore_index: false }
}

/// Returns true for the actions of CSI snapshots.
fn is_of_csi(action: &str) -> bool {
    action.starts_with("velero.io/csi-")
}

/// The context of the engine's own actions that have begun these operations; or the reason for which the actions of CSI
/// snapshots cannot be asked just now.
async fn known(operations: &[BackupOperation], record: &Backup, env: &Env) -> Result<ActionContext, String> {
    let is_asked =
        |operation: &BackupOperation| !operation.status.has_ended() && is_of_csi(&operation.spec.backup_item_action);
    if !operations.iter().any(is_asked) {
        return Ok(ActionContext::default());
    }
    match served(&env.cluster).await {
        Ok(Some(types)) => {
            Ok(ActionContext { csi: Some(csi_snapshots_of(record, types, env)), ..ActionContext::default() })
        }
        Ok(None) => Err(format!("the cluster does not serve {SNAPSHOT_API}")),
        Err(e) => Err(e.to_string()),
    }
}

/// Everything that is needed to ask an action about an operation.
struct OperationInquirer<'a> {
    known: &'a Result<ActionContext, String>,
    record: &'a Backup,
    is_cancelled: bool,
    env: &'a Env,
}

impl OperationInquirer<'_> {
    /// Asks one operation; `None` when it has ended before.
    async fn ask(&self, operation: &BackupOperation) -> Option<InquiryResult> {
        if operation.status.has_ended() {
            return None;
        }
        let inquiry = Inquiry {
            before: operation.status.clone(),
            now: (self.env.operation.clock)(),
            within: SignedDuration::from_nanos(self.record.spec.item_operation_timeout.nanoseconds()),
            is_cancelled: self.is_cancelled,
            // The action for claims: its operations are DataUploads.
            reports_movement: operation.spec.backup_item_action == CLAIM_BACKUP_ACTION,
        };
        let action = self.action(&operation.spec.backup_item_action);
        let (id, record) = (&operation.spec.operation_id, self.record);
        let missing = || self.missing(&operation.spec.backup_item_action);
        let progress = async { action.as_ref().ok_or_else(missing)?.progress(id, record).await };
        let cancel = async { action.as_ref().ok_or_else(missing)?.cancel(id, record).await };
        let mut answer = inquiry.ask(progress, cancel).await;
        if answer.status.phase == Some(OperationPhase::Failed) {
            // compat: the message names the plugin.
            answer.status.error += &format!(", plugin: {}", operation.spec.backup_item_action);
        }
        Some(answer)
    }

    /// The error for an action that is missing. An action of CSI snapshots is there again when the cluster serves these
    /// again.
    fn missing(&self, name: &str) -> ActionError {
        match self.known {
            Err(why) if is_of_csi(name) => ActionError::passing(why.clone()),
            _ => ActionError::missing(name),
        }
    }

    /// The action of a name, one of the engine's own first.
    fn action(&self, name: &str) -> Option<Arc<dyn BackupItemAction>> {
        let own = self.known.as_ref().map_or_else(|_| built_in(&ActionContext::default()), built_in);
        own.into_iter().chain(self.env.actions.backup_item.iter().cloned()).find(|action| action.name() == name)
    }
}

/// Brings the results of the operations into the status of a backup. Returns true if that changes it.
fn settle(status: &mut BackupStatus, operations: &[BackupOperation]) -> bool {
    use BackupPhase as P;
    let before = status.clone();
    let OperationCounts { completed, failed, waiting } =
        OperationCounts::of(operations.iter().map(|operation| &operation.status));
    status.errors += (failed - status.backup_item_operations_failed).max(0);
    status.backup_item_operations_attempted = completed + failed + waiting;
    status.backup_item_operations_completed = completed;
    status.backup_item_operations_failed = failed;
    // compat: completed snapshots count as such by the type of their object
    // (velero: pkg/controller/backup_operations_controller.go).
    status.csi_volume_snapshots_completed = completed_snapshots(operations);
    let is_good = status.phase == Some(P::WaitingForPluginOperations) && failed == 0;
    status.phase = Some(match (waiting, is_good) {
        (0, true) => P::Finalizing,
        (0, false) => P::FinalizingPartiallyFailed,
        (_, true) => P::WaitingForPluginOperations,
        (_, false) => P::WaitingForPluginOperationsPartiallyFailed,
    });
    *status != before
}

fn completed_snapshots(operations: &[BackupOperation]) -> i64 {
    let is_one = |operation: &&BackupOperation| {
        let object = &operation.spec.resource_identifier;
        object.resource == "volumesnapshots"
            && object.group == "snapshot.storage.k8s.io"
            && operation.status.phase == Some(OperationPhase::Completed)
    };
    i64::try_from(operations.iter().filter(is_one).count()).unwrap_or(i64::MAX)
}
