//! Claims that are snapshotted together, by a real CSI driver: what they hold was on their disks at one moment.

use super::driver::recorded;
use super::place::Place;
use crate::support::{comes_to_be, eventually, until_types_are_served};
use lifeboat_testbed::{DRIVER, NODE_STATE};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const LABEL: &str = "velero.io/volume-group";

/// A class of groups with these parameters, which the driver acts on.
pub(super) fn class(place: &Place, name: &str, parameters: &Value) {
    place.ground.create(&json!({"apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshotClass",
        "metadata": {"name": name}, "driver": DRIVER, "deletionPolicy": "Delete", "parameters": parameters}));
}

pub(super) fn without_class(place: &Place, name: &str) {
    place.ground.bed.kubectl(&["delete", "volumegroupsnapshotclass", name]);
}

pub(super) fn take_class(place: &Place, claims: &[&str], class: &str) {
    let annotation = format!("velero.io/csi-volume-group-snapshot-class={class}");
    let args = [&["annotate", "pvc", "-n", &place.shop], claims, &[&annotation]].concat();
    place.ground.bed.kubectl(&args);
}

/// A pod that mounts claims, each in a folder of its name, and does nothing by itself.
pub(super) fn pod(place: &Place, name: &str, claims: &[&str], annotations: &Value) {
    pod_with(place, claims, &json!({"name": name, "namespace": place.shop, "annotations": annotations}), "sleep 3600");
}

/// The same with this metadata, which runs a shell command.
fn pod_with(place: &Place, claims: &[&str], metadata: &Value, command: &str) {
    let mounts: Vec<Value> = claims.iter().map(|c| json!({"name": c, "mountPath": format!("/{c}")})).collect();
    let volumes: Vec<Value> =
        claims.iter().map(|c| json!({"name": c, "persistentVolumeClaim": {"claimName": c}})).collect();
    place.ground.create(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {"terminationGracePeriodSeconds": 0, "volumes": volumes,
            "containers": [{"name": "a", "image": "testbed.local/busybox:1", "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", "-c", command], "volumeMounts": mounts}]}}));
    place.until_ready(&place.shop, metadata["name"].as_str().expect("a name"));
}

/// The objects of groups in the application's namespace, and the contents of the whole cluster that belong to them.
pub(super) fn group_objects(place: &Place) -> (usize, usize) {
    let count = |args: &[&str]| place.ground.bed.kubectl(args).lines().filter(|line| !line.is_empty()).count();
    let of_shop = format!(
        "jsonpath={{range .items[?(@.spec.volumeGroupSnapshotRef.namespace==\"{}\")]}}{{.metadata.name}}{{\"\\n\"}}{{end}}",
        place.shop
    );
    (
        count(&["get", "volumegroupsnapshots", "-n", &place.shop, "-o", "name"]),
        count(&["get", "volumegroupsnapshotcontents", "-o", &of_shop]),
    )
}

fn until_no_objects_are_left(place: &Place) {
    eventually("no objects of snapshots", || (place.snapshot_objects(), group_objects(place)) == ((0, 0), (0, 0)));
}

/// The snapshots of a backup by claim: the driver's names of each and of its group.
fn snapshots(place: &Place, backup: &str) -> BTreeMap<String, (String, String)> {
    let described = place.described(backup);
    let all = described["status"]["backupVolumes"]["csiSnapshots"].as_object().unwrap_or_else(|| panic!("{described}"));
    let text = |one: &Value, key: &str| one["snapshot"][key].as_str().unwrap_or_default().to_owned();
    let of = |(claim, one): (&String, &Value)| {
        let claim = claim.rsplit('/').next().unwrap_or_default().to_owned();
        (claim, (text(one, "storageSnapshotID"), text(one, "storageGroupSnapshotID")))
    };
    all.iter().map(of).collect()
}

/// The volumes of the counter.
const DISKS: [&str; 8] = ["d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7"];
/// Writes one number after the other, each to the next disk, unless it finds numbers there.
const COUNT: &str = "if [ ! -e /d0/log ]; then n=0; while true; do n=$((n+1)); echo $n >> /d$((n % 8))/log; usleep 500; done; fi; \
     sleep 3600";

/// Returns true if the numbers on all disks are all numbers up to the largest, so that they are of one moment.
fn is_one_moment(lines: &str) -> bool {
    let mut numbers: Vec<u64> = lines.lines().map(|line| line.parse().expect("a number")).collect();
    assert!(numbers.len() > 100, "{} numbers only", numbers.len());
    numbers.sort_unstable();
    numbers.iter().zip(1..).all(|(number, expected)| *number == expected)
}

/// The numbers that the counter had written, from the snapshots of a backup. Their files are file systems, of which
/// copies are mounted without a volume.
fn held_by(place: &Place, backup: &str) -> String {
    let folder = tempfile::tempdir_in(NODE_STATE).expect("a folder");
    let mount = folder.path().join("mount");
    std::fs::create_dir(&mount).expect("a folder");
    let run = |command: &mut Command| assert!(command.status().expect("a program").success(), "{command:?}");
    let read = |handle: &String| {
        // Each has a file of its own: a loop device lets go of one some time after its end.
        let image = folder.path().join(handle);
        run(Command::new("cp")
            .arg("--sparse=always")
            .arg(Path::new(NODE_STATE).join(format!("csi/{handle}.img")))
            .arg(&image));
        run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&mount));
        let text = std::fs::read_to_string(mount.join("log"));
        run(Command::new("umount").arg(&mount));
        text.unwrap_or_else(|e| panic!("{handle}: {e}"))
    };
    let snapshots = recorded(place, backup);
    assert_eq!(snapshots.len(), DISKS.len(), "{snapshots:?}");
    snapshots.keys().map(read).collect()
}

#[test]
#[ignore = "needs a node: make test-node"]
fn ordered_writes_to_eight_volumes_come_back_as_a_beginning_of_them() {
    let place = Place::start("moment");
    for disk in DISKS {
        place.claim(disk, &json!({LABEL: "counter"}));
    }
    pod_with(&place, &DISKS, &json!({"name": "counter", "namespace": place.shop}), COUNT);
    let _server = place.server();
    let is_written = comes_to_be(|| {
        let written = place.ask(&place.shop, "counter", "cat /d7/log 2>/dev/null | wc -l");
        written.trim().parse::<usize>().is_ok_and(|lines| lines > 50)
    });
    assert!(is_written, "{}", place.ask(&place.shop, "counter", "ps; ls -l /d0 /d7; df /d0"));
    let restored = |backup: &str| {
        let copy = format!("{}-{backup}", place.shop);
        let mapping = json!({"backupName": backup, "namespaceMapping": {&place.shop: copy}});
        place.ground.velero_in(&place.own, "Restore", backup, &mapping);
        place.ground.until_in(&place.own, "restore", backup, "Completed");
        place.until_ready(&copy, "counter");
        let is_one = is_one_moment(&place.ask(&copy, "counter", "cat /d?/log"));
        place.ground.bed.kubectl(&["delete", "namespace", &copy, "--wait=false"]);
        is_one
    };
    for number in 0..20 {
        let backup = format!("together-{number}");
        place.backup(&backup, &json!({}));
        let made = place.ground.until_in(&place.own, "backup", &backup, "Completed");
        assert_eq!(made["status"]["csiVolumeSnapshotsCompleted"], 8, "{made}");
        assert!(is_one_moment(&held_by(&place, &backup)), "{backup}");
    }
    assert!(restored("together-19"));
    // Each by itself, half of them a second later, is no moment of the application.
    place.ground.bed.kubectl(&["label", "pvc", "-n", &place.shop, "--all", &format!("{LABEL}-")]);
    place.ground.create(&json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
        "metadata": {"name": "late"}, "driver": DRIVER, "deletionPolicy": "Delete", "parameters": {"pause": "1s"}}));
    let names = |class: &str, disks: &[&str]| {
        let annotation = format!("velero.io/csi-volumesnapshot-class={class}");
        place.ground.bed.kubectl(&[&["annotate", "pvc", "-n", &place.shop], disks, &[&annotation]].concat());
    };
    names("csi", &DISKS[..4]);
    names("late", &DISKS[4..]);
    place.backup("apart", &json!({}));
    place.ground.until_in(&place.own, "backup", "apart", "Completed");
    assert!(!is_one_moment(&held_by(&place, "apart")));
    assert!(!restored("apart"));
    place.ground.bed.kubectl(&["delete", "volumesnapshotclass", "late"]);
    place.end();
}

#[test]
#[ignore = "needs a node: make test-node"]
fn groups_of_a_namespace_are_taken_at_once_and_deleted_with_their_backup() {
    let place = Place::start("beside");
    for (claim, group) in [("a", "One"), ("b", "One"), ("c", "two"), ("d", "two"), ("alone", "three")] {
        place.claim(claim, &json!({LABEL: group}));
    }
    place.claim("single", &json!({}));
    let _server = place.server();
    place.backup("b", &json!({}));
    let backup = place.ground.until_in(&place.own, "backup", "b", "Completed");
    assert_eq!(backup["status"]["csiVolumeSnapshotsCompleted"], 6, "{backup}");
    assert_eq!((&backup["status"]["warnings"], &backup["status"]["errors"]), (&Value::Null, &Value::Null), "{backup}");
    until_no_objects_are_left(&place);
    let taken = snapshots(&place, "b");
    let group = |claim: &str| taken[claim].1.clone();
    assert_eq!((group("a"), group("c"), group("single")), (group("b"), group("d"), String::new()), "{taken:?}");
    let of_backup = [group("a"), group("c"), group("alone")];
    assert!(of_backup.iter().all(|group| place.groups().contains(group)), "{taken:?} {:?}", place.groups());
    let there = || taken.values().filter(|(handle, _)| place.handles().contains(handle)).count();
    assert_eq!(there(), 6, "{taken:?}");

    let deleted = place.lifeboat(&["backup", "delete", "b", "--confirm"]);
    assert_eq!(deleted.code, 0, "{deleted:?}");
    place.ground.until_gone_in(&place.own, "backup", "b");
    assert_eq!(there(), 0, "{taken:?}");
    assert!(!of_backup.iter().any(|group| place.groups().contains(group)), "{taken:?} {:?}", place.groups());
    until_no_objects_are_left(&place);
    place.end();
}

#[test]
#[ignore = "needs a node: make test-node"]
fn the_pods_of_all_members_stand_still_when_the_group_is_taken() {
    let place = Place::start("stand");
    for claim in ["left", "right"] {
        place.claim(claim, &json!({LABEL: "pair"}));
        let command = |text: &str| json!(["/bin/sh", "-c", format!("echo {text} > /{claim}/{text}; sync")]).to_string();
        let annotations = json!({
            "pre.hook.backup.velero.io/command": command("frozen"), "pre.hook.backup.velero.io/on-error": "Fail",
            "post.hook.backup.velero.io/command": command("thawed")});
        pod(&place, claim, &[claim], &annotations);
    }
    class(&place, "slow", &json!({"pause": "2s"}));
    take_class(&place, &["left"], "slow");
    let _server = place.server();
    place.backup("b", &json!({}));
    let backup = place.ground.until_in(&place.own, "backup", "b", "Completed");
    assert_eq!(backup["status"]["hookStatus"]["hooksAttempted"], 4, "{backup}");
    for claim in ["left", "right"] {
        assert_eq!(place.ask(&place.shop, claim, &format!("cat /{claim}/thawed")).trim(), "thawed");
    }
    place.lose(&place.shop);
    place.ground.velero_in(&place.own, "Restore", "r", &json!({"backupName": "b"}));
    place.ground.until_in(&place.own, "restore", "r", "Completed");
    for claim in ["left", "right"] {
        place.until_ready(&place.shop, claim);
        let found = place.ask(&place.shop, claim, &format!("ls /{claim}"));
        let found: Vec<&str> = found.lines().filter(|name| *name != "lost+found").collect();
        assert_eq!(found, ["frozen"], "{claim}");
    }
    until_stubs_are_gone(&place);
    without_class(&place, "slow");
    place.end();
}

/// Waits until the stub contents that stand for groups while their members are restored are gone.
fn until_stubs_are_gone(place: &Place) {
    eventually("no content stands for a group", || group_objects(place).1 == 0);
}

#[test]
#[ignore = "needs a node: make test-node"]
fn a_failed_member_fails_its_group_unless_single_snapshots_are_allowed() {
    let place = Place::start("member");
    for claim in ["good", "bad"] {
        place.claim(claim, &json!({LABEL: "pair"}));
        pod(&place, claim, &[claim], &json!({}));
    }
    place.claim("other", &json!({}));
    class(&place, "member-fails", &json!({"failMember": "bad"}));
    take_class(&place, &["good", "bad"], "member-fails");
    let before = (place.handles().len(), place.groups().len());
    let _server = place.server();
    place.backup("b", &json!({"csiSnapshotTimeout": "5s"}));
    let backup = place.ground.until_in(&place.own, "backup", "b", "PartiallyFailed");
    let status = &backup["status"];
    assert_eq!((&status["errors"], &status["csiVolumeSnapshotsCompleted"]), (&json!(2), &json!(1)), "{backup}");
    let described = place.described("b").to_string();
    assert!(described.contains("of the claims bad, good was not taken within 5 s"), "{described}");
    assert!(described.contains(&format!("the member {}/bad fails", place.shop)), "{described}");
    let list = place.lifeboat(&["backup", "describe", "b", "--details"]).out;
    assert!(list.contains(&format!("- {}/bad", place.shop)) && list.contains("v1/Pod"), "{list}");
    until_no_objects_are_left(&place);
    assert_eq!((place.handles().len(), place.groups().len()), (before.0 + 1, before.1), "that of the other claim");

    let single = json!({"csiSnapshotTimeout": "5s", "volumeGroupFallback": "single"});
    place.backup("single", &single);
    let backup = place.ground.until_in(&place.own, "backup", "single", "Completed");
    let status = &backup["status"];
    assert_eq!((&status["warnings"], &status["csiVolumeSnapshotsCompleted"]), (&json!(1), &json!(3)), "{backup}");
    let described = place.described("single").to_string();
    assert!(described.contains("the snapshots of bad, good are of different moments"), "{described}");
    until_no_objects_are_left(&place);
    assert_eq!(place.groups().len(), before.1);
    without_class(&place, "member-fails");
    place.end();
}

#[test]
#[ignore = "needs a node: make test-node"]
fn a_group_that_is_ready_late_is_taken_once_and_waited_for() {
    let place = Place::start("late");
    for claim in ["a", "b"] {
        place.claim(claim, &json!({LABEL: "pair"}));
    }
    class(&place, "later", &json!({"readyAfter": "6s", "failOnce": "true"}));
    take_class(&place, &["a"], "later");
    let before = place.handles().len();
    let _server = place.server();
    place.backup("b", &json!({}));
    place.ground.until_in(&place.own, "backup", "b", "WaitingForPluginOperations");
    assert_eq!(group_objects(&place), (1, 1), "it stays until it is ready");
    let backup = place.ground.until_in(&place.own, "backup", "b", "Completed");
    assert_eq!(backup["status"]["csiVolumeSnapshotsCompleted"], 2, "{backup}");
    until_no_objects_are_left(&place);
    // One that has lost its group before it is ready would have been taken once more.
    assert_eq!(place.handles().len(), before + 2);
    without_class(&place, "later");
    place.end();
}

#[test]
#[ignore = "needs a node: make test-node"]
fn a_server_that_takes_over_takes_up_the_group() {
    let place = Place::start("takes");
    for claim in ["a", "b"] {
        place.claim(claim, &json!({LABEL: "pair"}));
    }
    class(&place, "pausing", &json!({"pause": "3s"}));
    take_class(&place, &["a"], "pausing");
    let before = (place.handles().len(), place.groups().len());
    let server = place.server();
    place.backup("b", &json!({}));
    eventually("a group that is being taken", || group_objects(&place) == (1, 1));
    server.kill();
    let _server = place.server();
    let backup = place.ground.until_in(&place.own, "backup", "b", "Completed");
    assert_eq!(
        (&backup["status"]["attempt"], &backup["status"]["csiVolumeSnapshotsCompleted"]),
        (&json!(2), &json!(2))
    );
    until_no_objects_are_left(&place);
    assert_eq!((place.handles().len(), place.groups().len()), (before.0 + 2, before.1 + 1));
    without_class(&place, "pausing");
    place.end();
}

#[test]
#[ignore = "needs a node: make test-node"]
fn a_cancelled_backup_leaves_no_group_in_the_storage() {
    let place = Place::start("cancels");
    for claim in ["a", "b"] {
        place.claim(claim, &json!({LABEL: "pair"}));
    }
    class(&place, "long", &json!({"pause": "6s"}));
    take_class(&place, &["a"], "long");
    let before = (place.handles().len(), place.groups().len());
    let _server = place.server();
    place.backup("b", &json!({}));
    eventually("a group that is being taken", || group_objects(&place) == (1, 1));
    let cancelled = place.lifeboat(&["backup", "cancel", "b"]);
    assert_eq!(cancelled.code, 0, "{cancelled:?}");
    place.ground.until_in(&place.own, "backup", "b", "Failed");
    // The driver finishes what it has begun, and is told to delete it then.
    until_no_objects_are_left(&place);
    assert_eq!((place.handles().len(), place.groups().len()), before);
    without_class(&place, "long");
    place.end();
}

#[test]
#[ignore = "needs a node: make test-node"]
fn a_claim_that_a_policy_leaves_out_goes_along_and_with_the_backup() {
    let place = Place::start("along");
    place.claim("data", &json!({LABEL: "pair"}));
    place.claim("junk", &json!({LABEL: "pair", "tier": "junk"}));
    place.ground.bed.kubectl(&[
        "create",
        "configmap",
        "rules",
        "-n",
        &place.own,
        "--from-literal=rules=version: v1\nvolumePolicies: [{conditions: {pvcLabels: {tier: junk}}, action: {type: skip}}]",
    ]);
    let before = (place.handles().len(), place.groups().len());
    let _server = place.server();
    place.backup("b", &json!({"resourcePolicy": {"kind": "configmap", "name": "rules"}}));
    let backup = place.ground.until_in(&place.own, "backup", "b", "Completed");
    assert_eq!(
        (&backup["status"]["warnings"], &backup["status"]["csiVolumeSnapshotsCompleted"]),
        (&json!(1), &json!(1))
    );
    let described = place.described("b").to_string();
    assert!(described.contains("takes volumes of claims along that this backup does not snapshot"), "{described}");
    until_no_objects_are_left(&place);
    assert_eq!((place.handles().len(), place.groups().len()), (before.0 + 2, before.1 + 1));
    // The driver wants all snapshots of the group named.
    let deleted = place.lifeboat(&["backup", "delete", "b", "--confirm"]);
    assert_eq!(deleted.code, 0, "{deleted:?}");
    place.ground.until_gone_in(&place.own, "backup", "b");
    assert_eq!((place.handles().len(), place.groups().len()), before);
    place.end();
}

#[test]
#[ignore = "needs a node: make test-node"]
fn where_the_cluster_serves_no_groups_their_claims_come_back_all_the_same() {
    let place = Place::alone("without");
    for claim in ["a", "b"] {
        place.claim(claim, &json!({LABEL: "pair", "role": claim}));
    }
    pod(&place, "db", &["a", "b"], &json!({}));
    place.ask(&place.shop, "db", "echo precious > /a/file; echo also > /b/file; sync");
    let _server = place.server();
    place.backup("b", &json!({}));
    place.ground.until_in(&place.own, "backup", "b", "Completed");
    until_no_objects_are_left(&place);
    place.lose(&place.shop);
    // One of them alone, in another namespace.
    let copy = format!("{}-copy", place.shop);
    let spec = json!({"backupName": "b", "namespaceMapping": {&place.shop: copy},
        "labelSelector": {"matchLabels": {"role": "b"}}});
    place.ground.velero_in(&place.own, "Restore", "one", &spec);
    place.ground.until_in(&place.own, "restore", "one", "Completed");
    assert_eq!(place.ground.get_in(&copy, "persistentvolumeclaim", "b")["status"]["phase"], "Bound");
    assert_eq!(place.ground.get_in(&copy, "persistentvolumeclaim", "a"), Value::Null);
    until_stubs_are_gone(&place);

    let names = ["", "contents", "classes"].map(|end| match end {
        "" => "volumegroupsnapshots.groupsnapshot.storage.k8s.io".to_owned(),
        end => format!("volumegroupsnapshot{end}.groupsnapshot.storage.k8s.io"),
    });
    let definitions: Vec<Value> = names.iter().map(|name| place.ground.get_in("", "crd", name)).collect();
    let classes = place.ground.get_in("", "volumegroupsnapshotclass", "csi");
    for name in &names {
        place.ground.bed.kubectl(&["delete", "crd", name, "--timeout=180s"]);
    }
    place.ground.velero_in(&place.own, "Restore", "all", &json!({"backupName": "b"}));
    let restore = place.ground.until_in(&place.own, "restore", "all", "Completed");
    assert_eq!(restore["status"]["warnings"], Value::Null, "{restore}");
    place.until_ready(&place.shop, "db");
    assert_eq!(place.ask(&place.shop, "db", "cat /a/file /b/file"), "precious\nalso\n");
    // Its group cannot be deleted there, which is an error of the deletion.
    let deleted = place.lifeboat(&["backup", "delete", "b", "--confirm"]);
    assert_eq!(deleted.code, 0, "{deleted:?}");
    let errors = || {
        let path = "jsonpath={.items[*].status.errors}";
        place.ground.bed.kubectl(&["get", "deletebackuprequests", "-n", &place.own, "-o", path])
    };
    eventually("an error of the deletion", || errors().contains("does not serve groupsnapshot.storage.k8s.io"));

    let bare = |object: &Value| {
        let mut object = object.clone();
        let metadata = json!({"name": object["metadata"]["name"], "annotations": object["metadata"]["annotations"]});
        object["metadata"] = metadata;
        object.as_object_mut().expect("a map").remove("status");
        object
    };
    definitions.iter().for_each(|definition| place.ground.create(&bare(definition)));
    until_types_are_served(&place.ground.bed.plane, &[]);
    place.ground.create(&bare(&classes));
    let deleted = place.lifeboat(&["backup", "delete", "b", "--confirm"]);
    assert_eq!(deleted.code, 0, "{deleted:?}");
    place.ground.until_gone_in(&place.own, "backup", "b");
    place.ground.bed.kubectl(&["delete", "namespace", &copy, "--wait=false"]);
    place.end();
}
