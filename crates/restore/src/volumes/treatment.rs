//! Treatment of persistent volumes and their claims (restore.md 2.9, 2.10). Pure.
//!
//! A volume whose data is not on its old storage any more is not made again there: it is made anew from its native snapshot, or its
//! claim gets a new one, from the CSI snapshot of its data, or an empty one. One whose snapshot failed is treated by its reclaim policy,
//! like one of which nothing was to be saved.

use crate::actions::known;
use lifeboat_api::Restore;
use lifeboat_api::well_known::{
    ANNOTATION_ALLOW_EMPTY_VOLUMES, ANNOTATION_CSI_DRIVER_NAME, ANNOTATION_VOLUME_SNAPSHOT_HANDLE,
};
use lifeboat_archive::native_snapshot::NativeSnapshot;
use lifeboat_archive::volume_info::{
    BackupVolumeInfo, CSI_SNAPSHOT, CsiSnapshotInfo, FAILED, NATIVE_SNAPSHOT, POD_VOLUME_BACKUP,
};
use lifeboat_object::ObjectKey;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Records about volumes from the files of the backup.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    /// Method by volume, from the volume information; empty for skipped ones.
    pub(crate) methods: BTreeMap<String, String>,
    /// Native snapshots by volume; the first one of each.
    pub(crate) native: BTreeMap<String, NativeSnapshot>,
    /// Claims with a completed pod volume backup.
    pub(crate) pod_volumes: BTreeSet<ObjectKey>,
    /// Volumes of pods without claims that have a completed pod volume backup, by namespace and name of the pod.
    pub(crate) of_pods: BTreeMap<(String, String), BTreeSet<String>>,
    /// CSI snapshots by claim.
    pub(crate) snapshots: BTreeMap<ObjectKey, CsiSnapshotInfo>,
    /// Claims whose CSI snapshot failed.
    pub(crate) failed_claims: BTreeSet<ObjectKey>,
    /// The reasons why data was not saved that was to be, by volume; empty where the backup does not say it.
    pub(crate) failures: BTreeMap<String, String>,
    /// Set when the user wants no volumes from snapshots.
    pub(crate) leaves_volumes: bool,
}

/// The files of a backup that tell of its volumes, as far as it has them.
#[derive(Clone, Debug, Default)]
pub(crate) struct VolumeFiles {
    pub(crate) infos: Vec<BackupVolumeInfo>,
    /// Native snapshots.
    pub(crate) native: Vec<NativeSnapshot>,
    /// Pod volume backups.
    pub(crate) pod_volumes: Vec<Value>,
    /// VolumeSnapshots.
    pub(crate) snapshots: Vec<Value>,
}

impl Recorded {
    /// Gathers the facts from the files of a backup.
    pub(crate) fn of(files: VolumeFiles, leaves_volumes: bool) -> Self {
        let text = |v: &Value, p: &str| v.pointer(p).and_then(Value::as_str).unwrap_or_default().to_owned();
        let completed =
            |v: &&Value| text(v, "/status/phase") == "Completed" && !text(v, "/status/snapshotID").is_empty();
        let pod_volume = |v: &Value| {
            let name = text(v, "/metadata/annotations/velero.io~1pvc-name");
            known::claim(&text(v, "/spec/pod/namespace"), &name)
        };
        let listed = files.snapshots.iter().map(|snapshot| {
            let name = text(snapshot, "/spec/source/persistentVolumeClaimName");
            let annotation =
                |key: &str| snapshot["metadata"]["annotations"][key].as_str().unwrap_or_default().to_owned();
            let info = CsiSnapshotInfo {
                snapshot_handle: annotation(ANNOTATION_VOLUME_SNAPSHOT_HANDLE),
                driver: annotation(ANNOTATION_CSI_DRIVER_NAME),
                ..CsiSnapshotInfo::default()
            };
            (known::claim(&text(snapshot, "/metadata/namespace"), &name), info)
        });
        let of_infos =
            files.infos.iter().filter(|info| info.backup_method == CSI_SNAPSHOT && !info.snapshot_data_moved);
        let of_infos = of_infos.filter_map(|info| {
            Some((known::claim(&info.pvc_namespace, &info.pvc_name), info.csi_snapshot_info.clone()?))
        });
        let snapshots = listed.chain(of_infos).collect();
        let method = |info: &BackupVolumeInfo| match (has_failed(info), info.snapshot_data_moved) {
            (true, _) => NOT_TAKEN.to_owned(),
            (false, true) => MOVED.to_owned(),
            (false, false) => info.backup_method.clone(),
        };
        let failed = || files.infos.iter().filter(|info| has_failed(info));
        let of_csi = failed().filter(|info| info.backup_method == CSI_SNAPSHOT);
        let mut of_pods: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
        for one in files.pod_volumes.iter().filter(completed).filter(|one| pod_volume(one).name.is_empty()) {
            let pod = (text(one, "/spec/pod/namespace"), text(one, "/spec/pod/name"));
            of_pods.entry(pod).or_default().insert(text(one, "/spec/volume"));
        }
        let infos = files.infos.iter().filter(|info| !info.pv_name.is_empty());
        let mut native = BTreeMap::new();
        // One without a volume only waits to be deleted with the backup.
        for snapshot in files.native.into_iter().filter(|one| !one.spec.persistent_volume_name.is_empty()) {
            native.entry(snapshot.spec.persistent_volume_name.clone()).or_insert(snapshot);
        }
        Self {
            methods: infos.map(|info| (info.pv_name.clone(), method(info))).collect(),
            failed_claims: of_csi.map(|info| known::claim(&info.pvc_namespace, &info.pvc_name)).collect(),
            failures: failed().map(|info| (info.pv_name.clone(), info.message.clone())).collect(),
            native,
            leaves_volumes,
            of_pods,
            pod_volumes: files.pod_volumes.iter().filter(completed).map(pod_volume).collect(),
            snapshots,
        }
    }
}

/// Says whether the data of a volume was to be saved and was not. A native snapshot has a record of its own that says it.
fn has_failed(info: &BackupVolumeInfo) -> bool {
    let has_handle = info.csi_snapshot_info.as_ref().is_some_and(|snapshot| !snapshot.snapshot_handle.is_empty());
    info.result == FAILED && !(info.backup_method == CSI_SNAPSHOT && has_handle && !info.snapshot_data_moved)
}

/// Stands for the method of data that was to be saved and was not.
const NOT_TAKEN: &str = "failed";
/// Stands for the method of a CSI snapshot whose data was moved into a repository.
const MOVED: &str = "CSISnapshot, moved";

/// The treatment of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestoreMethod {
    /// Make it again as it is.
    AsIs,
    /// Make it again with a new volume behind it, from its native snapshot.
    FromNative,
    /// Do not; its claim gets a new one from the CSI snapshot of its data.
    FromSnapshot,
    /// Do not; its claim gets a new one from its storage class, which is empty.
    Provision(Loss),
}

/// The reason why the data of a volume is not restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Loss {
    /// It was not saved, and its storage was deleted with the volume.
    NotSaved,
    /// Its snapshot failed when the backup was made, or belongs to another claim.
    NotTaken,
    /// Its data comes with its claim, which is not part of the restore.
    WithClaim,
    /// The user wants no volumes from snapshots.
    NotWanted,
    /// It was saved in a way that this version cannot read: in a snapshot of this sort.
    Unreadable(&'static str),
}

/// Decides about one volume of the backup.
pub(crate) fn decide(name: &str, volume: &Value, recorded: &Recorded) -> RestoreMethod {
    let text = |p: &str| volume.pointer(p).and_then(Value::as_str).unwrap_or_default().to_owned();
    let unreadable = |how| RestoreMethod::Provision(Loss::Unreadable(how));
    let by_policy = |loss| match text("/spec/persistentVolumeReclaimPolicy").as_str() {
        "Delete" => RestoreMethod::Provision(loss),
        _ => RestoreMethod::AsIs,
    };
    let native = || match recorded.native.get(name) {
        // compat: Velero makes it again on its old storage whatever the reclaim policy, also where that was deleted with it.
        _ if recorded.leaves_volumes => by_policy(Loss::NotWanted),
        Some(snapshot) if snapshot.is_taken() => RestoreMethod::FromNative,
        _ => by_policy(Loss::NotTaken),
    };
    let claim = known::claim(&text("/spec/claimRef/namespace"), &text("/spec/claimRef/name"));
    match recorded.methods.get(name).map(String::as_str) {
        Some(NATIVE_SNAPSHOT) => native(),
        Some(NOT_TAKEN) if recorded.native.contains_key(name) => native(),
        Some(NOT_TAKEN) => by_policy(Loss::NotTaken),
        Some(POD_VOLUME_BACKUP) => unreadable("pod volume backup"),
        Some(CSI_SNAPSHOT) => RestoreMethod::FromSnapshot,
        Some(MOVED) => unreadable("CSI snapshot that was moved into a repository"),
        Some(_) => by_policy(Loss::NotSaved),
        None if recorded.native.contains_key(name) => native(),
        None if recorded.pod_volumes.contains(&claim) => unreadable("pod volume backup"),
        None if recorded.snapshots.contains_key(&claim) => RestoreMethod::FromSnapshot,
        None => by_policy(Loss::NotSaved),
    }
}

/// Returns true if claims whose data cannot be restored are made empty: the user allows it, or wants no volumes.
pub(crate) fn allows_empty(restore: &Restore) -> bool {
    restore.metadata.says_true(ANNOTATION_ALLOW_EMPTY_VOLUMES) || restore.spec.restore_pvs == Some(false)
}

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Forgets a volume's binding but not its claim, whose namespace is mapped.
pub(crate) fn reset_volume(volume: &mut Value, mapping: &BTreeMap<String, String>) {
    unbind(volume);
    if let Some(claim) = volume.pointer_mut("/spec/claimRef").and_then(Value::as_object_mut) {
        claim.remove("uid");
        claim.remove("resourceVersion");
        let target = claim.get("namespace").and_then(Value::as_str).and_then(|ns| mapping.get(ns)).cloned();
        if let Some(target) = target {
            claim.insert("namespace".to_owned(), target.into());
        }
    }
}

/// Forgets a claim's binding, and its volume when that is provisioned anew.
pub(crate) fn reset_claim(claim: &mut Value, provisioned: &BTreeSet<String>) {
    let volume = claim.pointer("/spec/volumeName").and_then(Value::as_str).unwrap_or_default().to_owned();
    if volume.is_empty() {
        return;
    }
    unbind(claim);
    if provisioned.contains(&volume)
        && let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.remove("volumeName");
    }
}

fn unbind(object: &mut Value) {
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(BIND_COMPLETED);
        annotations.remove(BOUND_BY_CONTROLLER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_volume_with_data_elsewhere_is_never_made_on_its_old_storage() {
        let info = |name: &str, method: &str| BackupVolumeInfo {
            pv_name: name.into(),
            backup_method: method.into(),
            ..BackupVolumeInfo::default()
        };
        let native = |name: &str, id: &str, phase: &str| {
            let mut snapshot = NativeSnapshot::default();
            snapshot.spec.persistent_volume_name = name.into();
            snapshot.status.provider_snapshot_id = id.into();
            snapshot.status.phase = phase.into();
            snapshot
        };
        let failed = |info: BackupVolumeInfo| BackupVolumeInfo {
            result: "failed".into(),
            message: "no space".into(),
            pvc_namespace: "n".into(),
            pvc_name: info.pv_name.clone(),
            ..info
        };
        let unready = CsiSnapshotInfo { snapshot_handle: "s".into(), ..CsiSnapshotInfo::default() };
        let files = VolumeFiles {
            infos: vec![
                info("csi", "CSISnapshot"),
                BackupVolumeInfo { snapshot_data_moved: true, ..info("moved", "CSISnapshot") },
                info("fs", "PodVolumeBackup"),
                info("nat", "NativeSnapshot"),
                info("untaken", "NativeSnapshot"),
                info("unrecorded", "NativeSnapshot"),
                info("skip", ""),
                failed(info("csi-failed", "CSISnapshot")),
                failed(info("fs-failed", "PodVolumeBackup")),
                failed(BackupVolumeInfo { csi_snapshot_info: Some(unready), ..info("csi-unready", "CSISnapshot") }),
            ],
            native: vec![
                native("nat", "snap-1", "Completed"),
                native("nat", "", "Failed"),
                native("untaken", "", "Failed"),
                native("oldnat", "snap-2", "Completed"),
                native("", "snap-3", "Failed"),
            ],
            pod_volumes: vec![
                json!({"metadata": {"annotations": {"velero.io/pvc-name": "c"}}, "spec": {"pod": {"namespace": "n"}}, "status": {"phase": "Completed", "snapshotID": "s"}}),
                json!({"metadata": {"annotations": {"velero.io/pvc-name": "failed"}}, "spec": {"pod": {"namespace": "n"}}, "status": {"phase": "Failed"}}),
                json!({"spec": {"pod": {"namespace": "n", "name": "web-0"}, "volume": "cache"}, "status": {"phase": "Completed", "snapshotID": "s"}}),
            ],
            snapshots: vec![
                json!({"metadata": {"namespace": "n"}, "spec": {"source": {"persistentVolumeClaimName": "snapped"}}}),
            ],
        };
        let [recorded, unwanted] = [false, true].map(|leaves_volumes| Recorded::of(files.clone(), leaves_volumes));
        let failures = [("csi-failed", "no space"), ("fs-failed", "no space")];
        let failures = failures.map(|(volume, why)| (volume.to_owned(), why.to_owned()));
        assert_eq!(recorded.failures, failures.into());
        assert_eq!(recorded.failed_claims, [known::claim("n", "csi-failed")].into());
        let cache = (("n".to_owned(), "web-0".to_owned()), BTreeSet::from(["cache".to_owned()]));
        assert_eq!(recorded.of_pods, [cache].into());
        assert_eq!(recorded.native.keys().collect::<Vec<_>>(), ["nat", "oldnat", "untaken"]);
        let volume = |policy: &str, claim: &str| json!({"spec": {"persistentVolumeReclaimPolicy": policy, "claimRef": {"namespace": "n", "name": claim}}});
        for (name, policy, claim, expected) in [
            ("csi", "Retain", "x", RestoreMethod::FromSnapshot),
            (
                "moved",
                "Retain",
                "x",
                RestoreMethod::Provision(Loss::Unreadable("CSI snapshot that was moved into a repository")),
            ),
            ("fs", "Retain", "x", RestoreMethod::Provision(Loss::Unreadable("pod volume backup"))),
            ("nat", "Delete", "x", RestoreMethod::FromNative),
            ("nat", "Retain", "x", RestoreMethod::FromNative),
            ("untaken", "Retain", "x", RestoreMethod::AsIs),
            ("untaken", "Delete", "x", RestoreMethod::Provision(Loss::NotTaken)),
            ("unrecorded", "Retain", "x", RestoreMethod::AsIs),
            ("unrecorded", "Delete", "x", RestoreMethod::Provision(Loss::NotTaken)),
            ("csi-failed", "Retain", "x", RestoreMethod::AsIs),
            ("csi-failed", "Delete", "x", RestoreMethod::Provision(Loss::NotTaken)),
            ("fs-failed", "Retain", "x", RestoreMethod::AsIs),
            ("fs-failed", "Delete", "x", RestoreMethod::Provision(Loss::NotTaken)),
            ("csi-unready", "Retain", "x", RestoreMethod::FromSnapshot),
            ("skip", "Retain", "x", RestoreMethod::AsIs),
            ("skip", "Delete", "x", RestoreMethod::Provision(Loss::NotSaved)),
            ("oldnat", "Retain", "x", RestoreMethod::FromNative),
            ("unknown", "Retain", "c", RestoreMethod::Provision(Loss::Unreadable("pod volume backup"))),
            ("unknown", "Retain", "snapped", RestoreMethod::FromSnapshot),
            ("unknown", "Retain", "failed", RestoreMethod::AsIs),
            ("unknown", "Delete", "x", RestoreMethod::Provision(Loss::NotSaved)),
        ] {
            assert_eq!(decide(name, &volume(policy, claim), &recorded), expected, "{name} {policy} {claim}");
        }
        let unwanted = ["Retain", "Delete"].map(|policy| decide("nat", &volume(policy, "x"), &unwanted));
        assert_eq!(unwanted, [RestoreMethod::AsIs, RestoreMethod::Provision(Loss::NotWanted)]);
    }

    #[test]
    fn bindings_are_forgotten() {
        let mut volume = json!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes", "a": "b"}},
            "spec": {"claimRef": {"namespace": "old", "name": "c", "uid": "u", "resourceVersion": "1"}}});
        reset_volume(&mut volume, &BTreeMap::from([("old".to_owned(), "new".to_owned())]));
        assert_eq!(
            volume,
            json!({"metadata": {"annotations": {"a": "b"}}, "spec": {"claimRef": {"namespace": "new", "name": "c"}}})
        );
        let claim = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "pv"}});
        let mut kept = claim.clone();
        reset_claim(&mut kept, &BTreeSet::new());
        assert_eq!(kept, json!({"metadata": {"annotations": {}}, "spec": {"volumeName": "pv"}}));
        let mut provisioned = claim;
        reset_claim(&mut provisioned, &BTreeSet::from(["pv".to_owned()]));
        assert_eq!(provisioned, json!({"metadata": {"annotations": {}}, "spec": {}}));
    }
}
