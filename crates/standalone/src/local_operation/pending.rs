//! Waits for the asynchronous operations of a local backup or restore: without a server nobody else does.

use lifeboat_api::{BackupPhase, Duration, RestorePhase};
use lifeboat_operation::Operation;
use lifeboat_terminal::output::progress::watched;
use std::sync::Arc;

/// Between two looks at what goes on.
const PAUSE: std::time::Duration = std::time::Duration::from_secs(1);

/// The same operation with a new journal, for messages during the wait.
fn anew(operation: &Operation) -> Operation {
    let new = Operation::new(Arc::clone(&operation.clock), "", operation.scratch.clone());
    new.trace().join(operation.trace());
    Operation { cancel: operation.cancel.clone(), records: Arc::clone(&operation.records), ..new }
}

/// Waits for the operations that a backup has begun, such as snapshots that are not ready yet, and ends it. The same command again
/// goes on where this was cut off.
pub(crate) async fn end_backup(
    outcome: &mut lifeboat_backup::Outcome,
    env: &lifeboat_backup::Env,
) -> anyhow::Result<()> {
    use lifeboat_backup::{finalize, look_after_operations};
    let env = lifeboat_backup::Env { operation: anew(&env.operation), ..env.clone() };
    let mut record = outcome.backup.clone();
    let waiting = async {
        loop {
            record = look_after_operations(record, false, &env).await?;
            if !record.status.phase.is_some_and(BackupPhase::waits_for_operations) {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        anyhow::Ok(Box::pin(finalize(record, false, &env)).await?)
    };
    let waited = async {
        tokio::select! {
            ended = waiting => ended,
            () = env.operation.cancel.cancelled() => anyhow::bail!("interrupted: the backup can be restored; the same command again ends it"),
        }
    };
    let waited = Box::pin(waited);
    outcome.backup = watched("operations", &env.operation.progress, &env.operation.cancel, waited).await?;
    outcome.results.merge(env.operation.journal.close().results);
    Ok(())
}

/// Waits for the operations that a restore has begun and for the volumes of its claims, at most `patience` for these, and ends it. The
/// same command again goes on where this was cut off.
pub(crate) async fn end_restore(
    outcome: &mut lifeboat_restore::Outcome,
    patience: Duration,
    env: &lifeboat_restore::Env,
) -> anyhow::Result<()> {
    use lifeboat_restore::{finalize, look_after_operations};
    let env = lifeboat_restore::Env { operation: anew(&env.operation), ..env.clone() };
    let mut restore = outcome.restore.clone();
    let waiting = async {
        loop {
            restore = look_after_operations(restore, &env).await?;
            restore = Box::pin(finalize(restore, patience.to_std(), &env)).await?;
            let waits = |phase: RestorePhase| phase.waits_for_operations() || phase.is_finalizing();
            if !restore.status.phase.is_some_and(waits) {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        anyhow::Ok(restore)
    };
    let waited = async {
        tokio::select! {
            ended = waiting => ended,
            () = env.operation.cancel.cancelled() => {
                anyhow::bail!("interrupted: all objects are restored; the same command again waits for the rest")
            }
        }
    };
    let waited = Box::pin(waited);
    outcome.restore = watched("volumes", &env.operation.progress, &env.operation.cancel, waited).await?;
    outcome.results.merge(env.operation.journal.close().results);
    Ok(())
}
