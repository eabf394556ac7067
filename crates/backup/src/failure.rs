//! What is stored of a backup that failed.

use crate::env::Env;
use crate::error::BackupError;
use crate::request::Settings;
use crate::run::claim;
use crate::seal::{Native, log_content};
use crate::snapshots::{remove_native, tell_native};
use lifeboat_api::Backup;
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::sidecar;
use lifeboat_object::Place;
use lifeboat_store::{ClaimOutcome, StoreError};
use std::collections::BTreeMap;

/// Stores log, results and record of a backup that failed, so that its log can be read and its files can be deleted
/// like those of any other. Gives the record: `backup` with the counts of its warnings and errors.
///
/// Its native snapshots are deleted. Those that cannot be are named in its file of them, so that they are deleted with the backup.
///
/// `backup` is in its last state. The archive of a failed backup never becomes visible; a backup of this UID that is
/// complete stays as it is, and nothing is stored.
///
/// # Errors
/// [`BackupError`]; some of the files may be there then, without the record.
pub async fn record_failure(mut backup: Backup, settings: &Settings, env: &Env) -> Result<Backup, BackupError> {
    let cluster_version = env.cluster.version().await?.git_version;
    let mut writer = match claim(&backup, settings, env).await? {
        ClaimOutcome::Writer(writer) => *writer,
        ClaimOutcome::Complete(complete) => return Ok(*complete),
    };
    let left = remove_native(env, |_| true).await.unwrap_or_default();
    tell_native(&left, &backup.metadata.name, env);
    let metadata = &backup.metadata;
    let left = left.iter().filter_map(|one| one.record(&metadata.name, &metadata.uid)).collect();
    let native = Native { left, ..Native::default() };
    env.operation.journal.error(&Place::Velero, &backup.status.failure_reason);
    let closed = env.operation.journal.close();
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    (backup.status.warnings, backup.status.errors) = (count(closed.warnings), count(closed.errors));
    let results = sidecar::encode(&closed.results).map_err(|e| StoreError::Encode("the results", e))?;
    writer.put(BackupFile::VolumeSnapshots, native.encode()?).await?;
    writer.put(BackupFile::Results, results).await?;
    writer.put(BackupFile::Logs, log_content(closed.log)).await?;
    writer.commit(&backup, &settings.tool, BTreeMap::new(), &cluster_version).await?;
    Ok(backup)
}
