//! `<backup>-volumeinfo.json.gz` and `<restore>-volumeinfo.json.gz`: what became of each volume
//! (velero: internal/volume/volumes_information.go).
//!
//! A field that this version does not know is kept where a file is rewritten: a later Velero may have written it.

use crate::native_snapshot::{NativeSnapshotSpec, NativeSnapshotStatus};
use lifeboat_api::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The record of one volume of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupVolumeInfo {
    /// Name of the claim.
    #[serde(rename = "pvcName", skip_serializing_if = "String::is_empty")]
    pub pvc_name: String,
    /// Namespace of the claim.
    #[serde(rename = "pvcNamespace", skip_serializing_if = "String::is_empty")]
    pub pvc_namespace: String,
    /// Name of the volume.
    #[serde(rename = "pvName", skip_serializing_if = "String::is_empty")]
    pub pv_name: String,
    /// The way in which its data was saved: [`NATIVE_SNAPSHOT`], [`POD_VOLUME_BACKUP`] or [`CSI_SNAPSHOT`]; empty for
    /// skipped volumes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub backup_method: String,
    /// True when the data went to a repository.
    pub snapshot_data_moved: bool,
    /// True when the snapshot stays in the storage of the cluster.
    pub preserve_local_snapshot: bool,
    /// True when nothing of the volume was saved.
    pub skipped: bool,
    /// The reason.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub skipped_reason: String,
    /// The time when its saving began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_timestamp: Option<Time>,
    /// The time when its saving ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_timestamp: Option<Time>,
    /// [`SUCCEEDED`] or [`FAILED`]; empty while it is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub result: String,
    /// The reason of a [`FAILED`] one, as the user is told. Velero has no such field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Its CSI snapshot.
    #[serde(rename = "csiSnapshotInfo", skip_serializing_if = "Option::is_none")]
    pub csi_snapshot_info: Option<CsiSnapshotInfo>,
    /// Its native snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_snapshot_info: Option<NativeSnapshotInfo>,
    /// Facts of the volume itself.
    #[serde(rename = "pvInfo", skip_serializing_if = "Option::is_none")]
    pub pv_info: Option<PvInfo>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// [`BackupVolumeInfo::backup_method`] and [`RestoreVolumeInfo::restore_method`] of a snapshot by a provider's API.
pub const NATIVE_SNAPSHOT: &str = "NativeSnapshot";
/// [`BackupVolumeInfo::backup_method`] and [`RestoreVolumeInfo::restore_method`] of a snapshot by a CSI driver.
pub const CSI_SNAPSHOT: &str = "CSISnapshot";
/// [`BackupVolumeInfo::backup_method`] of files that were saved from within a node.
pub const POD_VOLUME_BACKUP: &str = "PodVolumeBackup";
/// [`RestoreVolumeInfo::restore_method`] of files that a node agent has brought back.
pub const POD_VOLUME_RESTORE: &str = "PodVolumeRestore";
/// [`BackupVolumeInfo::result`] of data that is safe.
pub const SUCCEEDED: &str = "succeeded";
/// [`BackupVolumeInfo::result`] of data that is not.
pub const FAILED: &str = "failed";

/// A CSI snapshot. Only `operationID`, `volumeGroupSnapshotHandle` and `volumeGroup` may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiSnapshotInfo {
    /// The driver's name of the snapshot.
    pub snapshot_handle: String,
    /// Bytes of a volume that is made from it; 0 when that is not known.
    pub size: i64,
    /// Name of the driver.
    pub driver: String,
    /// Name of the VolumeSnapshotContent.
    #[serde(rename = "vscName")]
    pub vsc_name: String,
    /// The operation that waits until it is ready.
    #[serde(rename = "operationID", skip_serializing_if = "String::is_empty")]
    pub operation_id: String,
    /// True when volumes can be made from it; `null` when that is not known.
    #[serde(rename = "ReadyToUse")]
    pub ready_to_use: Option<bool>,
    /// The driver's name of the group that it was taken with.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub volume_group_snapshot_handle: String,
    /// The value of the label that the claims of that group have in common; an addition of Lifeboat.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub volume_group: String,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A native snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NativeSnapshotInfo {
    /// The provider's name of the snapshot.
    pub snapshot_handle: String,
    /// The provider's type of the volume.
    pub volume_type: String,
    /// Its zone.
    #[serde(rename = "volumeAZ")]
    pub volume_az: String,
    /// Its I/O operations per second as a decimal number; `0` when they are not provisioned.
    pub iops: String,
    /// `Completed` or `Failed`.
    #[serde(rename = "Phase")]
    pub phase: String,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl NativeSnapshotInfo {
    /// Makes the information of the record of a snapshot.
    #[must_use]
    pub fn of(spec: &NativeSnapshotSpec, status: &NativeSnapshotStatus) -> Self {
        Self {
            snapshot_handle: status.provider_snapshot_id.clone(),
            volume_type: spec.volume_type.clone(),
            volume_az: spec.volume_az.clone(),
            iops: spec.volume_iops.unwrap_or_default().to_string(),
            phase: status.phase.clone(),
            other: Map::new(),
        }
    }
}

/// The record of one volume of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreVolumeInfo {
    /// Name of the claim.
    #[serde(rename = "pvcName", skip_serializing_if = "String::is_empty")]
    pub pvc_name: String,
    /// Namespace of the claim, the one it is restored into.
    #[serde(rename = "pvcNamespace", skip_serializing_if = "String::is_empty")]
    pub pvc_namespace: String,
    /// Name of the volume in the cluster, where it is known; of a volume whose data does not come back, its name in the backup.
    #[serde(rename = "pvName", skip_serializing_if = "String::is_empty")]
    pub pv_name: String,
    /// [`POD_VOLUME_RESTORE`], [`NATIVE_SNAPSHOT`] or [`CSI_SNAPSHOT`]; empty when no data was restored.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub restore_method: String,
    /// True when the data came from a repository.
    pub snapshot_data_moved: bool,
    /// The CSI snapshot that it was made from.
    #[serde(rename = "csiSnapshotInfo", skip_serializing_if = "Option::is_none")]
    pub csi_snapshot_info: Option<CsiSnapshotInfo>,
    /// The native snapshot that it was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_snapshot_info: Option<NativeSnapshotInfo>,
    /// The pod volume backup that its files come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvr_info: Option<PodVolumeRestoreInfo>,
    /// The movement of its data from a repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_data_movement_info: Option<DataMovementInfo>,
    /// The result in words for the user. Velero has no such field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The key of a [`PodVolumeBackupInfo`] in the record of a volume.
pub const PVB_INFO: &str = "pvbInfo";

/// The backup of the files of a volume through a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodVolumeBackupInfo {
    /// The snapshot in the repository; empty for a volume that had no files.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub snapshot_handle: String,
    /// Bytes in all.
    #[serde(skip_serializing_if = "is_zero")]
    pub size: i64,
    /// Bytes that were not taken from the snapshot before.
    #[serde(skip_serializing_if = "is_zero")]
    pub incremental_size: i64,
    /// The node that did it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// The program that moved them.
    pub uploader_type: String,
    /// The name of the volume in the pod.
    pub volume_name: String,
    /// The pod.
    pub pod_name: String,
    /// Its namespace.
    pub pod_namespace: String,
    /// The phase of the PodVolumeBackup.
    #[serde(rename = "Phase")]
    pub phase: String,
}

/// The restore of the files of a volume through a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodVolumeRestoreInfo {
    /// The snapshot in the repository.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub snapshot_handle: String,
    /// Bytes restored.
    #[serde(skip_serializing_if = "is_zero")]
    pub size: i64,
    /// The program that moved them.
    pub uploader_type: String,
    /// The name of the volume in the pod.
    pub volume_name: String,
    /// The pod.
    pub pod_name: String,
    /// Its namespace.
    pub pod_namespace: String,
    /// Always empty, as Velero writes it.
    #[serde(rename = "Phase")]
    pub phase: String,
}

fn is_zero(size: &i64) -> bool {
    *size == 0
}

/// The movement of data from a repository into a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataMovementInfo {
    /// The data mover.
    pub data_mover: String,
    /// The program that moves it.
    pub uploader_type: String,
    /// The snapshot in the repository.
    pub snapshot_handle: String,
    /// The operation of the restore.
    #[serde(rename = "operationID")]
    pub operation_id: String,
    /// Always zero, as Velero writes it.
    pub size: i64,
    /// Always empty, as Velero writes it.
    #[serde(rename = "Phase")]
    pub phase: String,
}

/// The key of an [`UploadInfo`] in the record of a volume.
pub const UPLOAD_INFO: &str = "snapshotDataMovementInfo";

/// The movement of the data of a CSI snapshot into a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UploadInfo {
    /// The data mover; `velero` where the backup names none.
    pub data_mover: String,
    /// The program that moves it; always `kopia`, as Velero writes it.
    pub uploader_type: String,
    /// The VolumeSnapshot that it was moved out of; empty before it has ended.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub retained_snapshot: String,
    /// The snapshot in the repository; empty before it has ended, and when it has failed.
    pub snapshot_handle: String,
    /// The operation of the backup.
    #[serde(rename = "operationID")]
    pub operation_id: String,
    /// Bytes in all.
    pub size: i64,
    /// Bytes that the repository did not have.
    #[serde(skip_serializing_if = "is_zero")]
    pub incremental_size: i64,
    /// The phase of the DataUpload.
    #[serde(rename = "Phase")]
    pub phase: String,
}

/// Facts of a persistent volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PvInfo {
    /// `Retain`, `Delete` or `Recycle`.
    pub reclaim_policy: String,
    /// Its labels; `null` when it has none.
    pub labels: Option<BTreeMap<String, String>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_skipped_volume_has_veleros_shape() {
        let info = BackupVolumeInfo {
            pvc_name: "data".into(),
            pvc_namespace: "app1".into(),
            pv_name: "pv-nfs".into(),
            skipped: true,
            skipped_reason: "r".into(),
            pv_info: Some(PvInfo { reclaim_policy: "Delete".into(), labels: None }),
            ..BackupVolumeInfo::default()
        };
        assert_eq!(
            serde_json::to_value(&info).unwrap(),
            json!({"pvcName":"data","pvcNamespace":"app1","pvName":"pv-nfs","snapshotDataMoved":false,"preserveLocalSnapshot":false,
                   "skipped":true,"skippedReason":"r","pvInfo":{"reclaimPolicy":"Delete","labels":null}})
        );
    }

    #[test]
    fn a_file_of_velero_keeps_all_its_fields() {
        // Of Velero 1.18.2: skipped, a CSI snapshot, one of a group, a pod volume backup whose details this version does not know.
        let velero = concat!(
            r#"[{"pvcName":"p","pvcNamespace":"vol","pvName":"pv-1","snapshotDataMoved":false,"preserveLocalSnapshot":false,"#,
            r#""skipped":true,"skippedReason":"any: skipped due to resource policy ;","pvInfo":{"reclaimPolicy":"Delete","labels":null}},"#,
            r#"{"pvcName":"blk","pvcNamespace":"vol","pvName":"pv-2","backupMethod":"CSISnapshot","snapshotDataMoved":false,"#,
            r#""preserveLocalSnapshot":true,"skipped":false,"startTimestamp":"2026-11-21T09:31:57Z","#,
            r#""completionTimestamp":"2026-11-21T09:32:08Z","result":"succeeded","csiSnapshotInfo":{"snapshotHandle":"snap-7a","#,
            r#""size":8388608,"driver":"test.csi.local","vscName":"snapcontent-8e","operationID":"vol/velero-blk/2026-11-21T09:32:02Z","#,
            r#""ReadyToUse":true,"volumeGroupSnapshotHandle":"group-a6"},"pvInfo":{"reclaimPolicy":"Delete","labels":{"a":"b"}}},"#,
            r#"{"backupMethod":"PodVolumeBackup","snapshotDataMoved":false,"preserveLocalSnapshot":false,"skipped":false,"#,
            r#""pvbInfo":{"snapshotHandle":"7b8c","size":6,"Phase":"Completed"},"pvInfo":{"reclaimPolicy":"Delete","labels":null}}]"#
        );
        let read: Vec<BackupVolumeInfo> = serde_json::from_str(velero).unwrap();
        let value: Value = serde_json::from_str(velero).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), value);
    }
}
