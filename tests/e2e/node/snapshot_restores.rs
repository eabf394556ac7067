//! Claims that come back from the snapshots of a real CSI driver.

use super::place::Place;
use crate::support::eventually;
use lifeboat_testbed::DRIVER;
use serde_json::{Value, json};

/// Puts a tree of files onto a volume whose like a copy easily gets wrong.
const FILL: &str = "cd /data; echo precious > file; mkdir -p d; echo more > d/x; ln d/x hard; ln -s d/x link; chmod 4751 d/x; \
     chown 12:34 file; dd if=/dev/zero of=sparse bs=1 count=1 seek=4194303 2>/dev/null; sync";

/// Everything of that tree that can be told from within.
const LOOK: &str = "cd /data; find . -not -path './lost+found*' -exec stat -c '%n %a %u:%g %h %s' {} + | sort; \
     find . -type f -not -path './lost+found*' -exec sha256sum {} + | sort; readlink link";

fn annotate_volume(place: &Place, claim: &str) -> String {
    let volume = place.ground.get_in(&place.shop, "persistentvolumeclaim", claim)["spec"]["volumeName"].clone();
    let volume = volume.as_str().expect("a volume").to_owned();
    let patch = json!({"metadata": {"labels": {"tier": "gold"}}, "spec": {"persistentVolumeReclaimPolicy": "Retain"}});
    place.ground.bed.kubectl(&["patch", "pv", &volume, "--type=merge", "-p", &patch.to_string()]);
    volume
}

fn bound_volume(place: &Place, namespace: &str, claim: &str) -> Value {
    let claim = place.ground.get_in(namespace, "persistentvolumeclaim", claim);
    assert_eq!(claim["status"]["phase"], "Bound", "{claim}");
    place.ground.get_in("", "persistentvolume", claim["spec"]["volumeName"].as_str().unwrap_or_default())
}

/// Maps a storage class to another one, in all restores of the server.
fn map_class(place: &Place, from: &str, to: &str) {
    place.ground.create(&json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "classes", "namespace": place.own,
            "labels": {"velero.io/plugin-config": "", "velero.io/change-storage-class": "RestoreItemAction"}},
        "data": {from: to}}));
}

/// scenario: NamespaceMapping, Snapshot
/// scenario: RetainPV, Snapshot
/// scenario: Snapshot
#[test]
#[ignore = "needs a node: make test-node"]
fn a_lost_namespace_comes_back_with_its_files_and_volumes_as_before() {
    let place = Place::start("back");
    place.claim("data", &json!({}));
    place.claim("spare", &json!({}));
    place.pod("db", "data", &json!({}));
    place.ask(&place.shop, "db", FILL);
    let before = place.ask(&place.shop, "db", LOOK);
    let old = annotate_volume(&place, "data");
    let _server = place.server();
    place.backup("b", &json!({}));
    place.ground.until_in(&place.own, "backup", "b", "Completed");
    // What it noted on its copies, and the snapshots that it took, are no changes.
    let told = place.lifeboat(&["diff", "b"]);
    assert!(told.code == 0 && told.out.starts_with("0 added, 0 removed, 0 changed, "), "{told:?}");
    // The old volume stays, with what is written now.
    place.ask(&place.shop, "db", "cd /data; echo worthless > file; rm -r d; sync");
    place.lose(&place.shop);
    eventually("the old volume is left", || {
        place.ground.get_in("", "persistentvolume", &old)["status"]["phase"] == "Released"
    });

    place.ground.velero_in(&place.own, "Restore", "r", &json!({"backupName": "b"}));
    let restore = place.ground.until_in(&place.own, "restore", "r", "Completed");
    assert_eq!(
        (&restore["status"]["warnings"], &restore["status"]["errors"]),
        (&Value::Null, &Value::Null),
        "{restore}"
    );
    place.until_ready(&place.shop, "db");
    assert_eq!(place.ask(&place.shop, "db", LOOK), before);
    let volume = bound_volume(&place, &place.shop, "data");
    assert_ne!(volume["metadata"]["name"], old.as_str());
    assert_eq!(volume["metadata"]["labels"]["tier"], "gold", "{volume}");
    assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Retain", "{volume}");
    assert_eq!(bound_volume(&place, &place.shop, "spare")["spec"]["persistentVolumeReclaimPolicy"], "Delete");

    // Beside it, in another namespace, the same once more: the snapshot stays.
    let copy = format!("{}-copy", place.shop);
    let mapping = json!({"backupName": "b", "namespaceMapping": {&place.shop: copy}});
    place.ground.velero_in(&place.own, "Restore", "copy", &mapping);
    place.ground.until_in(&place.own, "restore", "copy", "Completed");
    place.until_ready(&copy, "db");
    assert_eq!(place.ask(&copy, "db", LOOK), before);
    let described = place.lifeboat(&["restore", "describe", "copy", "--details"]).out;
    assert!(described.contains(&format!("{copy}/data")) && described.contains("CSI"), "{described}");

    place.ground.bed.kubectl(&["delete", "namespace", &copy, "--wait=false"]);
    place.ground.bed.kubectl(&["delete", "pv", &old, "--wait=false"]);
    place.end();
}

#[test]
#[ignore = "needs a node: make test-node"]
fn a_pod_starts_again_on_the_claim_of_its_ephemeral_volume() {
    let place = Place::start("own");
    let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "csi", "resources": {"requests": {"storage": "16Mi"}}});
    place.ground.create(
        &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db", "namespace": place.shop},
        "spec": {"terminationGracePeriodSeconds": 0,
            "containers": [{"name": "a", "image": "testbed.local/busybox:1", "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", "-c", "sleep 3600"], "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
            "volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]}}),
    );
    let is_ready = || place.until_ready(&place.shop, "db");
    is_ready();
    place.ask(&place.shop, "db", FILL);
    let before = place.ask(&place.shop, "db", LOOK);
    let _server = place.server();
    place.backup("b", &json!({}));
    place.ground.until_in(&place.own, "backup", "b", "Completed");
    assert_eq!(place.handles().len(), 1);
    place.lose(&place.shop);
    place.ground.velero_in(&place.own, "Restore", "r", &json!({"backupName": "b"}));
    let restore = place.ground.until_in(&place.own, "restore", "r", "Completed");
    assert_eq!(restore["status"]["warnings"], Value::Null, "{restore}");
    is_ready();
    assert_eq!(place.ask(&place.shop, "db", LOOK), before);
    let pod = place.ground.get_in(&place.shop, "pod", "db");
    let claim = place.ground.get_in(&place.shop, "persistentvolumeclaim", "db-data");
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "db", "uid": pod["metadata"]["uid"], "controller": true,
        "blockOwnerDeletion": true}]);
    assert_eq!(claim["metadata"]["ownerReferences"], owner, "{claim}");
    place.end();
}

#[test]
#[ignore = "needs a node: make test-node"]
fn a_claim_that_cannot_come_from_its_snapshot_is_an_error_beforehand() {
    let place = Place::start("refuse");
    place.claim("data", &json!({}));
    let _server = place.server();
    place.backup("b", &json!({}));
    place.ground.until_in(&place.own, "backup", "b", "Completed");
    place.lose(&place.shop);
    place.ground.create(&json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "other"}, "provisioner": "other.example"}));
    map_class(&place, "csi", "other");

    place.ground.velero_in(&place.own, "Restore", "r", &json!({"backupName": "b"}));
    place.ground.until_in(&place.own, "restore", "r", "PartiallyFailed");
    let described = place.lifeboat(&["restore", "describe", "r", "--details"]).out;
    let why = format!("its snapshot is of the driver {DRIVER}, and its storage class \"other\" of other.example");
    assert!(described.contains(&why), "{described}");
    assert_eq!(place.ground.get_in(&place.shop, "persistentvolumeclaim", "data"), Value::Null);

    // Without volumes it comes back empty, and nothing is made of its snapshot.
    let before = place.snapshot_objects();
    place.ground.bed.kubectl(&["delete", "configmap", "classes", "-n", &place.own]);
    let spec = json!({"backupName": "b", "restorePVs": false});
    place.ground.velero_in(&place.own, "Restore", "empty", &spec);
    place.ground.until_in(&place.own, "restore", "empty", "Completed");
    let claim = place.ground.get_in(&place.shop, "persistentvolumeclaim", "data");
    assert_eq!(
        (&claim["spec"]["dataSource"], claim["metadata"]["name"].as_str()),
        (&Value::Null, Some("data")),
        "{claim}"
    );
    assert_eq!(place.snapshot_objects(), before);
    place.ground.bed.kubectl(&["delete", "storageclass", "other"]);
    place.end();
}

#[test]
#[ignore = "needs a node: make test-node"]
fn a_claim_without_a_volume_is_waited_for_until_the_timeout_and_reported() {
    let place = Place::start("waits");
    place.claim("data", &json!({}));
    place.claim("good", &json!({}));
    let _server = place.server_with(&["--resource-timeout=12s"]);
    place.backup("b", &json!({}));
    place.ground.until_in(&place.own, "backup", "b", "Completed");
    place.lose(&place.shop);
    place
        .ground
        .create(&json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "broken"},
        "provisioner": DRIVER, "parameters": {"fail": "create-volume"}}));
    place.ground.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rules", "namespace": place.own},
        "data": {"rules": "version: v1\nresourceModifierRules:\n- conditions: {groupResource: persistentvolumeclaims, resourceNameRegex: \"^data$\"}\n  \
            patches: [{operation: replace, path: /spec/storageClassName, value: broken}]"}}));
    let modifier = json!({"backupName": "b", "resourceModifier": {"kind": "configmap", "name": "rules"}});
    place.ground.velero_in(&place.own, "Restore", "r", &modifier);
    place.ground.until_in(&place.own, "restore", "r", "Finalizing");
    let restore = place.ground.until_in(&place.own, "restore", "r", "PartiallyFailed");
    assert_eq!(restore["status"]["errors"], 1, "{restore}");
    let described = place.lifeboat(&["restore", "describe", "r", "--details"]).out;
    let why = "fail to patch dynamic PV, err: gave up after 12 s (--resource-timeout of the server): the claim is Pending; its snapshot is ready";
    assert!(described.contains(why) && described.contains("PVC: data"), "{described}");
    bound_volume(&place, &place.shop, "good");
    eventually("the objects of the failed claim are gone", || {
        place.ground.bed.kubectl(&["delete", "pvc", "data", "-n", &place.shop, "--ignore-not-found", "--wait=false"]);
        place.ground.get_in(&place.shop, "persistentvolumeclaim", "data") == Value::Null
    });
    place.ground.bed.kubectl(&["delete", "storageclass", "broken"]);
    place.end();
}
