//! Removes the stubs that a restore has made for groups of snapshots, when their members are ready
//! (velero: pkg/controller/restore_finalizer_controller.go).

use crate::state::env::Env;
use crate::volumes::patches::waited;
use lifeboat_api::{Restore, label_value, well_known};
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::volume_info::BackupVolumeInfo;
use lifeboat_cluster::{Cluster, ListRequest};
use lifeboat_object::{ResultScope, first_names};
use lifeboat_store::StoreError;
use lifeboat_volume::csi::{GroupHandle, GroupTypes, SnapshotTypes, stubs};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Removes the stubs of a restore whose snapshots are ready, and the other stubs, too, when the time for waiting is
/// over. Returns true if no stub is left to wait for. A failure is a warning: a stub neither keeps nor removes anything
/// in the storage.
pub(crate) async fn remove(restore: &Restore, patience: Duration, env: &Env) -> Result<bool, StoreError> {
    let infos: Option<Vec<BackupVolumeInfo>> =
        env.store.backup_file(&restore.spec.backup_name, BackupFile::VolumeInfo).await?;
    let of_group = |info: &BackupVolumeInfo| {
        info.csi_snapshot_info.as_ref().is_some_and(|info| !info.volume_group_snapshot_handle.is_empty())
    };
    // A backup without that file may have groups all the same.
    if infos.is_some_and(|infos| !infos.iter().any(of_group)) {
        return Ok(true);
    }
    let is_over = restore.spec.cancel || waited(restore, env).await >= patience;
    Ok(remove_now(restore, is_over, env).await)
}

/// The same, whatever the backup says; when it `is_over`, those of snapshots that are not ready are removed too.
pub(crate) async fn remove_now(restore: &Restore, is_over: bool, env: &Env) -> bool {
    let warn = |text: String| env.operation.journal.warn(&ResultScope::Cluster, text);
    let cluster = &env.cluster;
    let found = match cluster.discover().await {
        Ok(catalog) => {
            let Some(types) = GroupTypes::of(&catalog) else { return true };
            let all = stubs(cluster, &types, restore).await.map_err(|e| e.to_string());
            all.map(|all| (types, SnapshotTypes::of(&catalog), all))
        }
        Err(e) => Err(e.to_string()),
    };
    let (types, of_snapshots, all) = match found {
        Ok(found) => found,
        Err(e) if is_over => {
            warn(format!("failed to list stub VolumeGroupSnapshotContents: {e}"));
            return true;
        }
        // The next look may go better.
        Err(_) => return false,
    };
    let mut waits = false;
    for (name, group) in all {
        let unready = match &of_snapshots {
            Some(of_snapshots) => unready(restore, of_snapshots, &group, cluster).await,
            None => Ok(Vec::new()),
        };
        let why = match unready {
            Ok(unready) if unready.is_empty() => None,
            Ok(unready) => Some(format!("not ready: {}", first_names(&unready))),
            Err(e) => Some(e),
        };
        if let Some(why) = why {
            if !is_over {
                waits = true;
                continue;
            }
            warn(format!("timed out waiting for VSCs related to VGSC {name}: {why}"));
        }
        if let Err(e) = cluster.delete(&types.contents, None, &name).await {
            warn(format!("failed to delete stub VolumeGroupSnapshotContent {name}: {e}"));
        }
    }
    !waits
}

/// The VolumeSnapshots of the restore that are of a group and not ready.
async fn unready(
    restore: &Restore,
    types: &SnapshotTypes,
    group: &GroupHandle,
    cluster: &Cluster,
) -> Result<Vec<String>, String> {
    let mut list = cluster.list(ListRequest::all(Arc::clone(&types.snapshots)).labelled(format!(
        "{}={}",
        well_known::LABEL_RESTORE_NAME,
        label_value(&restore.metadata.name)
    )));
    let mut out = Vec::new();
    while let Some(bodies) = list.next().await.map_err(|e| e.to_string())? {
        for snapshot in bodies.iter().filter_map(|body| serde_json::from_slice::<Value>(body).ok()) {
            if GroupHandle::of_archived(&snapshot).as_ref() == Some(group) && snapshot["status"]["readyToUse"] != true {
                let text = |field: &str| snapshot["metadata"][field].as_str().unwrap_or_default();
                out.push(format!("{}/{}", text("namespace"), text("name")));
            }
        }
    }
    Ok(out)
}
