//! Records of a restore that failed, as they are stored.

use crate::end::claim::claim;
use crate::end::outcome::RestoreError;
use crate::end::record::{count, log_content};
use crate::request::settings::Settings;
use crate::state::env::Env;
use crate::volumes::group_stubs::remove_now;
use crate::volumes::native::tell_made;
use lifeboat_api::Restore;
use lifeboat_archive::layout::RestoreFile;
use lifeboat_archive::sidecar;
use lifeboat_object::ResultScope;
use lifeboat_store::StoreError;
use lifeboat_volume::fs_backup::cancel_all;

/// Stores the log and the results of a restore that broke off, so that they can be read like those of any other
/// restore; they name the volumes that it has made and that nothing uses. Removes the objects from the cluster that
/// exist only for the time of the restore, and stops what moves data for it. Returns `restore` with the counts of its warnings and errors.
///
/// # Errors
/// [`RestoreError`]. That the files of its name are another restore's is none, and nothing is stored then.
pub async fn record_failure(mut restore: Restore, settings: &Settings, env: &Env) -> Result<Restore, RestoreError> {
    env.operation.journal.error(&ResultScope::Velero, &restore.status.failure_reason);
    // Nothing comes after this that could take up what it has made.
    tell_made(&restore, env).await;
    remove_now(&restore, true, env).await;
    if settings.movers.may_be_used
        && let Err(why) = cancel_all(&restore, &env.cluster).await
    {
        let next = "set spec.cancel of its PodVolumeRestores and DataDownloads";
        let text = format!("data of volumes may be moved still for this restore: {why}; {next}");
        env.operation.journal.error(&ResultScope::Velero, text);
    }
    let closed = env.operation.journal.close();
    count(&mut restore.status, closed.warnings, closed.errors);
    let results = sidecar::encode(&closed.results).map_err(|e| StoreError::Encode("the results", e))?;
    let name = &restore.metadata.name;
    // It may have failed before it had claimed its name.
    match Box::pin(claim(&restore, None, settings, env)).await {
        Err(RestoreError::Store(taken @ StoreError::RestoreNameTaken { .. })) => {
            tracing::warn!(restore = name, error = %taken, "the log and the results of a failed restore are not stored");
            return Ok(restore);
        }
        claimed => drop(claimed?),
    }
    env.store.put_restore_file(name, RestoreFile::Logs, log_content(closed.log)).await?;
    env.store.put_restore_file(name, RestoreFile::Results, results).await?;
    Ok(restore)
}
