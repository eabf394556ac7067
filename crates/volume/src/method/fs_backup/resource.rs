//! PodVolumeRestores: made, found again, and read.

use crate::method::child::{child_name, child_of_restore, resource_type, uploader_settings};
use crate::method::definition::Definitions;
use crate::restore_plan::FileVolume;
use bytes::Bytes;
use lifeboat_api::well_known::{LABEL_POD_UID, LABEL_PVC_UID};
use lifeboat_api::{ObjectReference, PodVolumeRestore, PodVolumeRestoreSpec, Restore, UploaderType};
use lifeboat_cluster::{Cluster, WriteBody};
use lifeboat_object::ApiResource;
use serde_json::Value;

/// The name of the PodVolumeRestore of a volume of a restored pod.
pub(super) fn restored_volume_name(restore: &Restore, namespace: &str, pod: &str, volume: &str) -> String {
    child_name(&restore.metadata, &["pod-volume", namespace, pod, volume])
}

/// A volume that is to be filled, with the pod in the cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToFill<'a> {
    pub(super) pod: &'a Value,
    pub(super) volume: &'a FileVolume,
    /// The UID of its claim; empty for a volume without one.
    pub(super) claim_uid: &'a str,
    /// The namespace of the backup.
    pub(super) source_namespace: &'a str,
    /// The storage location of the backup.
    pub(super) location: &'a str,
}

/// The PodVolumeRestore of a volume (velero: pkg/podvolume/restorer.go).
pub(super) fn pod_volume_restore(restore: &Restore, fill: ToFill<'_>) -> PodVolumeRestore {
    let text = |field: &str| fill.pod["metadata"][field].as_str().unwrap_or_default().to_owned();
    let (namespace, name, uid) = (text("namespace"), text("name"), text("uid"));
    let FileVolume { volume, files, .. } = fill.volume;
    let mut metadata = child_of_restore(restore, &restored_volume_name(restore, &namespace, &name, volume));
    let labels = [(LABEL_POD_UID, uid.as_str()), (LABEL_PVC_UID, fill.claim_uid)];
    let labels = labels.into_iter().filter(|(_, value)| !value.is_empty());
    metadata.labels.extend(labels.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let pod = ObjectReference { kind: "Pod".to_owned(), namespace, name, uid, ..ObjectReference::default() };
    let spec = PodVolumeRestoreSpec {
        pod,
        volume: volume.clone(),
        backup_storage_location: fill.location.to_owned(),
        uploader_type: UploaderType::Kopia,
        snapshot_id: files.snapshot_id.clone(),
        source_namespace: fill.source_namespace.to_owned(),
        uploader_settings: uploader_settings(restore),
        snapshot_size: files.size,
        ..PodVolumeRestoreSpec::default()
    };
    PodVolumeRestore { metadata, spec, ..PodVolumeRestore::default() }
}

/// The type of PodVolumeRestores.
fn kind() -> ApiResource {
    resource_type::<PodVolumeRestore>()
}

/// Makes a PodVolumeRestore, or finds the one that an earlier run has made.
///
/// # Errors
/// The reason for people.
pub(super) async fn make(
    cluster: &Cluster,
    definitions: &Definitions,
    resource: &PodVolumeRestore,
) -> Result<PodVolumeRestore, String> {
    definitions.make(cluster, resource, |body| make_or_find(cluster, resource, body)).await
}

async fn make_or_find(cluster: &Cluster, resource: &PodVolumeRestore, body: Bytes) -> Result<PodVolumeRestore, String> {
    let (namespace, name) = (&resource.metadata.namespace, &resource.metadata.name);
    let made = cluster.create(&kind(), Some(namespace), name, WriteBody::of(body)).await;
    let body = match made {
        Ok(body) => body,
        Err(e) if e.is_already_exists() => {
            cluster.get_existing(&kind(), Some(namespace), name).await.map_err(|e| e.to_string())?
        }
        Err(e) => return Err(e.to_string()),
    };
    let found: PodVolumeRestore = read(name, &body)?;
    let (own, theirs) = (&resource.spec.pod, &found.spec.pod);
    if own.uid != theirs.uid {
        return Err(format!(
            "the PodVolumeRestore {namespace}/{name} is of another pod of the name ({}, this one is {}): delete it, and make another Restore",
            theirs.uid, own.uid
        ));
    }
    Ok(found)
}

/// Reads a PodVolumeRestore.
///
/// # Errors
/// The reason for people.
fn read(name: &str, body: &[u8]) -> Result<PodVolumeRestore, String> {
    serde_json::from_slice(body).map_err(|e| format!("the PodVolumeRestore {name} cannot be read: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::restore_plan::SavedFiles;
    use lifeboat_api::UploaderConfigForRestore;
    use serde_json::json;

    #[test]
    fn a_pod_volume_restore_has_the_fields_of_veleros_and_a_name_of_its_own() {
        let mut restore = Restore::default();
        restore.metadata.name = "r".to_owned();
        restore.metadata.namespace = "velero".to_owned();
        restore.metadata.uid = "ru".to_owned();
        let config = UploaderConfigForRestore { parallel_files_download: 4, ..UploaderConfigForRestore::default() };
        restore.spec.uploader_config = Some(config);
        let volume = FileVolume {
            volume: "data".into(),
            claim: Some("c".into()),
            files: SavedFiles { snapshot_id: "k1".into(), size: 7, ..SavedFiles::default() },
        };
        let pod = json!({"metadata": {"namespace": "new", "name": "web", "uid": "pu"}});
        let fill =
            ToFill { pod: &pod, volume: &volume, claim_uid: "cu", source_namespace: "shop", location: "default" };
        let name = restored_volume_name(&restore, "new", "web", "data");
        let mut made = serde_json::to_value(pod_volume_restore(&restore, fill)).unwrap();
        made.as_object_mut().unwrap().remove("status");
        let expected = json!({
            "apiVersion": "velero.io/v1", "kind": "PodVolumeRestore",
            "metadata": {"name": name, "namespace": "velero",
                "labels": {"velero.io/restore-name": "r", "velero.io/restore-uid": "ru", "velero.io/pod-uid": "pu", "velero.io/pvc-uid": "cu"},
                "ownerReferences": [{"apiVersion": "velero.io/v1", "kind": "Restore", "name": "r", "uid": "ru", "controller": true}]},
            "spec": {"pod": {"kind": "Pod", "namespace": "new", "name": "web", "uid": "pu"}, "volume": "data", "snapshotID": "k1",
                "snapshotSize": 7, "backupStorageLocation": "default", "repoIdentifier": "", "uploaderType": "kopia",
                "sourceNamespace": "shop", "uploaderSettings": {"WriteSparseFiles": "false", "ParallelFilesDownload": "4"}},
        });
        assert_eq!(made, expected);
    }
}
