//! Data of CSI snapshots that is moved, against a real API server; the test plays the driver and the node agent.

use crate::ground::Ground;
use crate::support::{eventually, gunzip_json};
use serde_json::{Value, json};

const SNAPSHOTS: &str = "volumesnapshots.snapshot.storage.k8s.io";

/// A cluster that serves snapshots, with a node agent's DaemonSet, and a claim of a driver that is bound.
fn ground() -> Ground {
    let ground = Ground::start();
    for (plural, kind, scope) in [
        ("volumesnapshots", "VolumeSnapshot", "Namespaced"),
        ("volumesnapshotcontents", "VolumeSnapshotContent", "Cluster"),
        ("volumesnapshotclasses", "VolumeSnapshotClass", "Cluster"),
    ] {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let name = format!("{plural}.snapshot.storage.k8s.io");
        ground.create(&json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name,
                "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-csi/external-snapshotter"}},
            "spec": {"group": "snapshot.storage.k8s.io", "scope": scope,
                "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}}));
        ground.bed.kubectl(&["wait", "--for=condition=Established", &format!("crd/{name}"), "--timeout=180s"]);
    }
    let labels = json!({"name": "node-agent"});
    let container = json!({"name": "node-agent", "image": "velero:1"});
    let size = json!({"storage": "1Gi"});
    for object in [
        json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass", "metadata": {"name": "own"},
            "driver": "own.example.com", "deletionPolicy": "Delete"}),
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "node-agent", "namespace": "velero"},
            "spec": {"selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-1"},
            "spec": {"capacity": size, "accessModes": ["ReadWriteOnce"], "storageClassName": "own",
                "persistentVolumeReclaimPolicy": "Retain", "csi": {"driver": "own.example.com", "volumeHandle": "v1"},
                "claimRef": {"namespace": "shop", "name": "data"}}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "own", "volumeName": "pv-1",
                "resources": {"requests": size}}}),
    ] {
        ground.create(&object);
    }
    eventually("the binding of the claim", || ground.get_in("shop", "pvc", "data")["status"]["phase"] == "Bound");
    ground
}

/// Waits for the only object of a type in a namespace.
fn only(ground: &Ground, namespace: &str, resource: &str) -> Value {
    let mut found = Value::Null;
    eventually(resource, || {
        found = ground.bed.objects(resource, namespace).into_iter().next().unwrap_or_default();
        !found.is_null()
    });
    found
}

fn patch(ground: &Ground, object: &Value, patch: &Value) {
    let text = |key: &str| object["metadata"][key].as_str().expect("text").to_owned();
    let kind = object["kind"].as_str().expect("a kind");
    let patch = patch.to_string();
    ground.bed.kubectl(&["patch", kind, &text("name"), "-n", &text("namespace"), "--type=merge", "-p", &patch]);
}

#[test]
fn a_server_that_is_started_anew_goes_on_waiting_for_uploads() {
    let ground = ground();
    let bucket = ground.directory("default", &json!({"default": true}));
    let flags = ["--features=EnableCSI", "--item-operation-sync-frequency=1s"];
    let server = |identity: &str| ground.server_with(identity, &ground.bed.plane.kubeconfig(), &flags);
    let first = server("first");
    let spec = json!({"includedNamespaces": ["shop"], "storageLocation": "default", "snapshotMoveData": true});
    ground.velero("Backup", "b", &spec);
    let snapshot = only(&ground, "shop", SNAPSHOTS);
    ground.create(&json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
        "metadata": {"name": "content"}, "spec": {"driver": "own.example.com", "deletionPolicy": "Delete"},
        "status": {"snapshotHandle": "snap-1", "restoreSize": 1 << 30, "readyToUse": true}}));
    let taken =
        json!({"status": {"boundVolumeSnapshotContentName": "content", "creationTime": "2026-11-21T09:31:57Z"}});
    patch(&ground, &snapshot, &taken);
    let upload = only(&ground, "velero", "datauploads");
    let backup = ground.until("backup", "b", "WaitingForPluginOperations");
    assert_eq!(upload["metadata"]["ownerReferences"][0]["uid"], backup["metadata"]["uid"]);
    let expected = json!({"snapshotType": "CSI", "sourcePVC": "data", "sourceNamespace": "shop",
        "backupStorageLocation": "default", "operationTimeout": "10m0s",
        "csiSnapshot": {"volumeSnapshot": snapshot["metadata"]["name"], "storageClass": "own", "snapshotClass": "own",
            "driver": "own.example.com"}});
    assert_eq!(upload["spec"], expected);
    first.kill();
    ground.end_lease("velero");

    // The node agent takes the snapshot over.
    let name = snapshot["metadata"]["name"].as_str().expect("a name");
    ground.bed.kubectl(&["delete", SNAPSHOTS, name, "-n", "shop"]);
    ground.bed.kubectl(&["delete", "volumesnapshotcontents.snapshot.storage.k8s.io", "content"]);
    let _second = server("second");
    patch(&ground, &upload, &json!({"status": {"phase": "InProgress", "progress": {"totalBytes": 9, "bytesDone": 3}}}));
    patch(
        &ground,
        &upload,
        &json!({"status": {"phase": "Completed", "snapshotID": "id-1", "incrementalBytes": 7,
        "progress": {"totalBytes": 9, "bytesDone": 9}, "completionTimestamp": "2026-11-21T09:33:55Z"}}),
    );
    let backup = ground.until("backup", "b", "Completed");
    assert_eq!(backup["status"]["backupItemOperationsCompleted"], 1);
    let infos = gunzip_json(&bucket.join("backups/b/b-volumeinfo.json.gz"));
    let moved = &infos[0]["snapshotDataMovementInfo"];
    assert_eq!((&infos[0]["result"], &moved["snapshotHandle"]), (&json!("succeeded"), &json!("id-1")), "{infos}");
}
