//! VolumeSnapshots whose annotations alone name the snapshot in the storage: those of the CSI plugin of old versions of
//! Velero, whose backups do not say which content a VolumeSnapshot is bound to.

use crate::method::csi::answer::text;
use crate::method::csi::api::SnapshotApi;
use crate::method::csi::content::DeletionPolicy;
use crate::method::csi::error::CsiError;
use crate::method::csi::names::restored_name;
use crate::method::csi::objects::SnapshotTypes;
use lifeboat_api::well_known::{ANNOTATION_CSI_DRIVER_NAME, ANNOTATION_VOLUME_SNAPSHOT_HANDLE, LABEL_RESTORE_NAME};
use lifeboat_api::{Restore, label_value};
use lifeboat_cluster::{Cluster, WriteBody};
use serde_json::{Value, json};

fn annotation<'a>(snapshot: &'a Value, key: &str) -> &'a str {
    snapshot["metadata"]["annotations"][key].as_str().unwrap_or_default()
}

/// Returns true if only the annotations of a VolumeSnapshot of a backup name the snapshot behind it.
pub(crate) fn is_named_by_annotations(snapshot: &Value) -> bool {
    let names = [ANNOTATION_VOLUME_SNAPSHOT_HANDLE, ANNOTATION_CSI_DRIVER_NAME];
    text(snapshot, "/status/boundVolumeSnapshotContentName").is_empty()
        && names.iter().all(|name| !annotation(snapshot, name).is_empty())
}

/// The content that such a VolumeSnapshot of the backup gets in the cluster.
fn content_of(snapshot: &Value, restore: &Restore, class: Option<&str>, types: &SnapshotTypes) -> Value {
    let namespace = text(snapshot, "/metadata/namespace");
    let name = restored_name(&restore.metadata.uid, namespace, text(snapshot, "/metadata/name"));
    let target = restore.spec.namespace_mapping.get(namespace).map_or(namespace, String::as_str);
    let mut content = json!({
        "apiVersion": types.contents.api_version(), "kind": types.contents.kind,
        "metadata": {"name": name, "labels": {LABEL_RESTORE_NAME: label_value(&restore.metadata.name)}},
        "spec": {
            "driver": annotation(snapshot, ANNOTATION_CSI_DRIVER_NAME),
            "deletionPolicy": DeletionPolicy::Retain.as_str(),
            "source": {"snapshotHandle": annotation(snapshot, ANNOTATION_VOLUME_SNAPSHOT_HANDLE)},
            "volumeSnapshotRef": {"kind": types.snapshots.kind, "namespace": target, "name": name}},
    });
    if let Some(class) = class {
        content["spec"]["volumeSnapshotClassName"] = class.into();
    }
    content
}

/// Makes the content of a VolumeSnapshot of the backup when only its annotations name the snapshot behind it, unless it
/// is there; does nothing for others.
///
/// # Errors
/// [`CsiError`].
pub async fn make_annotated_content(
    cluster: &Cluster,
    types: &SnapshotTypes,
    restore: &Restore,
    from_backup: &Value,
) -> Result<(), CsiError> {
    if restore.spec.restore_pvs == Some(false) || !is_named_by_annotations(from_backup) {
        return Ok(());
    }
    let mut classes = SnapshotApi { cluster, types }.classes().await?;
    classes.sort_by(|a, b| a.name.cmp(&b.name));
    let driver = annotation(from_backup, ANNOTATION_CSI_DRIVER_NAME);
    let class = classes.iter().find(|class| class.driver == driver).map(|class| class.name.as_str());
    let content = content_of(from_backup, restore, class, types);
    let wanted = WriteBody::of(content.to_string().into());
    match cluster.create(&types.contents, None, text(&content, "/metadata/name"), wanted).await {
        Ok(_) => Ok(()),
        Err(e) if e.is_already_exists() => Ok(()),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::csi::objects::SNAPSHOT_API;
    use lifeboat_object::ApiResource;
    use std::sync::Arc;

    #[test]
    fn a_snapshot_of_an_old_backup_is_restored_by_its_annotated_handle() {
        let of = |resource: &str, kind: &str| Arc::new(ApiResource::new(SNAPSHOT_API, "v1", resource, kind));
        let types = SnapshotTypes {
            snapshots: of("volumesnapshots", "VolumeSnapshot"),
            contents: of("volumesnapshotcontents", "VolumeSnapshotContent"),
            classes: of("volumesnapshotclasses", "VolumeSnapshotClass"),
            groups: None,
        };
        let annotations = json!({"velero.io/csi-volumesnapshot-handle": "snap-1", "velero.io/csi-driver-name": "d"});
        let snapshot = json!({"metadata": {"namespace": "shop", "name": "s", "annotations": annotations}, "status": {"readyToUse": true}});
        let mut restore = Restore::default();
        (restore.metadata.name, restore.metadata.uid) = ("r".into(), "u".into());
        restore.spec.namespace_mapping.insert("shop".into(), "copy".into());
        let name = restored_name("u", "shop", "s");
        let expected = json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
            "metadata": {"name": name, "labels": {"velero.io/restore-name": "r"}},
            "spec": {"driver": "d", "deletionPolicy": "Retain", "source": {"snapshotHandle": "snap-1"},
                "volumeSnapshotRef": {"kind": "VolumeSnapshot", "namespace": "copy", "name": name}, "volumeSnapshotClassName": "c"}});
        assert_eq!(content_of(&snapshot, &restore, Some("c"), &types), expected);
        assert!(is_named_by_annotations(&snapshot));
        let mut bound = snapshot.clone();
        bound["status"]["boundVolumeSnapshotContentName"] = "content".into();
        let mut unnamed = snapshot;
        unnamed["metadata"]["annotations"]["velero.io/csi-driver-name"] = "".into();
        assert_eq!([bound, unnamed].map(|one| is_named_by_annotations(&one)), [false, false]);
    }
}
