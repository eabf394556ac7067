//! Keeps the IDs of a Velero backup's snapshots in the repositories of movers, before the files are deleted that name
//! them.

use crate::env::Env;
use lifeboat_api::Backup;
use lifeboat_archive::layout::{BackupFile, repository_snapshots_key};
use lifeboat_archive::repository_snapshot::repository_snapshots;
use lifeboat_archive::volume_info::BackupVolumeInfo;
use lifeboat_object::{ResultScope, chain};
use lifeboat_store::StoreError;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Lists the snapshots that a backup has in repositories, where they are found when its files are gone, and warns of them: this version cannot
/// delete them.
///
/// # Errors
/// A message for people that they are not listed: then nothing may be deleted.
pub(crate) async fn keep_repository_snapshots(backup: &Backup, uid: &str, env: &Env) -> Result<(), String> {
    let name = &backup.metadata.name;
    keep(name, uid, env).await.map_err(|e| {
        format!("error keeping the IDs of the snapshots that the backup has in repositories; nothing was deleted: {e}")
    })
}

async fn keep(name: &str, uid: &str, env: &Env) -> Result<(), StoreError> {
    let pod_volumes: Vec<Value> = read(name, BackupFile::PodVolumeBackups, env).await?;
    let infos: Vec<BackupVolumeInfo> = read(name, BackupFile::VolumeInfo, env).await?;
    let snapshots = repository_snapshots(name, &pod_volumes, &infos, (env.operation.clock)());
    if snapshots.is_empty() {
        return Ok(());
    }
    env.store.list_repository_snapshots(name, uid, &snapshots).await?;
    let key = repository_snapshots_key(name, uid);
    let volumes = if snapshots.len() == 1 { "1 volume".to_owned() } else { format!("{} volumes", snapshots.len()) };
    let text = format!(
        "the data of {volumes} stays in repositories, because this version of Lifeboat does not delete it there; their snapshot IDs \
         are kept in {key}"
    );
    env.operation.journal.warn(&ResultScope::Velero, text);
    Ok(())
}

/// Reads a list beside the archive. A damaged list names nothing, now or later: that is reported, and the backup can be
/// deleted all the same.
async fn read<T: DeserializeOwned>(name: &str, file: BackupFile, env: &Env) -> Result<Vec<T>, StoreError> {
    match env.store.backup_file::<Option<Vec<T>>>(name, file).await {
        Ok(list) => Ok(list.flatten().unwrap_or_default()),
        Err(e @ StoreError::Sidecar { .. }) => {
            let text =
                format!("what the backup has in repositories may stay there, because it cannot be read: {}", chain(&e));
            env.operation.journal.warn(&ResultScope::Velero, text);
            Ok(Vec::new())
        }
        Err(e) => Err(e),
    }
}
