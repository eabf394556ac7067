//! Records of a backup about its volumes, gathered from its files.

use lifeboat_api::well_known::{
    ANNOTATION_BY_READER_POD, ANNOTATION_CSI_DRIVER_NAME, ANNOTATION_VOLUME_SNAPSHOT_HANDLE,
};
use lifeboat_api::{DataMover, NamespacedName};
use lifeboat_archive::native_snapshot::NativeSnapshot;
use lifeboat_archive::volume_info::{
    BackupVolumeInfo, CSI_SNAPSHOT, CsiSnapshotInfo, FAILED, NATIVE_SNAPSHOT, POD_VOLUME_BACKUP, PVB_INFO, SUCCEEDED,
    UPLOAD_INFO,
};
use lifeboat_object::{GroupResource, ObjectKey};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Records about volumes from the files of a backup.
#[derive(Clone, Debug, Default)]
pub struct RecordedVolumes {
    /// Methods by volume, from the volume information.
    pub methods: BTreeMap<String, RecordedMethod>,
    /// Native snapshots by volume; the first one of each.
    pub native: BTreeMap<String, NativeSnapshot>,
    /// Files of claims from pod volume backups.
    pub pod_volumes: BTreeMap<ObjectKey, SavedFiles>,
    /// Files of the volumes of pods from pod volume backups, by pod and by volume.
    pub of_pods: BTreeMap<NamespacedName, BTreeMap<String, SavedFiles>>,
    /// Claims whose data was moved into a repository and comes back without a pod: out of CSI snapshots, as the volume information says,
    /// and by reader pods.
    pub moved: BTreeMap<ObjectKey, MovedSnapshot>,
    /// CSI snapshots by claim.
    pub snapshots: BTreeMap<ObjectKey, CsiSnapshotInfo>,
    /// Claims whose CSI snapshot failed.
    pub failed_claims: BTreeSet<ObjectKey>,
    /// The reasons why data was not saved that was to be, by volume; empty where the backup does not say it.
    pub failures: BTreeMap<String, String>,
}

/// Files of a volume in a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedFiles {
    /// The snapshot in the repository.
    pub snapshot_id: String,
    /// Its size in bytes; zero when it is not known.
    pub size: i64,
    /// The format of the repository.
    pub format: FileFormat,
}

/// The format of a repository of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileFormat {
    /// That of kopia.
    #[default]
    Kopia,
    /// That of restic.
    Restic,
}

/// The data of a claim that is in a repository and comes back without a pod: out of a CSI snapshot, or read by a reader pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MovedSnapshot {
    /// The program that has moved it; empty for the built-in one.
    pub data_mover: String,
    /// The snapshot in the repository.
    pub snapshot_id: String,
    /// Its size in bytes; zero when it is not known.
    pub size: i64,
    /// The namespace that it was saved from; empty for that of its claim.
    pub source_namespace: String,
    /// The operating system of the node that has moved it; empty when it is not known.
    pub node_os: String,
    /// The file system of its volume; empty when it is not known.
    pub fs_type: String,
}

impl MovedSnapshot {
    /// Reads a DataUpload of a backup; `None` when it has moved nothing.
    #[must_use]
    pub fn of_upload(upload: &Value) -> Option<Self> {
        let (spec, status) = (&upload["spec"], &upload["status"]);
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let snapshot_id = text(&status["snapshotID"]);
        (!snapshot_id.is_empty()).then(|| Self {
            data_mover: text(&spec["datamover"]),
            snapshot_id,
            size: status["progress"]["totalBytes"].as_i64().unwrap_or_default(),
            source_namespace: text(&spec["sourceNamespace"]),
            node_os: text(&status["nodeOS"]),
            fs_type: text(&spec["sourceFSType"]),
        })
    }

    /// Returns true if a program of somebody else has moved it, which alone brings it back.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        !DataMover::of(&self.data_mover).is_of_velero()
    }
}

/// The method by which a volume was saved, as the volume information of a backup has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedMethod {
    /// A snapshot by the API of its storage; it may have failed.
    NativeSnapshot,
    /// A CSI snapshot, which is there.
    CsiSnapshot,
    /// A CSI snapshot whose data was moved into a repository.
    MovedCsiSnapshot {
        /// True when a data mover of somebody else has done it.
        is_foreign: bool,
    },
    /// A pod volume backup.
    PodVolumeBackup,
    /// Its data was to be saved, and was not.
    Failed,
    /// It was skipped, or saved by a method of which this version knows nothing.
    Other,
}

/// The files of a backup that tell of its volumes, as far as it has them.
#[derive(Clone, Debug, Default)]
pub struct VolumeFiles {
    /// The volume information.
    pub infos: Vec<BackupVolumeInfo>,
    /// Native snapshots.
    pub native: Vec<NativeSnapshot>,
    /// Pod volume backups.
    pub pod_volumes: Vec<Value>,
    /// VolumeSnapshots.
    pub snapshots: Vec<Value>,
}

/// Returns true if a mover has saved a volume and nothing was in it: such a backup has no snapshot in the repository.
pub(super) fn was_empty(info: &BackupVolumeInfo) -> bool {
    let moved = info.other.get(if info.snapshot_data_moved { UPLOAD_INFO } else { PVB_INFO });
    info.result == SUCCEEDED && moved.is_some_and(|moved| moved["snapshotHandle"].as_str().is_none_or(str::is_empty))
}

impl RecordedMethod {
    fn of(info: &BackupVolumeInfo) -> Self {
        match (has_failed(info), info.snapshot_data_moved, info.backup_method.as_str()) {
            (true, ..) => Self::Failed,
            // It was empty: there is nothing to bring back.
            (false, true, _) if was_empty(info) && !moved_snapshot(info).is_foreign() => Self::Other,
            (false, true, _) => Self::MovedCsiSnapshot { is_foreign: moved_snapshot(info).is_foreign() },
            (false, false, NATIVE_SNAPSHOT) => Self::NativeSnapshot,
            (false, false, CSI_SNAPSHOT) => Self::CsiSnapshot,
            (false, false, POD_VOLUME_BACKUP) if was_empty(info) => Self::Other,
            (false, false, POD_VOLUME_BACKUP) => Self::PodVolumeBackup,
            (false, false, _) => Self::Other,
        }
    }
}

impl RecordedVolumes {
    /// Gathers the facts from the files of a backup.
    #[must_use]
    pub fn of(files: VolumeFiles) -> Self {
        let text = |v: &Value, p: &str| v.pointer(p).and_then(Value::as_str).unwrap_or_default().to_owned();
        // compat: in any phase, as Velero takes them.
        let saved = |v: &&Value| !text(v, "/status/snapshotID").is_empty();
        let listed = files.snapshots.iter().map(|snapshot| {
            let name = text(snapshot, "/spec/source/persistentVolumeClaimName");
            let annotation =
                |key: &str| snapshot["metadata"]["annotations"][key].as_str().unwrap_or_default().to_owned();
            let info = CsiSnapshotInfo {
                snapshot_handle: annotation(ANNOTATION_VOLUME_SNAPSHOT_HANDLE),
                driver: annotation(ANNOTATION_CSI_DRIVER_NAME),
                ..CsiSnapshotInfo::default()
            };
            (claim(&text(snapshot, "/metadata/namespace"), &name), info)
        });
        let of_infos =
            files.infos.iter().filter(|info| info.backup_method == CSI_SNAPSHOT && !info.snapshot_data_moved);
        let of_infos = of_infos
            .filter_map(|info| Some((claim(&info.pvc_namespace, &info.pvc_name), info.csi_snapshot_info.clone()?)));
        let snapshots = listed.chain(of_infos).collect();
        let failed = || files.infos.iter().filter(|info| has_failed(info));
        let of_csi = failed().filter(|info| info.backup_method == CSI_SNAPSHOT);
        let (mut of_pods, mut pod_volumes) = (BTreeMap::<NamespacedName, BTreeMap<_, _>>::new(), BTreeMap::new());
        let mut by_readers = BTreeMap::new();
        for one in files.pod_volumes.iter().filter(saved) {
            let (files, namespace) = (SavedFiles::of(one), text(one, "/spec/pod/namespace"));
            let name = text(one, "/metadata/annotations/velero.io~1pvc-name");
            // No backup has its pod.
            if one["metadata"]["annotations"][ANNOTATION_BY_READER_POD] == "true" {
                by_readers.entry(claim(&namespace, &name)).or_insert_with(|| files.moved(&namespace));
                continue;
            }
            if !name.is_empty() {
                pod_volumes.entry(claim(&namespace, &name)).or_insert_with(|| files.clone());
            }
            let pod = NamespacedName { namespace, name: text(one, "/spec/pod/name") };
            of_pods.entry(pod).or_default().entry(text(one, "/spec/volume")).or_insert(files);
        }
        let moved = files.infos.iter().filter(|info| info.snapshot_data_moved && !has_failed(info));
        let moved = moved.map(|info| (claim(&info.pvc_namespace, &info.pvc_name), moved_snapshot(info)));
        let moved = moved.filter(|(_, moved)| !moved.snapshot_id.is_empty()).chain(by_readers).collect();
        let infos = files.infos.iter().filter(|info| !info.pv_name.is_empty());
        let mut native = BTreeMap::new();
        // One without a volume only waits to be deleted with the backup.
        for snapshot in files.native.into_iter().filter(|one| !one.spec.persistent_volume_name.is_empty()) {
            native.entry(snapshot.spec.persistent_volume_name.clone()).or_insert(snapshot);
        }
        Self {
            methods: infos.map(|info| (info.pv_name.clone(), RecordedMethod::of(info))).collect(),
            failed_claims: of_csi.map(|info| claim(&info.pvc_namespace, &info.pvc_name)).collect(),
            failures: failed().map(|info| (info.pv_name.clone(), info.message.clone())).collect(),
            native,
            of_pods,
            pod_volumes,
            moved,
            snapshots,
        }
    }
}

impl SavedFiles {
    /// The same, for a data mover that brings them back into the claim itself.
    fn moved(&self, namespace: &str) -> MovedSnapshot {
        MovedSnapshot {
            snapshot_id: self.snapshot_id.clone(),
            size: self.size,
            source_namespace: namespace.to_owned(),
            ..MovedSnapshot::default()
        }
    }

    /// Reads a PodVolumeBackup.
    fn of(backup: &Value) -> Self {
        let (spec, status) = (&backup["spec"], &backup["status"]);
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        // Before Velero 1.10 none had a type, and all were of restic.
        let is_restic = match spec["uploaderType"].as_str().unwrap_or_default() {
            "" => spec["repoIdentifier"].as_str().is_some_and(|repository| !repository.is_empty()),
            uploader => uploader == "restic",
        };
        Self {
            snapshot_id: text(&status["snapshotID"]),
            size: status["progress"]["totalBytes"].as_i64().unwrap_or_default(),
            format: if is_restic { FileFormat::Restic } else { FileFormat::Kopia },
        }
    }
}

/// The snapshot of a record of data that was moved.
fn moved_snapshot(info: &BackupVolumeInfo) -> MovedSnapshot {
    let moved = info.other.get("snapshotDataMovementInfo");
    let text = |field: &str| moved.and_then(|moved| moved[field].as_str()).unwrap_or_default().to_owned();
    MovedSnapshot {
        data_mover: text("dataMover"),
        snapshot_id: text("snapshotHandle"),
        size: moved.and_then(|moved| moved["size"].as_i64()).unwrap_or_default(),
        ..MovedSnapshot::default()
    }
}

/// Returns true if the data of a volume was to be saved and was not. A native snapshot has a record of its own that says it.
fn has_failed(info: &BackupVolumeInfo) -> bool {
    let has_handle = info.csi_snapshot_info.as_ref().is_some_and(|snapshot| !snapshot.snapshot_handle.is_empty());
    info.result == FAILED && !(info.backup_method == CSI_SNAPSHOT && has_handle && !info.snapshot_data_moved)
}

/// The key of a claim.
pub(super) fn claim(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::new("", "persistentvolumeclaims"), Some(namespace), name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn info(name: &str, method: &str) -> BackupVolumeInfo {
        BackupVolumeInfo { pv_name: name.into(), backup_method: method.into(), ..BackupVolumeInfo::default() }
    }

    #[test]
    fn failed_data_is_recorded_as_failed_unless_its_csi_snapshot_is_there() {
        let failed = |info: BackupVolumeInfo| BackupVolumeInfo { result: FAILED.into(), ..info };
        let there = CsiSnapshotInfo { snapshot_handle: "s".into(), ..CsiSnapshotInfo::default() };
        let with_handle = BackupVolumeInfo { csi_snapshot_info: Some(there), ..info("v", CSI_SNAPSHOT) };
        let moved = |info: BackupVolumeInfo| BackupVolumeInfo { snapshot_data_moved: true, ..info };
        let by = |mover: &str| {
            let mut info = moved(info("v", CSI_SNAPSHOT));
            info.other.insert("snapshotDataMovementInfo".into(), json!({"dataMover": mover}));
            info
        };
        for (info, expected) in [
            (info("v", NATIVE_SNAPSHOT), RecordedMethod::NativeSnapshot),
            (info("v", CSI_SNAPSHOT), RecordedMethod::CsiSnapshot),
            (info("v", POD_VOLUME_BACKUP), RecordedMethod::PodVolumeBackup),
            (info("v", ""), RecordedMethod::Other),
            (info("v", "NewMethod"), RecordedMethod::Other),
            (moved(info("v", CSI_SNAPSHOT)), RecordedMethod::MovedCsiSnapshot { is_foreign: false }),
            (by("velero-block"), RecordedMethod::MovedCsiSnapshot { is_foreign: false }),
            (by("kubevirt"), RecordedMethod::MovedCsiSnapshot { is_foreign: true }),
            (failed(info("v", NATIVE_SNAPSHOT)), RecordedMethod::Failed),
            (failed(info("v", CSI_SNAPSHOT)), RecordedMethod::Failed),
            (failed(info("v", POD_VOLUME_BACKUP)), RecordedMethod::Failed),
            (failed(with_handle.clone()), RecordedMethod::CsiSnapshot),
            (failed(moved(with_handle)), RecordedMethod::Failed),
        ] {
            assert_eq!(RecordedMethod::of(&info), expected, "{info:?}");
        }
    }

    #[test]
    fn the_files_of_a_backup_say_what_was_saved_of_each_volume() {
        let native = |volume: &str, id: &str| {
            let mut snapshot = NativeSnapshot::default();
            snapshot.spec.persistent_volume_name = volume.into();
            snapshot.status.provider_snapshot_id = id.into();
            snapshot
        };
        let failed = |info: BackupVolumeInfo| BackupVolumeInfo {
            result: FAILED.into(),
            message: "no space".into(),
            pvc_namespace: "n".into(),
            pvc_name: info.pv_name.clone(),
            ..info
        };
        let moved_info = || {
            let movement = json!({"dataMover": "velero", "snapshotHandle": "m1", "size": 9});
            BackupVolumeInfo {
                snapshot_data_moved: true,
                pvc_namespace: "n".into(),
                pvc_name: "moved".into(),
                other: [("snapshotDataMovementInfo".to_owned(), movement)].into_iter().collect(),
                ..info("pv-moved", CSI_SNAPSHOT)
            }
        };
        let files = VolumeFiles {
            infos: vec![
                failed(info("csi-failed", CSI_SNAPSHOT)),
                failed(info("fs-failed", POD_VOLUME_BACKUP)),
                moved_info(),
            ],
            native: vec![native("nat", "snap-1"), native("nat", ""), native("", "snap-3")],
            pod_volumes: vec![
                json!({"metadata": {"annotations": {"velero.io/pvc-name": "c"}}, "spec": {"pod": {"namespace": "n"}}, "status": {"phase": "Completed", "snapshotID": "s"}}),
                json!({"metadata": {"annotations": {"velero.io/pvc-name": "failed"}}, "spec": {"pod": {"namespace": "n"}}, "status": {"phase": "Failed"}}),
                json!({"spec": {"pod": {"namespace": "n", "name": "web-0"}, "volume": "cache", "uploaderType": "kopia"},
                    "status": {"phase": "Completed", "snapshotID": "k", "progress": {"totalBytes": 7}}}),
                json!({"spec": {"pod": {"namespace": "n", "name": "web-0"}, "volume": "old", "repoIdentifier": "s3:b/restic/n"},
                    "status": {"phase": "Failed", "snapshotID": "r"}}),
            ],
            snapshots: vec![
                json!({"metadata": {"namespace": "n"}, "spec": {"source": {"persistentVolumeClaimName": "snapped"}}}),
            ],
        };
        let by_reader = json!({"metadata": {"annotations": {"velero.io/pvc-name": "idle", "lifeboat.io/by-reader-pod": "true"}},
            "spec": {"pod": {"namespace": "n", "name": "b-0123"}, "volume": "data", "uploaderType": "kopia"},
            "status": {"phase": "Completed", "snapshotID": "r1", "progress": {"totalBytes": 5}}});
        let files = VolumeFiles { pod_volumes: [files.pod_volumes, vec![by_reader]].concat(), ..files };
        let recorded = RecordedVolumes::of(files);
        let failures = [("csi-failed", "no space"), ("fs-failed", "no space")];
        assert_eq!(recorded.failures, failures.map(|(volume, why)| (volume.to_owned(), why.to_owned())).into());
        assert_eq!(recorded.failed_claims, [claim("n", "csi-failed")].into());
        let saved = |id: &str, size, format| SavedFiles { snapshot_id: id.into(), size, format };
        let of_claim = saved("s", 0, FileFormat::Kopia);
        let volumes = [
            ("cache".to_owned(), saved("k", 7, FileFormat::Kopia)),
            ("old".to_owned(), saved("r", 0, FileFormat::Restic)),
        ];
        let pods = [
            (NamespacedName::new("n", ""), BTreeMap::from([(String::new(), of_claim.clone())])),
            (NamespacedName::new("n", "web-0"), volumes.into()),
        ];
        assert_eq!(recorded.of_pods, pods.into());
        assert_eq!(recorded.pod_volumes, [(claim("n", "c"), of_claim)].into());
        let moved = MovedSnapshot {
            data_mover: "velero".into(),
            snapshot_id: "m1".into(),
            size: 9,
            ..MovedSnapshot::default()
        };
        let read = MovedSnapshot {
            snapshot_id: "r1".into(),
            size: 5,
            source_namespace: "n".into(),
            ..MovedSnapshot::default()
        };
        assert_eq!(recorded.moved, [(claim("n", "idle"), read), (claim("n", "moved"), moved)].into());
        assert_eq!(recorded.snapshots, [(claim("n", "snapped"), CsiSnapshotInfo::default())].into());
        assert_eq!(recorded.native, [("nat".to_owned(), native("nat", "snap-1"))].into());
    }
}
