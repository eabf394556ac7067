use super::*;
use crate::decide::Rules;
use crate::inventory::VolumeInventory;
use crate::verdict::{BackupMovers, Flags};
use lifeboat_object::{ApiResource, Item};
use lifeboat_select::{PolicyUse, ResourcePolicies};
use serde_json::{Value, json};
use std::sync::Arc;

fn item(resource: &str, kind: &str, object: &Value) -> Item {
    Item::parse(Arc::new(ApiResource::new("", "v1", resource, kind)), object.to_string().into()).unwrap()
}

fn claim(name: &str, volume: &str) -> Item {
    let phase = if volume.is_empty() { "Pending" } else { "Bound" };
    item(
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        &json!({"metadata": {"name": name, "namespace": "n", "labels": {"tier": name}}, "spec": {"volumeName": volume}, "status": {"phase": phase}}),
    )
}

fn volume(name: &str, claim: &str) -> Item {
    let claim = (!claim.is_empty()).then(|| json!({"namespace": "n", "name": claim}));
    item(
        "persistentvolumes",
        "PersistentVolume",
        &json!({"metadata": {"name": name}, "spec": {"persistentVolumeReclaimPolicy": "Delete", "claimRef": claim, "csi": {"driver": "d"}}}),
    )
}

fn pod() -> Item {
    item(
        "pods",
        "Pod",
        &json!({"metadata": {"name": "p", "namespace": "n", "annotations": {"backup.velero.io/backup-volumes": "f,e"}},
            "spec": {"nodeName": "n1", "containers": [{"volumeMounts": [{"name": "f"}, {"name": "e"}]}],
                "volumes": [{"name": "f", "persistentVolumeClaim": {"claimName": "files"}}, {"name": "e", "emptyDir": {}}, {"name": "u", "emptyDir": {}}]},
            "status": {"phase": "Running"}}),
    )
}

fn key(name: &str) -> NamespacedName {
    NamespacedName::new("n", name)
}

#[test]
fn data_that_a_mover_is_asked_for_is_recorded_as_velero_records_it() {
    let mut inventory = VolumeInventory::default();
    for object in [claim("a", "pv-a"), volume("pv-a", "a"), claim("b", "pv-b"), volume("pv-b", "b")] {
        inventory.take(&object);
    }
    let movers = BackupMovers { are_asked: true, has_node_agent: true, is_unready: false };
    let flags = Flags {
        snapshots: true,
        moves_data: true,
        csi: true,
        serves_snapshots: true,
        saves_claims: true,
        movers,
        ..Flags::default()
    };
    let verdicts = inventory.decide(Rules { policies: None, flags: &flags });
    let saved = SavedObjects { claims: ["a", "b"].map(key).into(), ..SavedObjects::default() };
    let info = UploadInfo { data_mover: "velero".into(), operation_id: "du-1".into(), ..UploadInfo::default() };
    let moved = Report::Moved { driver: "d".into(), group: "db".into(), info };
    let of_claims = BTreeMap::from([(key("a"), moved), (key("b"), Report::Failed { why: "no class".into() })]);
    let reports = Reports { of_claims, ..Reports::default() };
    let made = serde_json::to_value(records(&verdicts, &saved, &reports)).unwrap();
    let expected = json!([
        {"pvcName": "a", "pvcNamespace": "n", "pvName": "pv-a", "backupMethod": "CSISnapshot", "snapshotDataMoved": true,
            "preserveLocalSnapshot": false, "skipped": false,
            "csiSnapshotInfo": {"snapshotHandle": "unknown", "size": 0, "driver": "d", "vscName": "unknown",
                "operationID": "unknown", "ReadyToUse": null, "volumeGroup": "db"},
            "snapshotDataMovementInfo": {"dataMover": "velero", "uploaderType": "", "snapshotHandle": "", "operationID": "du-1",
                "size": 0, "Phase": ""}},
        {"pvcName": "b", "pvcNamespace": "n", "pvName": "pv-b", "backupMethod": "CSISnapshot", "snapshotDataMoved": false,
            "preserveLocalSnapshot": false, "skipped": false, "result": "failed", "message": "no class"},
    ]);
    assert_eq!(made, expected);
    assert_eq!(unprotected(&verdicts, &saved, &reports), ["n/b"]);
}

/// A cluster with a claim for each outcome.
fn verdicts() -> Verdicts {
    let mut inventory = VolumeInventory::default();
    let names = ["files", "junk", "lost", "snap"];
    names.iter().for_each(|name| inventory.take(&claim(name, &format!("pv-{name}"))));
    names.iter().for_each(|name| inventory.take(&volume(&format!("pv-{name}"), name)));
    for object in [pod(), pod(), claim("pending", ""), volume("pv-alone", "elsewhere"), claim("outside", "pv-outside")]
    {
        inventory.take(&object);
    }
    assert_eq!(inventory.namespaces(), ["n"]);
    let text = "version: v1\nvolumePolicies: [{conditions: {pvcLabels: {tier: junk}}, action: {type: skip}}]";
    let policies = ResourcePolicies::parse(text, PolicyUse::Backup).unwrap().from_source("ConfigMap v/p");
    let flags = Flags { snapshots: true, csi: true, serves_snapshots: true, saves_claims: true, ..Flags::default() };
    inventory.decide(Rules { policies: Some(&policies), flags: &flags })
}

fn saved() -> SavedObjects {
    SavedObjects {
        claims: ["files", "junk", "lost", "pending", "snap"].map(key).into(),
        volumes: ["pv-alone", "pv-files", "pv-junk", "pv-lost"].map(str::to_owned).into(),
        pods: [NamespacedName::new("n", "p")].into(),
    }
}

fn reports() -> (Reports, CsiSnapshotInfo, Time) {
    let taken: Time = serde_json::from_str("\"2026-11-21T09:31:57Z\"").unwrap();
    let info = CsiSnapshotInfo { snapshot_handle: "snap-1".into(), driver: "d".into(), ..CsiSnapshotInfo::default() };
    let snapshot = Report::CsiSnapshot { taken: Some(taken), info: info.clone() };
    let failed = Report::Failed { why: "no class".into() };
    let of_claims = BTreeMap::from([(key("snap"), snapshot), (key("lost"), failed)]);
    (Reports { of_claims, ..Reports::default() }, info, taken)
}

#[test]
fn each_volume_in_scope_has_one_record_with_what_came_of_it() {
    let (reports, info, taken) = reports();
    let pv = || Some(PvInfo { reclaim_policy: "Delete".into(), labels: None });
    let base = |claim: &str, volume: &str| BackupVolumeInfo {
        pvc_name: claim.into(),
        pvc_namespace: if claim.is_empty() { "" } else { "n" }.into(),
        pv_name: volume.into(),
        ..BackupVolumeInfo::default()
    };
    let skipped = |claim: &str, volume: &str, reason: &str| BackupVolumeInfo {
        skipped: true,
        skipped_reason: reason.into(),
        ..base(claim, volume)
    };
    let listed = "any: the pod p lists it in the annotation backup.velero.io/backup-volumes: file system backup from \
                  the pod p (volume f) was to be done, and no node agent is there that does it;";
    let expected = vec![
        BackupVolumeInfo { pv_info: pv(), ..skipped("files", "pv-files", listed) },
        BackupVolumeInfo { pv_info: pv(), ..skipped("junk", "pv-junk", "any: the rule 1 of ConfigMap v/p says skip;") },
        skipped("pending", "", "any: the claim is not bound, it is Pending;"),
        BackupVolumeInfo {
            pv_info: pv(),
            ..skipped(
                "elsewhere",
                "pv-alone",
                "volumeSnapshot: snapshots are taken by default, but its claim is not in the backup, and CSI drivers take \
                 snapshots of claims;",
            )
        },
        skipped("", "", &listed.replace("volume f", "volume e")),
        BackupVolumeInfo {
            backup_method: "CSISnapshot".into(),
            result: "failed".into(),
            message: "no class".into(),
            pv_info: pv(),
            ..base("lost", "pv-lost")
        },
        BackupVolumeInfo {
            backup_method: "CSISnapshot".into(),
            preserve_local_snapshot: true,
            start_timestamp: Some(taken),
            csi_snapshot_info: Some(info),
            ..base("snap", "pv-snap")
        },
    ];
    assert_eq!(records(&verdicts(), &saved(), &reports), expected);
}

#[test]
fn one_line_names_the_volumes_that_nothing_protects() {
    let (reports, ..) = reports();
    let line = unprotected_warning(&unprotected(&verdicts(), &saved(), &reports));
    let expected = "the data of 4 volumes is not in this backup, only their objects: n/files, n/lost, n/p:e, pv-alone; \
                    describe --details and the volume information file list all with the reasons, and volume explain says \
                    what would have to change";
    assert_eq!(line.as_deref(), Some(expected));
    let saved = SavedObjects { claims: ["junk", "pending", "snap"].map(key).into(), ..SavedObjects::default() };
    assert_eq!(unprotected(&verdicts(), &saved, &reports), Vec::<String>::new());
}

#[test]
fn a_volume_is_found_by_its_claim_and_by_its_name() {
    let verdicts = verdicts();
    let of_claim = verdicts.of_claim(&key("snap")).unwrap();
    assert_eq!(verdicts.of_volume("pv-snap"), Some(of_claim));
    assert_eq!((of_claim.name(), of_claim.verdict.method.describe()), ("n/snap".to_owned(), "CSI snapshot".to_owned()));
    assert_eq!(verdicts.of_volume("pv-alone").unwrap().claim, None);
    assert_eq!(verdicts.claim(&key("junk")).unwrap().labels["tier"], "junk");
    assert_eq!(
        (verdicts.of_claim(&key("other")), verdicts.of_volume("pv-outside").unwrap().name()),
        (None, "n/outside".into())
    );
}

#[test]
fn what_comes_late_is_told_as_not_saved() {
    let mut verdicts = verdicts();
    let (mut late, mut more) = (VolumeInventory::default(), VolumeInventory::default());
    [claim("snap", "pv-snap"), claim("late", "pv-late"), claim("open", "")].iter().for_each(|item| late.take(item));
    [volume("pv-late", "late"), volume("pv-free", "")].iter().for_each(|item| more.take(item));
    late.add(more);
    verdicts.came_late(late);
    let skip = |why| Verdict { method: Method::Skip, why };
    let of = |name: &str| verdicts.of_claim(&key(name)).unwrap().verdict.clone();
    assert_eq!(of("late"), skip(MethodReason::CameLate));
    assert_eq!(of("open"), skip(MethodReason::NotBound { phase: "Pending".into() }));
    assert_eq!(of("snap").method, Method::CsiSnapshot { class: String::new(), group: None });
    let by_volume = |name: &str| verdicts.of_volume(name).unwrap().name();
    assert_eq!((by_volume("pv-late"), by_volume("pv-free")), ("n/late".to_owned(), "pv-free".to_owned()));
}

/// Three disks that snapshotters are asked about, one of them without a claim.
#[test]
fn a_native_snapshot_is_recorded_by_what_came_of_it() {
    let mut inventory = VolumeInventory::default();
    let disk = |name: &str, claim: &str| {
        let claim = (!claim.is_empty()).then(|| json!({"namespace": "n", "name": claim}));
        item(
            "persistentvolumes",
            "PersistentVolume",
            &json!({"metadata": {"name": name}, "spec": {"awsElasticBlockStore": {"volumeID": name}, "claimRef": claim}}),
        )
    };
    for (volume, claim) in [("pv-a", "a"), ("pv-b", "b"), ("pv-c", "c"), ("pv-alone", "")] {
        inventory.take(&disk(volume, claim));
    }
    ["a", "b", "c"].iter().for_each(|name| inventory.take(&claim(name, &format!("pv-{name}"))));
    let flags = Flags { snapshots: true, native: true, saves_claims: true, ..Flags::default() };
    let verdicts = inventory.decide(Rules { policies: None, flags: &flags });
    let saved = SavedObjects {
        claims: ["a", "b", "c"].map(key).into(),
        volumes: ["pv-alone".to_owned()].into(),
        ..SavedObjects::default()
    };
    let snapshot = |volume: &str, id: &str, phase: &str| {
        let mut snapshot = NativeSnapshot::default();
        snapshot.spec.persistent_volume_name = volume.into();
        snapshot.spec.volume_iops = (volume == "pv-a").then_some(500);
        snapshot.status.provider_snapshot_id = id.into();
        snapshot.status.phase = phase.into();
        Box::new(snapshot)
    };
    let [begun, ended]: [Time; 2] =
        ["\"2026-11-21T09:31:57Z\"", "\"2026-11-21T09:31:58Z\""].map(|time| serde_json::from_str(time).unwrap());
    let reports = Reports {
        of_volumes: BTreeMap::from([
            ("pv-a".into(), Report::NativeSnapshot { snapshot: snapshot("pv-a", "snap-1", "Completed"), begun, ended }),
            ("pv-b".into(), Report::NativeFailed { snapshot: snapshot("pv-b", "", "Failed"), why: "no quota".into() }),
            ("pv-c".into(), Report::NotOwned { why: "nobody knows it".into() }),
            ("pv-alone".into(), Report::Failed { why: "it cannot be noted".into() }),
        ]),
        ..Reports::default()
    };
    let base = |claim: &str, volume: &str| BackupVolumeInfo {
        pvc_name: claim.into(),
        pvc_namespace: if claim.is_empty() { "" } else { "n" }.into(),
        pv_name: volume.into(),
        ..BackupVolumeInfo::default()
    };
    let skipped = |claim: &str, volume: &str, reason: &str| BackupVolumeInfo {
        skipped: true,
        skipped_reason: reason.into(),
        ..base(claim, volume)
    };
    let native = |claim: &str, result: &str, handle: &str, iops: &str, phase: &str| BackupVolumeInfo {
        backup_method: "NativeSnapshot".into(),
        result: result.into(),
        native_snapshot_info: Some(NativeSnapshotInfo {
            snapshot_handle: handle.into(),
            iops: iops.into(),
            phase: phase.into(),
            ..NativeSnapshotInfo::default()
        }),
        ..base(claim, &format!("pv-{claim}"))
    };
    let expected = [
        skipped("c", "pv-c", "volumeSnapshot: snapshots are taken by default, but nobody knows it;"),
        BackupVolumeInfo {
            pv_info: Some(PvInfo::default()),
            result: "failed".into(),
            message: "it cannot be noted".into(),
            ..skipped(
                "",
                "pv-alone",
                "any: snapshots are taken by default: native snapshot was to be done, it cannot be noted;",
            )
        },
        BackupVolumeInfo {
            start_timestamp: Some(begun),
            completion_timestamp: Some(ended),
            ..native("a", "succeeded", "snap-1", "500", "Completed")
        },
        BackupVolumeInfo { message: "no quota".into(), ..native("b", "failed", "", "0", "Failed") },
    ];
    assert_eq!(records(&verdicts, &saved, &reports), expected);
    let line = unprotected_warning(&unprotected(&verdicts, &saved, &reports)).unwrap();
    assert!(
        line.starts_with("the data of 3 volumes is not in this backup, only their objects: n/b, n/c, pv-alone;"),
        "{line}"
    );
    let failures = |name: &str| reports.of_volumes[name].failure();
    let all = ["pv-a", "pv-alone", "pv-b", "pv-c"].map(failures);
    assert_eq!(all, [None, Some("it cannot be noted"), Some("no quota"), None]);
}

#[test]
fn a_volume_whose_claim_is_gone_makes_no_alarm() {
    let mut inventory = VolumeInventory::default();
    for phase in ["Released", "Bound"] {
        let volume = json!({"metadata": {"name": format!("pv-{phase}")}, "status": {"phase": phase},
            "spec": {"nfs": {}, "claimRef": {"namespace": "n", "name": phase}}});
        inventory.take(&item("persistentvolumes", "PersistentVolume", &volume));
    }
    let flags = Flags { snapshots: true, saves_claims: true, ..Flags::default() };
    let verdicts = inventory.decide(Rules { policies: None, flags: &flags });
    let saved =
        SavedObjects { volumes: ["pv-Released".to_owned(), "pv-Bound".to_owned()].into(), ..SavedObjects::default() };
    assert_eq!(unprotected(&verdicts, &saved, &Reports::default()), ["pv-Bound"]);
}
