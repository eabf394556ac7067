//! Data for descriptions besides the resources themselves: files of a backup or restore.

use lifeboat_archive::sidecar::ResourceList;
use lifeboat_object::Results;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A file that was looked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum FetchedFile<T> {
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

/// A volume of a backup or a restore (backup.md 4.8, restore.md 1.8), as far as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeInfo {
    pub(crate) pvc_name: String,
    pub(crate) pvc_namespace: String,
    pub(crate) pv_name: String,
    pub(crate) backup_method: String,
    pub(crate) restore_method: String,
    pub(crate) snapshot_data_moved: bool,
    pub(crate) preserve_local_snapshot: bool,
    pub(crate) skipped: bool,
    pub(crate) skipped_reason: String,
    /// The outcome for a restored volume; Velero does not record it.
    pub(crate) message: String,
    pub(crate) result: String,
    pub(crate) csi_snapshot_info: Option<CsiSnapshot>,
    pub(crate) snapshot_data_movement_info: Option<DataMovement>,
    pub(crate) native_snapshot_info: Option<NativeSnapshot>,
    pub(crate) pvr_info: Option<PodVolumeInfo>,
}

/// The files of a volume of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodVolumeInfo {
    pub(crate) volume_name: String,
    pub(crate) pod_name: String,
    pub(crate) pod_namespace: String,
}

/// A CSI snapshot.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CsiSnapshot {
    pub(crate) snapshot_handle: String,
    pub(crate) size: i64,
    pub(crate) driver: String,
    pub(crate) vsc_name: String,
    #[serde(rename = "operationID")]
    pub(crate) operation_id: String,
    pub(crate) volume_group_snapshot_handle: String,
    /// The value of the label of its group; Velero does not show it.
    pub(crate) volume_group: String,
}

/// Where the data of a snapshot went.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DataMovement {
    pub(crate) data_mover: String,
    pub(crate) uploader_type: String,
    #[serde(rename = "operationID")]
    pub(crate) operation_id: String,
    pub(crate) size: i64,
    pub(crate) incremental_size: i64,
}

/// A snapshot by the provider of a volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NativeSnapshot {
    pub(crate) snapshot_handle: String,
    pub(crate) volume_type: String,
    #[serde(rename = "volumeAZ")]
    pub(crate) volume_az: String,
    pub(crate) iops: String,
}

/// An asynchronous operation of a plugin (backup.md 4.6).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ItemOperation {
    pub(crate) spec: ItemOperationSpec,
    pub(crate) status: ItemOperationStatus,
}

/// The subject of an operation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ItemOperationSpec {
    pub(crate) backup_item_action: String,
    pub(crate) restore_item_action: String,
    pub(crate) resource_identifier: ResourceIdentifier,
    #[serde(rename = "operationID")]
    pub(crate) operation_id: String,
    pub(crate) post_operation_items: Option<Vec<ResourceIdentifier>>,
}

/// An object; the keys have no names of their own in Go, so they are capitalised.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct ResourceIdentifier {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// The progress of an operation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ItemOperationStatus {
    pub(crate) phase: String,
    pub(crate) error: String,
    pub(crate) n_completed: i64,
    pub(crate) n_total: i64,
    pub(crate) operation_units: String,
    pub(crate) description: String,
    pub(crate) created: Option<jiff::Timestamp>,
    pub(crate) started: Option<jiff::Timestamp>,
    pub(crate) updated: Option<jiff::Timestamp>,
}

/// Files that backups and restores have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OperationFiles {
    pub(crate) results: FetchedFile<Results>,
    pub(crate) operations: FetchedFile<Vec<ItemOperation>>,
    pub(crate) resources: FetchedFile<ResourceList>,
    pub(crate) volumes: FetchedFile<Vec<VolumeInfo>>,
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
    pub(crate) fn there(&self) -> Option<&T> {
        match self {
            Self::There(content) => Some(content),
            _ => None,
        }
    }

    /// This piece with another content.
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> FetchedFile<U> {
        match self {
            Self::Missing => FetchedFile::Missing,
            Self::There(content) => FetchedFile::There(change(content)),
            Self::Ungotten(why) => FetchedFile::Ungotten(why),
            Self::Unreadable(why) => FetchedFile::Unreadable(why),
        }
    }
}

/// Volumes from the files of backups before Velero 1.13: native snapshots (backup.md 4.9).
pub(crate) fn legacy_native(snapshots: Option<Vec<Value>>) -> Vec<VolumeInfo> {
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
pub(crate) fn legacy_csi(snapshots: Option<Vec<Value>>, contents: Option<Vec<Value>>) -> Vec<VolumeInfo> {
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
