//! Snapshots by a real CSI driver: what a backup takes, keeps, and cleans up.

use super::driver::stored;
use super::groups::{class, group_objects, take_class, without_class};
use super::place::Place;
use crate::support::{eventually, program, run, with_object};
use lifeboat_testbed::DRIVER;
use serde_json::{Value, json};
use std::process::Command;

/// scenario: BackupVolumeInfo, CSISnapshot
#[test]
#[ignore = "needs a node: make test-node"]
fn a_backup_keeps_snapshots_of_claims_and_removes_their_objects() {
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
    let there = place.handles();
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
    let mut command = Command::new(program());
    command.args(["backup", "cancel", "b", "--namespace", &place.own]);
    let cancelled = run(command.env("KUBECONFIG", place.ground.bed.plane.kubeconfig()));
    assert_eq!(cancelled.code, 0, "{cancelled:?}");
    place.ground.until_in(&place.own, "backup", "b", "Failed");
    eventually("no objects of snapshots", || place.snapshot_objects() == (0, 0));
    place.end();
}

#[test]
#[ignore = "needs a node: make test-node"]
fn snapshots_stay_when_their_namespace_is_deleted_while_the_backup_waits() {
    let place = Place::start("lost-namespace");
    for (claim, labels) in [
        ("a", json!({"velero.io/volume-group": "pair"})),
        ("b", json!({"velero.io/volume-group": "pair"})),
        ("c", json!({})),
    ] {
        place.claim(claim, &labels);
    }
    let slow = json!({"readyAfter": "15s"});
    class(&place, "lost-namespace", &slow);
    take_class(&place, &["a", "b"], "lost-namespace");
    place.ground.create(&json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
        "metadata": {"name": "lost-namespace"}, "driver": DRIVER, "deletionPolicy": "Delete", "parameters": slow}));
    let annotation = "velero.io/csi-volumesnapshot-class=lost-namespace";
    place.ground.bed.kubectl(&["annotate", "pvc", "c", "-n", &place.shop, annotation]);
    let _server = place.server();
    place.backup("b", &json!({}));
    place.ground.until_in(&place.own, "backup", "b", "WaitingForPluginOperations");
    let taken = stored(&place.shop);
    assert_eq!(taken.len(), 3, "{taken:?}");
    place.lose(&place.shop);
    assert_eq!(stored(&place.shop), taken, "after the deletion of the namespace");
    let backup = place.ground.until_in(&place.own, "backup", "b", "Completed");
    assert_eq!(
        (&backup["status"]["errors"], &backup["status"]["csiVolumeSnapshotsCompleted"]),
        (&Value::Null, &json!(3))
    );
    eventually("no objects of snapshots", || (place.snapshot_objects().1, group_objects(&place).1) == (0, 0));
    assert_eq!(stored(&place.shop), taken, "after the end of the backup");

    let deleted = place.lifeboat(&["backup", "delete", "b", "--confirm"]);
    assert_eq!(deleted.code, 0, "{deleted:?}");
    eventually("an empty storage", || stored(&place.shop).is_empty());
    without_class(&place, "lost-namespace");
    place.ground.bed.kubectl(&["delete", "volumesnapshotclass", "lost-namespace"]);
    place.ground.bed.kubectl(&["delete", "namespace", &place.own, "--wait=false"]);
}

/// scenario: Backups, Deletion, Snapshot
#[test]
#[ignore = "needs a node: make test-node"]
fn the_snapshots_of_a_backup_go_with_it_and_those_of_users_stay() {
    let place = Place::start("goes");
    place.claim("data", &json!({}));
    place.ground.create(&json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {"name": "mine", "namespace": place.shop},
        "spec": {"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "csi"}}));
    let mine = || place.ground.get_in(&place.shop, "volumesnapshot", "mine");
    eventually("the user's snapshot", || mine()["status"]["readyToUse"] == true);
    let _server = place.server();
    place.backup("b", &json!({}));
    let backup = place.ground.until_in(&place.own, "backup", "b", "Completed");
    assert_eq!(backup["status"]["csiVolumeSnapshotsCompleted"], 1, "{backup}");
    let content = mine()["status"]["boundVolumeSnapshotContentName"].as_str().expect("a name").to_owned();
    let content = place.ground.get_in("", "volumesnapshotcontent", &content);
    let of_backup = "velero.io/backup-name";
    assert_eq!(
        (&mine()["metadata"]["labels"], &content["metadata"]["labels"][of_backup]),
        (&Value::Null, &Value::Null)
    );
    let of_user = content["status"]["snapshotHandle"].as_str().expect("a handle").to_owned();
    let taken = handle_of_backup(&place);
    let are_there = || [&taken, &of_user].map(|handle| place.handles().contains(handle));
    assert_eq!(are_there(), [true, true], "{taken} of the backup, {of_user} of the user");

    let deleted = place.lifeboat(&["backup", "delete", "b", "--confirm"]);
    assert_eq!(deleted.code, 0, "{deleted:?}");
    place.ground.until_gone_in(&place.own, "backup", "b");
    assert_eq!(are_there(), [false, true], "{taken} of the backup, {of_user} of the user");
    assert_eq!(place.snapshot_objects(), (1, 1), "the user's ones");
    let made_to_delete = place.contents(&format!("@.spec.source.snapshotHandle==\"{taken}\""));
    assert_eq!(made_to_delete, [""; 0], "contents that were made to delete {taken}");
    place.end();
}

#[test]
#[ignore = "needs a node: make test-node"]
fn a_backup_whose_snapshot_cannot_be_deleted_keeps_its_files_until_it_can() {
    let place = Place::start("stays");
    place.claim("data", &json!({}));
    let _server = place.server();
    place.backup("b", &json!({}));
    place.ground.until_in(&place.own, "backup", "b", "Completed");
    let taken = handle_of_backup(&place);
    // Nothing may make the content by which the driver is told.
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-contents"},
        "spec": {"matchConstraints": {"resourceRules": [{"apiGroups": ["snapshot.storage.k8s.io"], "apiVersions": ["*"],
            "operations": ["CREATE"], "resources": ["volumesnapshotcontents"]}]},
            "validations": [{"expression": "!object.metadata.name.startsWith('velero-delete-')", "message": "not today"}]}});
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-contents"}, "spec": {"policyName": "no-contents", "validationActions": ["Deny"]}});
    place.ground.create(&policy);
    place.ground.create(&binding);
    // A policy takes a moment to be in force, and one to be out of it.
    let refuses = || {
        let probe = json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
            "metadata": {"name": "velero-delete-probe"}, "spec": {"driver": DRIVER, "deletionPolicy": "Retain",
            "source": {"snapshotHandle": "none"}, "volumeSnapshotRef": {"namespace": "none", "name": "none"}}});
        with_object(&place.ground.kubectl(), &["create", "--dry-run=server"], &probe).is_err()
    };
    eventually("the policy", refuses);
    let deleted = place.lifeboat(&["backup", "delete", "b", "--confirm"]);
    assert_eq!(deleted.code, 0, "{deleted:?}");
    let errors = || {
        place.ground.bed.kubectl(&[
            "get",
            "deletebackuprequests",
            "-n",
            &place.own,
            "-o",
            "jsonpath={.items[*].status.errors}",
        ])
    };
    eventually("an error of the deletion", || errors().contains("not today"));
    assert!(errors().contains("velero.io/csi-volumesnapshotcontent-delete"), "{}", errors());
    assert!(place.handles().contains(&taken));
    place.ground.until_in(&place.own, "backup", "b", "Deleting");
    place.ground.bed.kubectl(&["delete", "validatingadmissionpolicybinding", "no-contents"]);
    place.ground.bed.kubectl(&["delete", "validatingadmissionpolicy", "no-contents"]);
    eventually("no policy", || !refuses());
    let deleted = place.lifeboat(&["backup", "delete", "b", "--confirm"]);
    assert_eq!(deleted.code, 0, "{deleted:?}");
    place.ground.until_gone_in(&place.own, "backup", "b");
    assert!(!place.handles().contains(&taken));
    place.end();
}

/// The driver's name of the only snapshot of backup b.
fn handle_of_backup(place: &Place) -> String {
    let described = place.described("b");
    let snapshots = described["status"]["backupVolumes"]["csiSnapshots"].as_object().expect("snapshots");
    assert_eq!(snapshots.len(), 1, "{described}");
    let handle = snapshots.values().find_map(|one| one["snapshot"]["storageSnapshotID"].as_str());
    handle.unwrap_or_else(|| panic!("no handle: {described}")).to_owned()
}
