//! Ends a restore whose operations have ended (velero: pkg/controller/restore_finalizer_controller.go).

use crate::end::claim::note_end;
use crate::end::look_after::read;
use crate::end::record::log_content;
use crate::state::env::Env;
use crate::volumes::group_stubs;
use crate::volumes::patches;
use crate::walk::run::subject;
use lifeboat_api::well_known::LABEL_RESTORE_UID;
use lifeboat_api::{DataDownload, OperationPhase, Restore, RestorePhase, Time};
use lifeboat_archive::layout::RestoreFile;
use lifeboat_archive::operations::RestoreOperation;
use lifeboat_archive::sidecar;
use lifeboat_object::{ObjectKey, ResultScope, Results};
use lifeboat_store::StoreError;
use lifeboat_volume::csi::CLAIM_RESTORE_ACTION;
use lifeboat_volume::data_movement::restore::incomplete_downloads;
use std::time::Duration;

/// Ends a restore once all of its operations have ended: waits until the claims that it has made have their volumes,
/// adds failures to its results and its log, and returns it in its last state. Each call is short: while a claim is
/// waited for, at most for `patience` from the first call on, it returns the restore unchanged, and must be called
/// again. A restore that is not to be finalized is returned unchanged, too.
///
/// It may be cut off anywhere and done again.
///
/// # Errors
/// [`StoreError`].
pub async fn finalize(restore: Restore, patience: Duration, env: &Env) -> Result<Restore, StoreError> {
    let has_failed = match restore.status.phase {
        Some(RestorePhase::Finalizing) => false,
        Some(RestorePhase::FinalizingPartiallyFailed) => true,
        _ => return Ok(restore),
    };
    if !patches::look(&restore, patience, env).await? {
        return Ok(restore);
    }
    if !Box::pin(group_stubs::remove(&restore, patience, env)).await? {
        return Ok(restore);
    }
    let trace = env.operation.trace();
    trace.begin(subject(&restore));
    let ended = trace.stage("finalize", Box::pin(end(restore, has_failed, env))).await?;
    note_end(&ended, env).await;
    Ok(ended)
}

async fn end(mut restore: Restore, has_failed: bool, env: &Env) -> Result<Restore, StoreError> {
    let operations = read(&restore.metadata.name, env).await?;
    let counts = env.operation.journal.counts();
    if !operations.is_empty() || counts != (0, 0) {
        env.operation.journal.info("Finalizing the restore", &[("operations", &operations.len().to_string())]);
        operations.iter().for_each(|operation| tell_failed(operation, env));
        if operations.iter().any(|operation| operation.spec.restore_item_action == CLAIM_RESTORE_ACTION) {
            tell_passed_over(&restore, env).await;
        }
        store(&mut restore, env).await?;
    }
    let status = &mut restore.status;
    status.phase = Some(match has_failed || status.errors > 0 {
        true => RestorePhase::PartiallyFailed,
        false => RestorePhase::Completed,
    });
    status.completion_timestamp = Some(Time::new((env.operation.clock)()));
    Ok(restore)
}

/// Stores results and log with the new messages. An earlier run that was cut off may have done so before.
async fn store(restore: &mut Restore, env: &Env) -> Result<(), StoreError> {
    let (name, closed) = (&restore.metadata.name, env.operation.journal.close());
    let mut results: Results = env.store.restore_file(name, RestoreFile::Results).await?.unwrap_or_default();
    results.merge(closed.results);
    // A log is one or more gzip members.
    let before = env.store.restore_file_content(name, RestoreFile::Logs, &env.operation.scratch).await?;
    let log = before.unwrap_or_default().followed_by(log_content(closed.log));
    let bytes = sidecar::encode(&results).map_err(|e| StoreError::Encode("the results", e))?;
    env.store.put_restore_file(name, RestoreFile::Results, bytes).await?;
    env.store.put_restore_file(name, RestoreFile::Logs, log).await?;
    // More than the results have room for was counted when it happened.
    let count = |set: usize| i64::try_from(set).unwrap_or(i64::MAX);
    restore.status.errors = restore.status.errors.max(count(results.errors.len()));
    restore.status.warnings = restore.status.warnings.max(count(results.warnings.len()));
    Ok(())
}

/// Warns of what data movers have passed over in claims that they have filled.
async fn tell_passed_over(restore: &Restore, env: &Env) {
    let journal = &env.operation.journal;
    match incomplete_downloads(restore, &env.cluster).await {
        Ok(downloads) => downloads.iter().for_each(|DataDownload { spec, status, .. }| {
            let target = &spec.target_volume;
            let text = format!("claim {}, whose data a data mover has restored: {}", target.pvc, status.message);
            journal.warn(&ResultScope::of(Some(&target.namespace)), text);
        }),
        Err(e) => {
            let text = format!(
                "it is not known if data movers have passed over some of what they have restored: {e}; look at status.message of the \
                 DataDownloads with the label {LABEL_RESTORE_UID}={}",
                restore.metadata.uid
            );
            journal.warn(&ResultScope::Velero, text);
        }
    }
}

fn tell_failed(operation: &RestoreOperation, env: &Env) {
    if operation.status.phase != Some(OperationPhase::Failed) {
        return;
    }
    let spec = &operation.spec;
    let object: ObjectKey = (&spec.resource_identifier).into();
    let (id, action, why) = (&spec.operation_id, &spec.restore_item_action, &operation.status.error);
    let message = format!("the operation {id} that the action {action} has begun for {object} has failed: {why}");
    env.operation.journal.error(&ResultScope::of(object.namespace.as_deref()), message);
}
