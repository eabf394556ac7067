//! Stores the record, log and results of a backup that failed.

use crate::end::moved_volumes::of_failed_backup;
use crate::end::repository_snapshots::in_cluster;
use crate::env::Env;
use crate::error::BackupError;
use crate::output::seal::{Native, log_content};
use crate::request::settings::Settings;
use crate::run::claim;
use crate::volumes::file_backups::remove_left_readers;
use crate::volumes::snapshots::tell_native;
use lifeboat_api::{Backup, PodVolumeBackup};
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::sidecar;
use lifeboat_archive::volume_info::BackupVolumeInfo;
use lifeboat_object::ResultScope;
use lifeboat_store::{ClaimOutcome, StoreError};
use lifeboat_volume::data_movement::backup::uploads_of;
use lifeboat_volume::native::{RemainingSnapshot, noted};
use serde_json::Value;
use std::collections::BTreeMap;

/// Stores log, results and record of a backup that failed, so that its log can be read and its files can be deleted
/// like those of any other. Gives the record: `backup` with the counts of its warnings and errors.
///
/// The native snapshots that are still noted are named in the backup's file of native snapshots, the PodVolumeBackups in theirs, and what data
/// movers have brought into repositories, or may have, in its volume information, so that all of it is deleted with the backup.
///
/// The reader pods that its attempts may have left are removed.
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
    let native = native(&backup, env).await;
    let moved = moved(&backup, env).await;
    let pod_volumes = pod_volumes(&backup, env).await;
    remove_left_readers(&backup, settings, env).await;
    env.operation.journal.error(&ResultScope::Velero, &backup.status.failure_reason);
    let closed = env.operation.journal.close();
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    (backup.status.warnings, backup.status.errors) = (count(closed.warnings), count(closed.errors));
    let results = sidecar::encode(&closed.results).map_err(|e| StoreError::Encode("the results", e))?;
    writer.put(BackupFile::VolumeSnapshots, native.encode()?).await?;
    if !pod_volumes.is_empty() {
        let pod_volumes = StoreError::encoded("the pod volume backups", sidecar::encode(&pod_volumes))?;
        writer.put(BackupFile::PodVolumeBackups, pod_volumes).await?;
    }
    if !moved.is_empty() {
        let moved = StoreError::encoded("the volume information", sidecar::encode(&moved))?;
        writer.put(BackupFile::VolumeInfo, moved).await?;
    }
    writer.put(BackupFile::Results, results).await?;
    writer.put(BackupFile::Logs, log_content(closed.log)).await?;
    writer.commit(&backup, &settings.tool, BTreeMap::new(), &cluster_version).await?;
    Ok(backup)
}

/// The native snapshots that are noted. Nothing is deleted here: recording a failure must not wait for a storage.
async fn native(backup: &Backup, env: &Env) -> Native {
    let metadata = &backup.metadata;
    let left = match noted(&env.operation, |_| true, "").await {
        Ok(removal) => removal.left,
        Err(e) => {
            let text = format!("native snapshots that this backup has taken may be left in the storage: {e}");
            env.operation.journal.warn(&ResultScope::Velero, text);
            Vec::new()
        }
    };
    let (unheard, left): (Vec<RemainingSnapshot>, Vec<RemainingSnapshot>) =
        left.into_iter().partition(|one| one.note.snapshot_id.is_empty());
    tell_native(&unheard, &metadata.name, env);
    let left = left.iter().filter_map(|one| one.record(&metadata.name, &metadata.uid)).collect();
    Native { left, ..Native::default() }
}

/// The PodVolumeBackups.
async fn pod_volumes(backup: &Backup, env: &Env) -> Vec<Value> {
    match in_cluster::<PodVolumeBackup>(backup, &backup.metadata.uid, env).await {
        Ok(found) => found,
        Err(e) => {
            let text = format!("what was saved of the files of pods for this backup may stay in repositories: {e}");
            env.operation.journal.warn(&ResultScope::Velero, text);
            Vec::new()
        }
    }
}

/// The volumes whose data lies in a repository already, or may lie there.
async fn moved(backup: &Backup, env: &Env) -> Vec<BackupVolumeInfo> {
    match uploads_of(backup, &env.cluster).await {
        Ok(uploads) => of_failed_backup(&uploads),
        // Who may not see them has not made any.
        Err(e) if e.is_denied() => Vec::new(),
        Err(e) => {
            let text = format!("what data movers have brought into repositories for this backup may stay there: {e}");
            env.operation.journal.warn(&ResultScope::Velero, text);
            Vec::new()
        }
    }
}
