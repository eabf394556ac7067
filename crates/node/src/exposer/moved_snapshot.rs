//! The copy of a snapshot in the namespace of the node agent: a VolumeSnapshot and a VolumeSnapshotContent of the DataUpload's
//! name, for the snapshot in the storage that the source has. Pure.
//!
//! Neither has an owner: the claim that is made from the VolumeSnapshot must go before it. Both say in an annotation which
//! DataUpload they are of, and where the snapshot came from.

use crate::kube::{text, uid};
use crate::transfer::Transfer;
use jiff::Timestamp;
use lifeboat_api::well_known::{
    ANNOTATION_MADE_VOLUME, ANNOTATION_MOVED_SNAPSHOT, ANNOTATION_VOLUME_GROUP_SNAPSHOT_HANDLE,
};
use lifeboat_api::{DataUploadSpec, Time};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// On a VolumeSnapshotContent: volumes of another mode may be made from it.
const ALLOW_MODE_CHANGE: &str = "snapshot.storage.kubernetes.io/allow-volume-mode-change";
/// The label by which the snapshotter of one node knows its contents, where each node has one.
const MANAGED_BY: &str = "snapshot.storage.kubernetes.io/managed-by";
/// The finalizer that keeps a content until its driver was told of the deletion. The snapshot controller puts it on when it binds the
/// content; one that is removed earlier would be gone without the snapshot in the storage.
const CONTENT_FINALIZER: &str = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
/// Annotations of the work of controllers on the very object.
const OF_CONTROLLERS: [&str; 4] = [
    "snapshot.storage.kubernetes.io/volumesnapshot-being-created",
    "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted",
    "kubectl.kubernetes.io/last-applied-configuration",
    ANNOTATION_MADE_VOLUME,
];
const GROUP_SNAPSHOT_API: &str = "groupsnapshot.storage.k8s.io";
/// On contents: the driver's name of the group that the snapshot was taken with.
const GROUP_HANDLE: &str = "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle";

/// The snapshot of a DataUpload, as the copies remember it when the source is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MovedSnapshot {
    /// UID of the DataUpload.
    pub(crate) data_upload: String,
    /// The VolumeSnapshotContent of the source.
    pub(crate) content: String,
    /// The driver's name of the snapshot.
    pub(crate) handle: String,
    /// The size that a volume made from it must have, as a quantity; empty where the driver says none.
    pub(crate) restore_size: String,
    /// `Block` or `Filesystem`; empty where the content does not say.
    pub(crate) volume_mode: String,
    /// The source is a member of a VolumeGroupSnapshot, with which it is deleted.
    pub(crate) is_in_group: bool,
}

/// An object of the copy's name, as a DataUpload sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopyOwner {
    /// It is the copy of this DataUpload.
    Own(MovedSnapshot),
    /// It is of something else.
    Foreign,
}

impl MovedSnapshot {
    /// The snapshot that a source and its content stand for.
    pub(crate) fn of_source(transfer: &Transfer, source: &Value, content: &Value) -> Self {
        Self {
            data_upload: transfer.meta.uid.clone(),
            content: text(content, &["metadata", "name"]).to_owned(),
            handle: handle_of(content).to_owned(),
            restore_size: text(source, &["status", "restoreSize"]).to_owned(),
            volume_mode: text(content, &["spec", "sourceVolumeMode"]).to_owned(),
            is_in_group: is_in_group(source, content),
        }
    }
}

impl CopyOwner {
    /// Reads an object of the copy's name: the VolumeSnapshot, or the VolumeSnapshotContent.
    pub(crate) fn of(transfer: &Transfer, object: &Value) -> Self {
        match object["metadata"]["annotations"][ANNOTATION_MOVED_SNAPSHOT].as_str() {
            Some(noted) => match serde_json::from_str::<MovedSnapshot>(noted) {
                Ok(moved) if moved.data_upload == transfer.meta.uid => Self::Own(moved),
                _ => Self::Foreign,
            },
            // A node agent of Velero notes nothing. Only a data mover makes a pair that is named so.
            None if is_named_as_velero_does(transfer, object) => Self::Own(MovedSnapshot {
                data_upload: transfer.meta.uid.clone(),
                handle: handle_of(object).to_owned(),
                restore_size: text(object, &["status", "restoreSize"]).to_owned(),
                volume_mode: text(object, &["spec", "sourceVolumeMode"]).to_owned(),
                ..MovedSnapshot::default()
            }),
            None => Self::Foreign,
        }
    }

    /// The snapshot of an own copy.
    pub(crate) fn own(self) -> Option<MovedSnapshot> {
        match self {
            Self::Own(moved) => Some(moved),
            Self::Foreign => None,
        }
    }
}

fn is_named_as_velero_does(transfer: &Transfer, object: &Value) -> bool {
    let (name, namespace) = (&transfer.meta.name, &transfer.meta.namespace);
    let of_snapshot = text(object, &["spec", "source", "volumeSnapshotContentName"]);
    let reference = &object["spec"]["volumeSnapshotRef"];
    let is_content = reference["name"] == **name && reference["namespace"] == **namespace;
    of_snapshot == name || (is_content && !text(object, &["spec", "source", "snapshotHandle"]).is_empty())
}

/// The driver's name of the snapshot of a content; empty while it has none.
pub(crate) fn handle_of(content: &Value) -> &str {
    match text(content, &["status", "snapshotHandle"]) {
        "" => text(content, &["spec", "source", "snapshotHandle"]),
        handle => handle,
    }
}

/// The name of the content that a VolumeSnapshot is bound to; empty while it is not.
pub(crate) fn content_of(snapshot: &Value) -> &str {
    text(snapshot, &["status", "boundVolumeSnapshotContentName"])
}

/// Returns true if an object was told to go.
pub(crate) fn is_being_deleted(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Returns true if a source may be the one that a DataUpload asks for: the engine takes the snapshot first. One that is younger has the
/// same name, and is that of the next attempt of the backup.
pub(crate) fn may_be_source(transfer: &Transfer, source: &Value) -> bool {
    let made = text(source, &["metadata", "creationTimestamp"]).parse::<Timestamp>().ok();
    let asked = transfer.meta.creation_timestamp.map(Time::timestamp);
    made.zip(asked).is_none_or(|(made, asked)| made <= asked)
}

/// Returns true if a snapshot was taken together with those of other volumes. Drivers delete such a group as a whole only.
pub(crate) fn is_in_group(source: &Value, content: &Value) -> bool {
    let owners = source["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let is_owned = owners.into_iter().any(|owner| {
        let group = text(owner, &["apiVersion"]).split('/').next();
        owner["kind"] == "VolumeGroupSnapshot" && group == Some(GROUP_SNAPSHOT_API)
    });
    let says = |object: &Value, path: &[&str]| !text(object, path).is_empty();
    let annotated = |object: &Value, key: &str| !text(&object["metadata"]["annotations"], &[key]).is_empty();
    is_owned
        || says(source, &["status", "volumeGroupSnapshotName"])
        || says(content, &["status", "volumeGroupSnapshotHandle"])
        || annotated(source, ANNOTATION_VOLUME_GROUP_SNAPSHOT_HANDLE)
        || annotated(content, GROUP_HANDLE)
}

/// The annotations of an object, without those of controllers and with these.
fn annotations(of: &Value, more: &[(&str, String)]) -> Map<String, Value> {
    let mut all = of["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    all.retain(|key, _| !OF_CONTROLLERS.contains(&key.as_str()));
    all.extend(more.iter().map(|(key, value)| ((*key).to_owned(), json!(value))));
    all
}

fn note(moved: &MovedSnapshot) -> (&'static str, String) {
    (ANNOTATION_MOVED_SNAPSHOT, serde_json::to_string(moved).unwrap_or_default())
}

/// The copied VolumeSnapshot: of a content that is named like it.
pub(crate) fn snapshot_copy(transfer: &Transfer, source: &Value, moved: &MovedSnapshot) -> Value {
    let name = &transfer.meta.name;
    let mut spec = json!({"source": {"volumeSnapshotContentName": name}});
    let class = text(source, &["spec", "volumeSnapshotClassName"]);
    if !class.is_empty() {
        spec["volumeSnapshotClassName"] = json!(class);
    }
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {
            "name": name, "namespace": transfer.meta.namespace, "annotations": annotations(source, &[note(moved)]),
        },
        "spec": spec,
    })
}

/// The copied content: the same snapshot in the storage, which is deleted with it. That of a group stays, because it goes with its
/// group.
pub(crate) fn content_copy(content: &Value, copy: &Value, moved: &MovedSnapshot) -> Value {
    let policy = if moved.is_in_group { "Retain" } else { "Delete" };
    let mut spec = json!({
        "deletionPolicy": policy, "driver": content["spec"]["driver"], "source": {"snapshotHandle": moved.handle},
        "volumeSnapshotRef": {
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "uid": uid(copy),
            "name": copy["metadata"]["name"], "namespace": copy["metadata"]["namespace"],
        },
    });
    for field in ["volumeSnapshotClassName", "sourceVolumeMode"] {
        if !content["spec"][field].is_null() {
            spec[field] = content["spec"][field].clone();
        }
    }
    let more = [(ALLOW_MODE_CHANGE, "true".to_owned()), note(moved)];
    let mut metadata = json!({
        "name": copy["metadata"]["name"], "annotations": annotations(content, &more), "finalizers": [CONTENT_FINALIZER],
    });
    if let Some(manager) = content["metadata"]["labels"][MANAGED_BY].as_str() {
        metadata["labels"] = json!({MANAGED_BY: manager});
    }
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent", "metadata": metadata, "spec": spec,
    })
}

/// The name of the source in messages.
pub(crate) fn source_name(spec: &DataUploadSpec) -> String {
    let name = spec.csi_snapshot.as_ref().map_or("", |snapshot| snapshot.volume_snapshot.as_str());
    format!("VolumeSnapshot {}/{name}", spec.source_namespace)
}
