//! Volumes of many kinds in one backup: shared ones, those of a set, members of a group. They come back in another
//! namespace and class, and over what is there.

use super::groups::group_objects;
use super::movers::install;
use super::place::{Place, PodVolume, sleeping_container};
use super::transfer_kills::left;
use crate::support::{Run, comes_to_be};
use lifeboat_testbed::DRIVER;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The storage class into which the volumes are restored.
const OTHER: &str = "csi-other-kinds";
/// The pods that share two claims.
const PAIR: [&str; 2] = ["left", "right"];
/// The members of the set, whose claims are one group of snapshots.
const SET: [&str; 3] = ["db-0", "db-1", "db-2"];

/// Makes a claim that belongs to the pair.
fn claim(place: &Place, name: &str, access_mode: &str) {
    place.ground.create(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": place.shop, "labels": {"app": "pair"}},
        "spec": {"accessModes": [access_mode], "storageClassName": "csi", "resources": {"requests": {"storage": "16Mi"}}}}));
}

/// A claim for many nodes and one for a single node, both mounted by two pods, and a set of three whose claims are a
/// group.
fn application(place: &Place) {
    claim(place, "shared", "ReadWriteMany");
    claim(place, "both", "ReadWriteOnce");
    for name in PAIR {
        let metadata = json!({"labels": {"app": "pair"},
            "annotations": {"backup.velero.io/backup-volumes": "shared,both"}});
        place.sleeper(name, &[PodVolume::Claim("shared"), PodVolume::Claim("both")], &metadata);
    }
    let labels = json!({"app": "db"});
    place.ground.create(&json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": place.shop},
        "spec": {"replicas": 3, "serviceName": "db", "podManagementPolicy": "Parallel", "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [sleeping_container(&["data"])]}},
            "volumeClaimTemplates": [{"metadata": {"name": "data", "labels": {"velero.io/volume-group": "db"}},
                "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "csi",
                    "resources": {"requests": {"storage": "16Mi"}}}}]}}));
    all_ready(place, &place.shop);
}

fn pods() -> impl Iterator<Item = &'static str> {
    PAIR.into_iter().chain(SET)
}

fn all_ready(place: &Place, namespace: &str) {
    for pod in pods() {
        // The set makes its pods after this test has asked for them.
        let there = ["wait", "--for=create", &format!("pod/{pod}"), "-n", namespace, "--timeout=120s"];
        place.ground.bed.kubectl(&there);
        place.until_ready(namespace, pod);
    }
}

/// Everything in the volumes of a pod.
fn look(place: &Place, namespace: &str, pod: &str) -> String {
    place.look(namespace, pod, &["data", "shared", "both"])
}

fn contents(place: &Place, namespace: &str) -> Vec<String> {
    pods().map(|pod| look(place, namespace, pod)).collect()
}

/// Restores the backup into the other namespace, which has to succeed.
fn restore(place: &Place, name: &str, copy: &str, more: &[&str]) {
    let mapping = format!("--namespace-mappings={}:{copy}", place.shop);
    let back = place.lifeboat(&[&["restore", "create", name, "--from-backup=b", &mapping, "--wait"], more].concat());
    let facts = place.ground.get_in(&place.own, "restore", name);
    assert_eq!(
        (back.code, &facts["status"]["phase"]),
        (0, &json!("Completed")),
        "{back:?} {facts} {}",
        results(place, name).out
    );
}

fn results(place: &Place, restore: &str) -> Run {
    place.lifeboat(&["restore", "describe", restore, "--details"])
}

/// The claims of all PodVolumeBackups, and the phases of all DataUploads.
fn transfers(place: &Place) -> (BTreeSet<String>, Vec<Value>) {
    let client = place.ground.bed.plane.client();
    let list = |kind: &str| client.list(kind, Some(&place.own)).unwrap_or_else(|e| panic!("{e:#}"));
    let claim =
        |one: Value| one["metadata"]["annotations"]["velero.io/pvc-name"].as_str().unwrap_or_default().to_owned();
    let claims = list("podvolumebackups.velero.io").into_iter().map(claim).collect();
    (claims, list("datauploads.velero.io").into_iter().map(|one| one["status"]["phase"].clone()).collect())
}

/// scenario: NamespaceMapping, FSBackup
/// scenario: PVBackup, OptIn, FSBackup
#[test]
#[ignore = "needs a node: make test-node"]
fn shared_volumes_and_groups_come_back_elsewhere_and_over_what_is_there() {
    let place = Place::start("kinds");
    install(&place, &["--use-node-agent"]);
    let bed = &place.ground.bed;
    place
        .ground
        .create(&json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": OTHER},
        "provisioner": DRIVER}));
    application(&place);
    for (pod, volume) in [("left", "shared"), ("right", "both"), ("db-0", "data"), ("db-1", "data"), ("db-2", "data")] {
        let fill = format!(
            "cd /{volume} && mkdir own && echo {pod} > own/file && chmod 640 own/file && chown -R 1000:2000 own && chmod 2750 own && \
             ln -s own/file link && mkdir empty && head -c 500000 /dev/urandom > big && chmod 4755 big && sync"
        );
        place.ask(&place.shop, pod, &fill);
    }
    let before = contents(&place, &place.shop);
    assert!(before[0].contains("shared/own/file 1000:2000 640") && before[0].contains("both/own/file"), "{before:?}");
    assert_eq!(before[0], before[1], "both pods see the same");

    let namespace = format!("--include-namespaces={}", place.shop);
    let saved = place.lifeboat(&["backup", "create", "b", &namespace, "--snapshot-move-data", "--wait"]);
    let facts = place.ground.get_in(&place.own, "backup", "b");
    let logs = || bed.kubectl(&["logs", "-n", &place.own, "daemonset/node-agent", "--tail=60"]);
    assert_eq!((saved.code, &facts["status"]["phase"]), (0, &json!("Completed")), "{saved:?} {facts} {}", logs());
    let claims = BTreeSet::from(["both", "shared"].map(str::to_owned));
    assert_eq!(transfers(&place), (claims, vec![json!("Completed"); SET.len()]));
    let is_clean = || left(&place).is_empty() && place.groups().is_empty() && group_objects(&place) == (0, 0);
    assert!(comes_to_be(is_clean), "{:?} {:?} {:?}", left(&place), place.groups(), group_objects(&place));

    // Into another namespace and another class, where nothing is.
    place.ground.create(&json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "classes", "namespace": place.own,
            "labels": {"velero.io/plugin-config": "", "velero.io/change-storage-class": "RestoreItemAction"}},
        "data": {"csi": OTHER}}));
    let copy = format!("{}-copy", place.shop);
    restore(&place, "new", &copy, &[]);
    all_ready(&place, &copy);
    assert_eq!(contents(&place, &copy), before);
    for (claim, mode) in [("shared", "ReadWriteMany"), ("both", "ReadWriteOnce"), ("data-db-2", "ReadWriteOnce")] {
        let found = place.ground.get_in(&copy, "persistentvolumeclaim", claim);
        let facts = (&found["spec"]["storageClassName"], &found["spec"]["accessModes"], &found["status"]["phase"]);
        assert_eq!(facts, (&json!(OTHER), &json!([mode]), &json!("Bound")), "{found}");
    }

    // Claims that are there keep what they hold, unless the files are to be written over it.
    let lose_pair = || bed.kubectl(&["delete", "pods", "-n", &copy, "-l", "app=pair", "--wait=true", "--timeout=120s"]);
    place.ask(&copy, "left", "echo later > /shared/own/file; echo later > /shared/new; sync");
    let later = look(&place, &copy, "left");
    lose_pair();
    restore(&place, "kept", &copy, &["--selector=app=pair"]);
    all_ready(&place, &copy);
    assert_eq!(look(&place, &copy, "left"), later);
    assert!(results(&place, "kept").out.contains("--overwrite-volumes"), "{:?}", results(&place, "kept"));
    lose_pair();
    restore(&place, "over", &copy, &["--selector=app=pair", "--overwrite-volumes"]);
    all_ready(&place, &copy);
    assert_eq!(place.ask(&copy, "left", "cat /shared/own/file /shared/new"), "left\nlater\n");
    assert_eq!(look(&place, &copy, "db-1"), before[3], "the others are left alone");
    assert!(comes_to_be(|| left(&place).is_empty()), "{:?}", left(&place));
    bed.kubectl(&["delete", "namespace", &copy, "--wait=false"]);
    bed.kubectl(&["delete", "storageclass", OTHER]);
    place.end();
}
