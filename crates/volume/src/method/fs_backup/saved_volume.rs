//! PodVolumeBackups: made, and found again.

use crate::facts::Claim;
use crate::method::child::{child_metadata, child_name, make_or_take_up, upload_settings};
use crate::method::definition::Definitions;
use lifeboat_api::well_known::{
    ANNOTATION_BY_READER_POD, ANNOTATION_PVC_NAME, LABEL_BACKUP_NAME, LABEL_BACKUP_UID, LABEL_PVC_UID,
};
use lifeboat_api::{Backup, DataPathPhase, ObjectReference, PodVolumeBackup, PodVolumeBackupSpec, UploaderType};
use lifeboat_cluster::Cluster;
use serde_json::Value;

/// A volume of a pod that is to be saved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeToSave {
    /// Its name in the pod.
    pub name: String,
    /// Its claim; `None` for a volume without one.
    pub claim: Option<ClaimIdentity>,
    /// True where the backup does not have the pod: a restore fills its claim without one.
    pub is_without_pod: bool,
}

/// The claim of a volume, in the namespace of the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimIdentity {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl VolumeToSave {
    /// A volume of this name with this claim.
    #[must_use]
    pub fn of(name: &str, claim: Option<&Claim>) -> Self {
        let claim = claim.map(|claim| ClaimIdentity { name: claim.key.name.clone(), uid: claim.uid.clone() });
        Self { name: name.to_owned(), claim, is_without_pod: false }
    }

    /// The name of its PodVolumeBackup, which follows from what it is for: an attempt after this one finds it.
    ///
    /// compat: Velero lets the API server make the name up.
    pub(super) fn resource_name(&self, backup: &Backup, namespace: &str, pod: &str) -> String {
        child_name(&backup.metadata, &[namespace, pod, &self.name])
    }
}

/// A pod whose volumes are saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SavedPod {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) node: String,
}

impl SavedPod {
    /// Reads a pod, which must run on a node.
    ///
    /// # Errors
    /// The reason for which the files of its volumes cannot be saved.
    pub(super) fn of(pod: &Value) -> Result<Self, String> {
        let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (namespace, name, phase) = (text("/metadata/namespace"), text("/metadata/name"), text("/status/phase"));
        let node = text("/spec/nodeName");
        if phase != "Running" || node.is_empty() {
            return Err(format!("pod {namespace}/{name} is not running: its phase is {phase:?}"));
        }
        Ok(Self { namespace, name, uid: text("/metadata/uid"), node })
    }
}

/// The PodVolumeBackup of a volume (velero: pkg/podvolume/backupper.go).
pub(super) fn pod_volume_backup(backup: &Backup, pod: &SavedPod, volume: &VolumeToSave) -> PodVolumeBackup {
    let SavedPod { namespace, name, uid, node } = pod;
    let of = &backup.metadata;
    let own_name = volume.resource_name(backup, namespace, name);
    let mut metadata = child_metadata::<Backup>(of, &own_name, [LABEL_BACKUP_NAME, LABEL_BACKUP_UID]);
    let mut tags = vec![
        ("backup", of.name.as_str()),
        ("backup-uid", &of.uid),
        ("pod", name),
        ("pod-uid", uid),
        ("ns", namespace),
        ("volume", &volume.name),
    ];
    if let Some(ClaimIdentity { name: claim, uid: claim_uid }) = &volume.claim {
        metadata.labels.insert(LABEL_PVC_UID.to_owned(), claim_uid.clone());
        tags.push(("pvc-uid", claim_uid));
        metadata.annotations.insert(ANNOTATION_PVC_NAME.to_owned(), claim.clone());
        if volume.is_without_pod {
            metadata.annotations.insert(ANNOTATION_BY_READER_POD.to_owned(), "true".to_owned());
        }
    }
    let reference = ObjectReference {
        kind: "Pod".to_owned(),
        namespace: namespace.clone(),
        name: name.clone(),
        uid: uid.clone(),
        ..ObjectReference::default()
    };
    let spec = PodVolumeBackupSpec {
        node: node.clone(),
        pod: reference,
        volume: volume.name.clone(),
        backup_storage_location: backup.spec.storage_location.clone(),
        uploader_type: UploaderType::Kopia,
        tags: tags.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        uploader_settings: upload_settings(backup),
        ..PodVolumeBackupSpec::default()
    };
    PodVolumeBackup { metadata, spec, ..PodVolumeBackup::default() }
}

/// Returns true if a PodVolumeBackup of an earlier attempt has saved the claim of this UID: it needs no reader pod any more.
pub(super) fn is_saved(found: &PodVolumeBackup, claim_uid: &str) -> bool {
    found.status.phase == Some(DataPathPhase::Completed)
        && found.metadata.deletion_timestamp.is_none()
        && found.metadata.labels.get(LABEL_PVC_UID).is_some_and(|uid| uid == claim_uid)
}

/// Makes a PodVolumeBackup, or takes up the one that an earlier attempt has made, whose transfer goes on or is done. One that has
/// failed, or is of another pod of the name, is replaced.
///
/// # Errors
/// The reason for people.
pub(super) async fn make(
    cluster: &Cluster,
    definitions: &Definitions,
    resource: &PodVolumeBackup,
) -> Result<(), String> {
    let is_usable = |found: &PodVolumeBackup| is_usable(found, &resource.spec.pod.uid);
    let make = |body| make_or_take_up::<PodVolumeBackup>(cluster, &resource.metadata, body, &is_usable);
    definitions.make(cluster, resource, make).await
}

/// Returns true if a PodVolumeBackup can be taken up for the pod of this UID.
fn is_usable(found: &PodVolumeBackup, pod: &str) -> bool {
    let has_failed = matches!(found.status.phase, Some(DataPathPhase::Failed | DataPathPhase::Canceled));
    !has_failed && !found.spec.cancel && found.metadata.deletion_timestamp.is_none() && found.spec.pod.uid == pod
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::UploaderConfigForBackup;
    use serde_json::json;

    fn backup() -> Backup {
        let mut backup = Backup::default();
        backup.metadata.name = "b".to_owned();
        backup.metadata.namespace = "velero".to_owned();
        backup.metadata.uid = "bu".to_owned();
        backup.spec.storage_location = "default".to_owned();
        let config = UploaderConfigForBackup { parallel_files_upload: 4, ..UploaderConfigForBackup::default() };
        backup.spec.uploader_config = Some(config);
        backup
    }

    fn claim(uid: &str) -> ClaimIdentity {
        ClaimIdentity { name: "c".to_owned(), uid: uid.to_owned() }
    }

    #[test]
    fn a_pod_volume_backup_has_the_fields_of_veleros_and_a_name_of_its_own() {
        let pod = SavedPod { namespace: "shop".into(), name: "web".into(), uid: "pu".into(), node: "n1".into() };
        let volume = VolumeToSave { name: "data".into(), claim: Some(claim("cu")), ..VolumeToSave::default() };
        let name = volume.resource_name(&backup(), "shop", "web");
        let mut made = serde_json::to_value(pod_volume_backup(&backup(), &pod, &volume)).unwrap();
        made.as_object_mut().unwrap().remove("status");
        let expected = json!({
            "apiVersion": "velero.io/v1", "kind": "PodVolumeBackup",
            "metadata": {"name": name, "namespace": "velero", "annotations": {"velero.io/pvc-name": "c"},
                "labels": {"velero.io/backup-name": "b", "velero.io/backup-uid": "bu", "velero.io/pvc-uid": "cu"},
                "ownerReferences": [{"apiVersion": "velero.io/v1", "kind": "Backup", "name": "b", "uid": "bu", "controller": true}]},
            "spec": {"node": "n1", "pod": {"kind": "Pod", "namespace": "shop", "name": "web", "uid": "pu"}, "volume": "data",
                "backupStorageLocation": "default", "repoIdentifier": "", "uploaderType": "kopia",
                "tags": {"backup": "b", "backup-uid": "bu", "pod": "web", "pod-uid": "pu", "ns": "shop", "volume": "data",
                    "pvc-uid": "cu"},
                "uploaderSettings": {"ParallelFilesUpload": "4"}},
        });
        assert_eq!(made, expected);
    }

    #[test]
    fn each_volume_has_a_name_of_its_own_in_all_attempts() {
        let (mut again, volume) = (backup(), VolumeToSave::of("data", None));
        again.status.attempt = 2;
        let name = volume.resource_name(&backup(), "shop", "web");
        assert_eq!(volume.resource_name(&again, "shop", "web"), name);
        for other in [
            volume.resource_name(&again, "shop", "webd"),
            VolumeToSave::of("ddata", None).resource_name(&again, "shop", "web"),
        ] {
            assert_ne!(other, name);
        }
        assert!(name.starts_with("b-") && name.len() == 18, "{name}");
    }

    #[test]
    fn what_an_attempt_before_has_begun_is_taken_up_unless_it_failed() {
        let found = |phase: Option<DataPathPhase>, cancel: bool, pod: &str| {
            let mut found = PodVolumeBackup::default();
            found.status.phase = phase;
            found.spec.cancel = cancel;
            found.spec.pod.uid = pod.to_owned();
            is_usable(&found, "u")
        };
        use DataPathPhase as Phase;
        let usable = [None, Some(Phase::New), Some(Phase::InProgress), Some(Phase::Completed)];
        assert!(usable.into_iter().all(|phase| found(phase, false, "u") && !found(phase, false, "other")));
        assert!(!found(Some(Phase::Failed), false, "u") && !found(Some(Phase::Canceled), false, "u"));
        assert!(!found(Some(Phase::InProgress), true, "u"));
    }

    #[test]
    fn what_an_attempt_before_has_saved_of_a_claim_needs_no_reader_pod() {
        let pod = SavedPod { namespace: "shop".into(), name: "r".into(), uid: "pu".into(), node: "n1".into() };
        let volume = VolumeToSave { name: "data".into(), claim: Some(claim("cu")), is_without_pod: true };
        let mut found = pod_volume_backup(&backup(), &pod, &volume);
        assert_eq!(found.metadata.annotations["lifeboat.io/by-reader-pod"], "true");
        let saved =
            [None, Some(DataPathPhase::InProgress), Some(DataPathPhase::Failed), Some(DataPathPhase::Completed)];
        let saved = saved.map(|phase| {
            found.status.phase = phase;
            is_saved(&found, "cu")
        });
        assert_eq!(saved, [false, false, false, true]);
        assert!(!is_saved(&found, "another claim of the name"));
    }

    #[test]
    fn only_pods_that_run_on_a_node_are_saved() {
        let pod = |phase: &str, node: &str| {
            json!({"metadata": {"namespace": "n", "name": "p", "uid": "u"}, "spec": {"nodeName": node},
                "status": {"phase": phase}})
        };
        let saved = SavedPod { namespace: "n".into(), name: "p".into(), uid: "u".into(), node: "n1".into() };
        assert_eq!(SavedPod::of(&pod("Running", "n1")), Ok(saved));
        let why = |phase: &str| Err(format!("pod n/p is not running: its phase is {phase:?}"));
        assert_eq!(SavedPod::of(&pod("Running", "")), why("Running"));
        assert_eq!(SavedPod::of(&pod("Pending", "n1")), why("Pending"));
    }
}
