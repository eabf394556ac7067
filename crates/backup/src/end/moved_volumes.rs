//! The end of volumes whose data was moved out of their snapshots. Pure.

use crate::output::entry::ArchiveEntry;
use lifeboat_api::well_known::LABEL_ASYNC_OPERATION_ID;
use lifeboat_api::{DataMover, DataPathPhase, DataUpload, NamespacedName, OperationPhase, Resource};
use lifeboat_archive::operations::BackupOperation;
use lifeboat_archive::volume_info::{BackupVolumeInfo, CSI_SNAPSHOT, FAILED, SUCCEEDED, UPLOAD_INFO, UploadInfo};
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_volume::GroupKey;
use lifeboat_volume::csi::MovedSnapshots;
use std::collections::{BTreeSet, HashMap};

/// The DataUploads among objects that were saved, by name.
pub(crate) fn uploads_among(saved: &[ArchiveEntry]) -> HashMap<String, DataUpload> {
    let uploads = saved.iter().filter(|entry| entry.resource.resource == DataUpload::PLURAL);
    uploads
        .filter_map(|entry| Some((entry.name.clone(), serde_json::from_slice(&entry.body.to_bytes()).ok()?)))
        .collect()
}

/// The words of a data mover about what it passed over in a volume whose data it has moved, with the claim.
pub(crate) fn passed_over(upload: &DataUpload) -> Option<(ObjectKey, &str)> {
    let DataUpload { spec, status, .. } = upload;
    let is_told = !status.snapshot_id.is_empty() && !status.message.is_empty();
    let claims = GroupResource::new("", "persistentvolumeclaims");
    is_told.then(|| (ObjectKey::new(claims, Some(&spec.source_namespace), &spec.source_pvc), status.message.as_str()))
}

/// Brings into the volume information what came of moving the data of volumes, as these DataUploads say. Returns true if that changes
/// it.
pub(crate) fn note_uploads(
    volumes: &mut [BackupVolumeInfo],
    uploads: &HashMap<String, DataUpload>,
    operations: &[BackupOperation],
) -> bool {
    let ended: HashMap<&str, &BackupOperation> =
        operations.iter().map(|operation| (operation.spec.operation_id.as_str(), operation)).collect();
    let mut is_changed = false;
    for volume in volumes.iter_mut().filter(|volume| volume.snapshot_data_moved) {
        let Some(mut info) = upload_info(volume) else { continue };
        let Some(operation) = ended.get(info.operation_id.as_str()) else { continue };
        let named = operation.spec.post_operation_items.iter().flatten();
        let upload = named.filter_map(|item| uploads.get(item.name.as_str())).next();
        // One whose end is known already may be gone by now.
        if upload.is_none() && !volume.result.is_empty() {
            continue;
        }
        end(volume, &mut info, upload, operation);
        volume.other.extend(serde_json::to_value(info).ok().map(|info| (UPLOAD_INFO.to_owned(), info)));
        is_changed = true;
    }
    is_changed
}

/// The end of one volume.
fn end(volume: &mut BackupVolumeInfo, info: &mut UploadInfo, upload: Option<&DataUpload>, operation: &BackupOperation) {
    if let Some(DataUpload { spec, status, .. }) = upload {
        volume.completion_timestamp = status.completion_timestamp;
        info.snapshot_handle.clone_from(&status.snapshot_id);
        info.retained_snapshot =
            spec.csi_snapshot.as_ref().map_or_else(String::new, |snapshot| snapshot.volume_snapshot.clone());
        (info.size, info.incremental_size) = (status.progress.total_bytes, status.incremental_bytes);
        info.phase = status.phase.map(|phase| phase.as_str().to_owned()).unwrap_or_default();
    }
    volume.completion_timestamp = volume.completion_timestamp.or(operation.status.updated);
    let is_moved = upload.is_some_and(|upload| upload.status.phase == Some(DataPathPhase::Completed));
    (if is_moved { SUCCEEDED } else { FAILED }).clone_into(&mut volume.result);
    if !is_moved {
        let is_unknown = operation.status.phase == Some(OperationPhase::Completed);
        let gone = "its DataUpload, which says where its data is, is gone: make another backup";
        volume.message = if is_unknown { gone.to_owned() } else { operation.status.error.clone() };
    }
}

/// The volume information of a backup that failed, by which the data is found that was moved for it, or was to be. Nothing is restored by it.
pub(crate) fn of_failed_backup(uploads: &[DataUpload]) -> Vec<BackupVolumeInfo> {
    let of = |upload: &DataUpload| {
        let DataUpload { metadata, spec, status, .. } = upload;
        let data_mover = if spec.data_mover.is_empty() { "velero" } else { &spec.data_mover };
        let info = UploadInfo {
            data_mover: data_mover.to_owned(),
            uploader_type: "kopia".to_owned(),
            snapshot_handle: status.snapshot_id.clone(),
            operation_id: metadata.labels.get(LABEL_ASYNC_OPERATION_ID).cloned().unwrap_or_default(),
            size: status.progress.total_bytes,
            incremental_size: status.incremental_bytes,
            phase: status.phase.map(|phase| phase.as_str().to_owned()).unwrap_or_default(),
            ..UploadInfo::default()
        };
        BackupVolumeInfo {
            pvc_namespace: spec.source_namespace.clone(),
            pvc_name: spec.source_pvc.clone(),
            backup_method: CSI_SNAPSHOT.to_owned(),
            snapshot_data_moved: true,
            result: FAILED.to_owned(),
            message: match status.snapshot_id.is_empty() {
                true => "its data was to be moved, and the backup failed".to_owned(),
                false => "its data was moved, and the backup failed".to_owned(),
            },
            other: serde_json::to_value(info).into_iter().map(|info| (UPLOAD_INFO.to_owned(), info)).collect(),
            ..BackupVolumeInfo::default()
        }
    };
    uploads.iter().map(of).collect()
}

fn upload_info(volume: &BackupVolumeInfo) -> Option<UploadInfo> {
    serde_json::from_value(volume.other.get(UPLOAD_INFO)?.clone()).ok()
}

/// The number of volumes whose data was not moved.
pub(crate) fn failed_moves(volumes: Option<&Vec<BackupVolumeInfo>>) -> i64 {
    let failed = volumes.into_iter().flatten().filter(|volume| volume.snapshot_data_moved && volume.result == FAILED);
    i64::try_from(failed.count()).unwrap_or(i64::MAX)
}

/// The snapshots that nobody needs any more, as the data was moved out of them, or will not be.
///
/// compat: the snapshot of a volume that a data mover of somebody else has moved is left to that, which may keep it.
pub(crate) fn moved_snapshots(volumes: Option<&Vec<BackupVolumeInfo>>) -> MovedSnapshots {
    let group = |volume: &BackupVolumeInfo| {
        let group = volume.csi_snapshot_info.as_ref().map_or("", |snapshot| &snapshot.volume_group);
        (!group.is_empty()).then(|| GroupKey { namespace: volume.pvc_namespace.clone(), value: group.to_owned() })
    };
    let is_left = |volume: &&BackupVolumeInfo| {
        volume.result == SUCCEEDED
            && upload_info(volume).is_some_and(|info| !DataMover::of(&info.data_mover).is_of_velero())
    };
    let all = || volumes.into_iter().flatten();
    let kept: BTreeSet<GroupKey> =
        all().filter(|volume| !volume.snapshot_data_moved || is_left(volume)).filter_map(group).collect();
    let mut moved = MovedSnapshots::default();
    for volume in all().filter(|volume| volume.snapshot_data_moved && !is_left(volume)) {
        let claim = NamespacedName::new(&volume.pvc_namespace, &volume.pvc_name);
        if group(volume).is_some_and(|group| kept.contains(&group)) {
            moved.in_kept_groups.insert(claim.clone());
        }
        moved.claims.insert(claim);
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_archive::volume_info::CsiSnapshotInfo;

    fn volume(claim: &str, group: &str, mover: &str, result: &str) -> BackupVolumeInfo {
        let info = UploadInfo { data_mover: mover.to_owned(), ..UploadInfo::default() };
        BackupVolumeInfo {
            pvc_namespace: "shop".to_owned(),
            pvc_name: claim.to_owned(),
            backup_method: CSI_SNAPSHOT.to_owned(),
            snapshot_data_moved: !mover.is_empty(),
            result: result.to_owned(),
            csi_snapshot_info: Some(CsiSnapshotInfo { volume_group: group.to_owned(), ..CsiSnapshotInfo::default() }),
            other: [(UPLOAD_INFO.to_owned(), serde_json::to_value(info).unwrap())].into_iter().collect(),
            ..BackupVolumeInfo::default()
        }
    }

    #[test]
    fn a_group_with_a_snapshot_that_stays_is_kept_whole() {
        let volumes = vec![
            volume("single", "", "velero", SUCCEEDED),
            volume("a", "all", "velero", SUCCEEDED),
            volume("b", "all", "velero", FAILED),
            volume("c", "some", "velero", SUCCEEDED),
            volume("d", "some", "", ""),
            volume("theirs", "", "kubevirt", SUCCEEDED),
            volume("theirs-failed", "", "kubevirt", FAILED),
        ];
        let keys = |names: &[&str]| -> BTreeSet<NamespacedName> {
            let key = |name: &&str| NamespacedName::new("shop", *name);
            names.iter().map(key).collect()
        };
        let expected =
            MovedSnapshots { claims: keys(&["single", "a", "b", "c", "theirs-failed"]), in_kept_groups: keys(&["c"]) };
        assert_eq!(moved_snapshots(Some(&volumes)), expected);
        assert_eq!(failed_moves(Some(&volumes)), 2);
        assert_eq!((moved_snapshots(None), failed_moves(None)), (MovedSnapshots::default(), 0));
    }
}
