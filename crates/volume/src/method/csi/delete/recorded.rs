//! Reads the CSI snapshots of a backup whose archive is gone from its volume information.

use lifeboat_api::well_known::{LABEL_BACKUP_NAME, LABEL_BACKUP_UID};
use lifeboat_api::{Backup, label_value};
use lifeboat_archive::volume_info::{BackupVolumeInfo, CSI_SNAPSHOT};
use serde_json::{Value, json};

/// The VolumeSnapshotContents of the snapshots that a backup keeps in the storage, each with its claim, as its archive
/// had them without facts that only the archive has: the annotations by which a driver is told its secrets, and of a
/// group the snapshots of claims that are not in the backup. `uid` is the UID of the backup in its files.
#[must_use]
pub fn recorded_contents(volumes: &[BackupVolumeInfo], backup: &Backup, uid: &str) -> Vec<(String, Value)> {
    let contents = volumes.iter().filter(|volume| volume.backup_method == CSI_SNAPSHOT && !volume.snapshot_data_moved);
    let contents = contents.filter_map(|volume| {
        let snapshot = volume.csi_snapshot_info.as_ref().filter(|snapshot| !snapshot.snapshot_handle.is_empty())?;
        let mut status = json!({"snapshotHandle": snapshot.snapshot_handle});
        if !snapshot.volume_group_snapshot_handle.is_empty() {
            status["volumeGroupSnapshotHandle"] = snapshot.volume_group_snapshot_handle.as_str().into();
        }
        let labels = json!({LABEL_BACKUP_NAME: label_value(&backup.metadata.name), LABEL_BACKUP_UID: uid});
        let content = json!({
            "metadata": {"name": snapshot.vsc_name, "labels": labels}, "spec": {"driver": snapshot.driver}, "status": status,
        });
        Some((format!("{}/{}", volume.pvc_namespace, volume.pvc_name), content))
    });
    contents.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::ObjectMeta;
    use lifeboat_archive::volume_info::CsiSnapshotInfo;

    #[test]
    fn the_record_of_a_snapshot_in_the_storage_is_enough_to_delete_it() {
        let metadata = ObjectMeta { name: "nightly".to_owned(), ..ObjectMeta::default() };
        let backup = Backup { metadata, ..Backup::default() };
        let volume = |name: &str, handle: &str, group: &str| BackupVolumeInfo {
            pvc_namespace: "shop".to_owned(),
            pvc_name: name.to_owned(),
            backup_method: CSI_SNAPSHOT.to_owned(),
            csi_snapshot_info: Some(CsiSnapshotInfo {
                snapshot_handle: handle.to_owned(),
                driver: "d".to_owned(),
                vsc_name: format!("content-{name}"),
                volume_group_snapshot_handle: group.to_owned(),
                ..CsiSnapshotInfo::default()
            }),
            ..BackupVolumeInfo::default()
        };
        let moved = BackupVolumeInfo { snapshot_data_moved: true, ..volume("moved", "snap-3", "") };
        let failed = BackupVolumeInfo { csi_snapshot_info: None, ..volume("failed", "", "") };
        let native = BackupVolumeInfo { backup_method: "NativeSnapshot".to_owned(), ..volume("native", "snap-4", "") };
        let all = [
            volume("a", "snap-1", ""),
            volume("b", "snap-2", "group-1"),
            volume("untaken", "", ""),
            moved,
            failed,
            native,
        ];
        let content = |name: &str, status: Value| {
            json!({"metadata": {"name": name, "labels": {"velero.io/backup-name": "nightly", "velero.io/backup-uid": "u"}}, "spec": {"driver": "d"},
                "status": status})
        };
        let expected = [
            ("shop/a".to_owned(), content("content-a", json!({"snapshotHandle": "snap-1"}))),
            (
                "shop/b".to_owned(),
                content("content-b", json!({"snapshotHandle": "snap-2", "volumeGroupSnapshotHandle": "group-1"})),
            ),
        ];
        assert_eq!(recorded_contents(&all, &backup, "u"), expected);
    }
}
