//! Ends a restore: files beside the backup, and the final resource.

use crate::env::Env;
use crate::run::Walked;
use lifeboat_api::{HookStatus, Restore, RestorePhase, RestoreProgress, RestoreStatus, Time};
use lifeboat_archive::journal::Closed;
use lifeboat_archive::layout::RestoreFile;
use lifeboat_archive::sidecar::{self, ResourceList};
use lifeboat_object::Place;
use lifeboat_store::StoreError;

/// Puts log, results, resource list, operations and volume information, and decides the phase.
pub(crate) async fn finalize(
    mut restore: Restore,
    walked: &Walked,
    env: &Env,
) -> Result<(Restore, Closed), StoreError> {
    let cancelled = env.cancel.is_cancelled();
    let (_, planned) = env.progress.get();
    let mut list = ResourceList::default();
    let mut items = 0;
    for one in &walked.done {
        items += 1;
        let name = format!("{}({})", one.name, one.action.word());
        list.add(&one.api_version, &one.kind, one.namespace.as_deref(), &name);
    }
    let ended_early = format!(
        "the restore was cancelled: {items} of {planned} objects were looked at, and the resource list says what was done"
    );
    if cancelled {
        env.journal.error(&Place::Velero, ended_early.as_str());
    }
    env.journal.info("restore completed", &[]);
    let closed = env.journal.close();
    let status = &mut restore.status;
    count(status, &closed);
    status.progress = Some(RestoreProgress { total_items: items, items_restored: items });
    status.hook_status = Some(HookStatus::default());
    status.completion_timestamp = Some(Time::new((env.clock)()));
    status.phase = Some(match closed.errors {
        _ if cancelled => RestorePhase::Failed,
        0 => RestorePhase::Completed,
        _ => RestorePhase::PartiallyFailed,
    });
    if cancelled {
        status.failure_reason = ended_early;
    }
    let name = &restore.metadata.name;
    let encode = |what, bytes: Result<Vec<u8>, serde_json::Error>| bytes.map_err(|e| StoreError::Encode(what, e));
    let empty: [(); 0] = [];
    for (file, bytes) in [
        (RestoreFile::Logs, closed.log.clone()),
        (RestoreFile::Results, encode("the results", sidecar::encode(&closed.results))?),
        (RestoreFile::ResourceList, encode("the resource list", sidecar::encode(&list))?),
        (RestoreFile::ItemOperations, encode("the item operations", sidecar::encode(&empty))?),
        (RestoreFile::VolumeInfo, encode("the volume information", sidecar::encode(&walked.volumes))?),
    ] {
        env.store.put_restore_file(name, file, bytes).await?;
    }
    Ok((restore, closed))
}

/// Stores log and results of a restore that broke off, so that what happened can be read like that of any other. Gives
/// `restore` with the counts of its warnings and errors.
///
/// # Errors
/// [`StoreError`].
pub async fn record_failure(mut restore: Restore, env: &Env) -> Result<Restore, StoreError> {
    env.journal.error(&Place::Velero, &restore.status.failure_reason);
    let closed = env.journal.close();
    count(&mut restore.status, &closed);
    let results = sidecar::encode(&closed.results).map_err(|e| StoreError::Encode("the results", e))?;
    let name = &restore.metadata.name;
    env.store.put_restore_file(name, RestoreFile::Logs, closed.log).await?;
    env.store.put_restore_file(name, RestoreFile::Results, results).await?;
    Ok(restore)
}

fn count(status: &mut RestoreStatus, closed: &Closed) {
    status.warnings = i64::try_from(closed.warnings).unwrap_or(i64::MAX);
    status.errors = i64::try_from(closed.errors).unwrap_or(i64::MAX);
}
