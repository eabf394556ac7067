//! Snapshots by a real CSI driver: what a backup takes, keeps, and cleans up.

use super::place::{Place, handles};
use crate::support::{eventually, run};
use lifeboat_testbed::DRIVER;
use serde_json::{Value, json};
use std::process::Command;

#[test]
#[ignore = "needs a node: make test-node"]
fn a_backup_keeps_the_snapshots_of_its_claims_and_takes_their_objects_out_of_the_cluster() {
    let place = Place::start("keeps");
    place.claim("data", &json!({}));
    place.claim("spare", &json!({}));
    place.claim("junk", &json!({"tier": "junk"}));
    place.pod("db", "data", &json!({}));
    place.ground.bed.kubectl(&[
        "create",
        "configmap",
        "rules",
        "-n",
        &place.own,
        "--from-literal=rules=version: v1\nvolumePolicies: [{conditions: {pvcLabels: {tier: junk}}, action: {type: skip}}]",
    ]);
    let _server = place.server();
    place.backup("b", &json!({"resourcePolicy": {"kind": "configmap", "name": "rules"}}));
    let backup = place.ground.until_in(&place.own, "backup", "b", "Completed");
    assert_eq!(backup["status"]["csiVolumeSnapshotsCompleted"], 2, "{backup}");
    assert_eq!(backup["status"]["backupItemOperationsCompleted"], 2, "{backup}");
    assert_eq!((&backup["status"]["warnings"], &backup["status"]["errors"]), (&Value::Null, &Value::Null), "{backup}");
    assert_eq!(place.snapshot_objects(), (0, 0), "the objects are gone");
    let described = place.described("b");
    let snapshots = &described["status"]["backupVolumes"]["csiSnapshots"];
    let snapshots = snapshots.as_object().unwrap_or_else(|| panic!("{described}"));
    let claims: Vec<&str> = snapshots.keys().map(|name| name.rsplit('/').next().unwrap_or_default()).collect();
    assert_eq!(claims, ["data", "spare"], "{described}");
    let there = handles();
    for snapshot in snapshots.values() {
        let handle = snapshot["snapshot"]["storageSnapshotID"].as_str().unwrap_or_default();
        assert!(there.iter().any(|one| one == handle), "{handle} in {there:?}: {described}");
        assert_eq!(snapshot["snapshot"]["csiDriver"], DRIVER, "{described}");
    }
    place.end();
}

#[test]
#[ignore = "needs a node: make test-node"]
fn a_snapshot_that_fails_is_one_error_and_leaves_nothing_behind() {
    let place = Place::start("fails");
    place.claim("good", &json!({}));
    place.claim("bad", &json!({}));
    place.ground.create(&json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
        "metadata": {"name": "failing"}, "driver": DRIVER, "deletionPolicy": "Delete", "parameters": {"fail": "create-snapshot"}}));
    let annotation = "velero.io/csi-volumesnapshot-class";
    let (bad, good) = (format!("{annotation}=failing"), format!("{annotation}=csi"));
    place.ground.bed.kubectl(&["annotate", "pvc", "bad", "-n", &place.shop, &bad]);
    place.ground.bed.kubectl(&["annotate", "pvc", "good", "-n", &place.shop, &good]);
    let _server = place.server();
    place.backup("b", &json!({"csiSnapshotTimeout": "5s"}));
    let backup = place.ground.until_in(&place.own, "backup", "b", "PartiallyFailed");
    assert_eq!((&backup["status"]["errors"], &backup["status"]["csiVolumeSnapshotsCompleted"]), (&json!(1), &json!(1)));
    let described = place.described("b").to_string();
    assert!(described.contains("was not taken within 5 s"), "{described}");
    eventually("no objects of snapshots", || place.snapshot_objects() == (0, 0));
    place.ground.bed.kubectl(&["delete", "volumesnapshotclass", "failing"]);
    place.end();
}

#[test]
#[ignore = "needs a node: make test-node"]
fn a_backup_that_is_cancelled_leaves_no_snapshot() {
    let place = Place::start("leaves");
    place.claim("data", &json!({}));
    // The pod's hook holds the backup while the snapshot of the other claim is taken.
    let wait = json!(["/bin/sh", "-c", "sleep 20"]).to_string();
    place.claim("held", &json!({}));
    place.pod("db", "held", &json!({"pre.hook.backup.velero.io/command": wait}));
    let _server = place.server();
    place.backup("b", &json!({}));
    eventually("a snapshot", || place.snapshot_objects() == (1, 1));
    let mut command = Command::new(env!("CARGO_BIN_EXE_lifeboat"));
    command.args(["backup", "cancel", "b", "--namespace", &place.own]);
    let cancelled = run(command.env("KUBECONFIG", place.ground.bed.plane.kubeconfig()));
    assert_eq!(cancelled.code, 0, "{cancelled:?}");
    place.ground.until_in(&place.own, "backup", "b", "Failed");
    eventually("no objects of snapshots", || place.snapshot_objects() == (0, 0));
    place.end();
}
