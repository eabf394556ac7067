//! Data for descriptions besides the resources themselves: files of a backup or restore.

use lifeboat_archive::sidecar::ResourceList;
use lifeboat_object::Results;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A file that was looked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum FetchedFile<T> {
    /// There is none, or the user did not ask for it.
    #[default]
    Missing,
    /// Its content.
    There(T),
    /// It could not be had.
    Ungotten(String),
    /// It is not what it should be.
    Unreadable(String),
}

/// A volume of a backup or a restore (velero: internal/volume/volumes_information.go), as far as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeInfo {
    /// The name of its claim.
    pub pvc_name: String,
    /// The namespace of its claim.
    pub pvc_namespace: String,
    /// The name of its PersistentVolume.
    pub pv_name: String,
    /// The method of its backup: `NativeSnapshot`, `CSISnapshot` or `PodVolumeBackup`.
    pub backup_method: String,
    /// The method of its restore.
    pub restore_method: String,
    /// True when the data of its snapshot were moved.
    pub snapshot_data_moved: bool,
    /// True when the snapshot stays beside the moved data.
    pub preserve_local_snapshot: bool,
    /// True when it is not in the backup.
    pub skipped: bool,
    /// The reason for which it is not in the backup.
    pub skipped_reason: String,
    /// The outcome for a restored volume; Velero does not record it.
    pub message: String,
    /// `succeeded` or `failed`.
    pub result: String,
    /// Its CSI snapshot.
    pub csi_snapshot_info: Option<CsiSnapshot>,
    /// The movement of the data of its snapshot.
    pub snapshot_data_movement_info: Option<DataMovement>,
    /// Its snapshot by the provider.
    pub native_snapshot_info: Option<NativeSnapshot>,
    /// The restore of its files.
    pub pvr_info: Option<PodVolumeInfo>,
}

/// The files of a volume of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodVolumeInfo {
    /// The name of the volume in the pod.
    pub volume_name: String,
    /// The pod.
    pub pod_name: String,
    /// Its namespace.
    pub pod_namespace: String,
}

/// A CSI snapshot.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiSnapshot {
    /// The ID that the driver has given it.
    pub snapshot_handle: String,
    /// Bytes.
    pub size: i64,
    /// The name of the driver.
    pub driver: String,
    /// The name of its VolumeSnapshotContent.
    pub vsc_name: String,
    /// The ID of the operation that made it.
    #[serde(rename = "operationID")]
    pub operation_id: String,
    /// The ID of the snapshot of its group.
    pub volume_group_snapshot_handle: String,
    /// The value of the label of its group; Velero does not show it.
    pub volume_group: String,
}

/// Where the data of a snapshot went.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataMovement {
    /// The data mover.
    pub data_mover: String,
    /// The uploader, such as `kopia`.
    pub uploader_type: String,
    /// The ID of the operation that moved the data.
    #[serde(rename = "operationID")]
    pub operation_id: String,
    /// Bytes.
    pub size: i64,
    /// Bytes that were not in the repository before.
    pub incremental_size: i64,
}

/// A snapshot by the provider of a volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NativeSnapshot {
    /// The ID that the provider has given it.
    pub snapshot_handle: String,
    /// The type of the volume.
    pub volume_type: String,
    /// The zone of the volume.
    #[serde(rename = "volumeAZ")]
    pub volume_az: String,
    /// The volume's operations per second.
    pub iops: String,
}

/// An asynchronous operation of a plugin (velero: pkg/itemoperation).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ItemOperation {
    /// The subject.
    pub spec: ItemOperationSpec,
    /// The progress.
    pub status: ItemOperationStatus,
}

/// The subject of an operation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ItemOperationSpec {
    /// The action that began it in a backup.
    pub backup_item_action: String,
    /// The action that began it in a restore.
    pub restore_item_action: String,
    /// The object that it is about.
    pub resource_identifier: ResourceIdentifier,
    /// The ID that the action has given it.
    #[serde(rename = "operationID")]
    pub operation_id: String,
    /// Objects that are saved when it has ended.
    pub post_operation_items: Option<Vec<ResourceIdentifier>>,
}

/// An object; the keys have no names of their own in Go, so they are capitalised.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ResourceIdentifier {
    /// The group of its type.
    pub group: String,
    /// The plural of its type.
    pub resource: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The progress of an operation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ItemOperationStatus {
    /// The phase.
    pub phase: String,
    /// The error with which it has ended.
    pub error: String,
    /// Units that are done.
    pub n_completed: i64,
    /// All units.
    pub n_total: i64,
    /// The name of the units.
    pub operation_units: String,
    /// A text by its action.
    pub description: String,
    /// The time when it was recorded.
    pub created: Option<jiff::Timestamp>,
    /// The time when it began.
    pub started: Option<jiff::Timestamp>,
    /// The time of its last progress.
    pub updated: Option<jiff::Timestamp>,
}

/// Files that backups and restores have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperationFiles {
    /// Warnings and errors.
    pub results: FetchedFile<Results>,
    /// Asynchronous operations of plugins.
    pub operations: FetchedFile<Vec<ItemOperation>>,
    /// The objects, by type.
    pub resources: FetchedFile<ResourceList>,
    /// The volumes of a restore.
    pub volumes: FetchedFile<Vec<VolumeInfo>>,
}

impl std::fmt::Display for ResourceIdentifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        write!(f, "{}{dot}{} {}{slash}{}", self.resource, self.group, self.namespace, self.name)
    }
}

impl<T> FetchedFile<T> {
    /// The content, when it was had.
    pub fn there(&self) -> Option<&T> {
        match self {
            Self::There(content) => Some(content),
            _ => None,
        }
    }

    /// This piece with another content.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> FetchedFile<U> {
        match self {
            Self::Missing => FetchedFile::Missing,
            Self::There(content) => FetchedFile::There(change(content)),
            Self::Ungotten(why) => FetchedFile::Ungotten(why),
            Self::Unreadable(why) => FetchedFile::Unreadable(why),
        }
    }
}

/// Volumes from the files of backups before Velero 1.13: native snapshots (velero: internal/volume).
pub fn legacy_native(snapshots: Option<Vec<Value>>) -> Vec<VolumeInfo> {
    let info = |snapshot: Value| {
        let (spec, status) = (&snapshot["spec"], &snapshot["status"]);
        VolumeInfo {
            pv_name: text(&spec["persistentVolumeName"]),
            backup_method: "NativeSnapshot".to_owned(),
            result: if status["phase"] == "Completed" { "succeeded" } else { "failed" }.to_owned(),
            native_snapshot_info: Some(NativeSnapshot {
                snapshot_handle: text(&status["providerSnapshotID"]),
                volume_type: text(&spec["volumeType"]),
                volume_az: text(&spec["volumeAZ"]),
                iops: spec["volumeIOPS"].as_i64().map_or_else(|| "<N/A>".to_owned(), |iops| iops.to_string()),
            }),
            ..VolumeInfo::default()
        }
    };
    snapshots.unwrap_or_default().into_iter().map(info).collect()
}

/// The same for CSI snapshots: their contents, with the snapshots that lead to claims.
pub fn legacy_csi(snapshots: Option<Vec<Value>>, contents: Option<Vec<Value>>) -> Vec<VolumeInfo> {
    let bound: BTreeMap<String, Value> = snapshots
        .unwrap_or_default()
        .into_iter()
        .map(|snapshot| (text(&snapshot["status"]["boundVolumeSnapshotContentName"]), snapshot))
        .collect();
    let info = |content: Value| {
        let name = text(&content["metadata"]["name"]);
        let snapshot = bound.get(&name);
        VolumeInfo {
            pvc_name: snapshot.map_or_else(
                || "<PVC name not found>".to_owned(),
                |snapshot| text(&snapshot["spec"]["source"]["persistentVolumeClaimName"]),
            ),
            pvc_namespace: snapshot.map(|snapshot| text(&snapshot["metadata"]["namespace"])).unwrap_or_default(),
            backup_method: "CSISnapshot".to_owned(),
            preserve_local_snapshot: true,
            csi_snapshot_info: Some(CsiSnapshot {
                snapshot_handle: text(&content["status"]["snapshotHandle"]),
                size: content["status"]["restoreSize"].as_i64().unwrap_or_default(),
                driver: text(&content["spec"]["driver"]),
                vsc_name: name,
                ..CsiSnapshot::default()
            }),
            ..VolumeInfo::default()
        }
    };
    contents.unwrap_or_default().into_iter().map(info).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn old_snapshots_are_volumes_too() {
        let native = json!([{"spec": {"persistentVolumeName": "pv", "volumeType": "t", "volumeAZ": "z"},
            "status": {"providerSnapshotID": "s", "phase": "Completed"}}]);
        let native = legacy_native(serde_json::from_value(native).unwrap());
        let expected = VolumeInfo {
            pv_name: "pv".into(),
            backup_method: "NativeSnapshot".into(),
            result: "succeeded".into(),
            native_snapshot_info: Some(NativeSnapshot {
                snapshot_handle: "s".into(),
                volume_type: "t".into(),
                volume_az: "z".into(),
                iops: "<N/A>".into(),
            }),
            ..VolumeInfo::default()
        };
        assert_eq!(native, [expected]);
        let snapshots = json!([{"metadata": {"namespace": "n"}, "spec": {"source": {"persistentVolumeClaimName": "c"}},
            "status": {"boundVolumeSnapshotContentName": "one"}}]);
        let contents = json!([{"metadata": {"name": "one"}, "spec": {"driver": "d"},
            "status": {"snapshotHandle": "h", "restoreSize": 5}}, {"metadata": {"name": "two"}}]);
        let parse = |value: Value| serde_json::from_value(value).unwrap();
        let csi = legacy_csi(parse(snapshots), parse(contents));
        let names: Vec<_> = csi.iter().map(|v| (v.pvc_namespace.as_str(), v.pvc_name.as_str())).collect();
        assert_eq!(names, [("n", "c"), ("", "<PVC name not found>")]);
        assert_eq!(csi[0].csi_snapshot_info.as_ref().unwrap().size, 5);
        assert_eq!(legacy_csi(None, None), []);
    }

    #[test]
    fn veleros_files_are_read() {
        let volume: VolumeInfo = serde_json::from_value(json!({"pvcName": "c", "pvcNamespace": "n", "pvName": "v",
            "backupMethod": "CSISnapshot", "snapshotDataMoved": true, "preserveLocalSnapshot": false, "skipped": false,
            "csiSnapshotInfo": {"snapshotHandle": "h", "size": 1, "driver": "d", "vscName": "vsc", "operationID": "o",
                "ReadyToUse": null},
            "snapshotDataMovementInfo": {"dataMover": "velero", "uploaderType": "kopia", "snapshotHandle": "",
                "operationID": "du-1", "size": 7, "incrementalSize": 3, "Phase": ""}}))
        .unwrap();
        let moved = volume.snapshot_data_movement_info.unwrap();
        assert_eq!((moved.operation_id.as_str(), moved.size, moved.incremental_size), ("du-1", 7, 3));
        assert_eq!(volume.csi_snapshot_info.unwrap().operation_id, "o");
        let operation: ItemOperation = serde_json::from_value(json!({"spec": {"backupName": "b", "backupUID": "u",
            "backupItemAction": "a", "resourceIdentifier": {"Group": "g", "Resource": "r", "Namespace": "n", "Name": "x"},
            "operationID": "o", "postOperationItems": null},
            "status": {"phase": "Completed", "created": "2026-11-21T08:36:30.5Z"}}))
        .unwrap();
        assert_eq!(operation.spec.resource_identifier.to_string(), "r.g n/x");
    }
}
