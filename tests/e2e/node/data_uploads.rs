//! Snapshots of a real CSI driver that a node agent moves, by DataUploads that are made by hand.

use super::movers::install;
use super::place::Place;
use crate::support::{comes_to_be, eventually};
use serde_json::{Value, json};

/// Takes a snapshot of a claim, and asks for it to be moved.
fn move_snapshot(place: &Place, claim: &str) {
    let ground = &place.ground;
    ground.create(&json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {"name": claim, "namespace": place.shop},
        "spec": {"volumeSnapshotClassName": "csi", "source": {"persistentVolumeClaimName": claim}}}));
    ground.create(&json!({"apiVersion": "velero.io/v2alpha1", "kind": "DataUpload",
        "metadata": {"name": claim, "namespace": place.own, "labels": {"velero.io/async-operation-id": claim}},
        "spec": {"snapshotType": "CSI", "sourcePVC": claim, "sourceNamespace": place.shop, "backupStorageLocation": "default",
            "csiSnapshot": {"volumeSnapshot": claim, "storageClass": "csi", "snapshotClass": "csi"},
            "operationTimeout": "10m0s"}}));
}

/// The names of objects of this type that begin with the name of a claim, in all namespaces.
fn left(place: &Place, kind: &str, claim: &str) -> Vec<String> {
    let all: Value = serde_json::from_str(&place.ground.bed.kubectl(&["get", kind, "-A", "-o", "json"])).expect("JSON");
    let is_left = |object: &&Value| {
        let of = |pointer: &str, value: &str| object.pointer(pointer).is_some_and(|found| found == value);
        of("/metadata/namespace", &place.own) && of("/metadata/name", claim)
            || of("/spec/claimRef/namespace", &place.own)
            || of("/spec/volumeSnapshotRef/namespace", &place.own)
            || of("/spec/volumeSnapshotRef/namespace", &place.shop)
    };
    let items = all["items"].as_array().into_iter().flatten().filter(is_left);
    items.map(|object| object["metadata"]["name"].to_string()).collect()
}

/// Files and a device; the pod of the first mover is deleted while it starts or runs.
#[test]
#[ignore = "needs a node: make test-node"]
fn snapshots_are_moved_also_past_a_deleted_mover_and_nothing_is_left() {
    let place = Place::start("uploads");
    install(&place, &["--use-node-agent", "--least-privilege"]);
    let ground = &place.ground;
    place.claim("data", &json!({}));
    place.pod("db", "data", &json!({}));
    ground.create(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "device", "namespace": place.shop},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "csi", "volumeMode": "Block",
            "resources": {"requests": {"storage": "16Mi"}}}}));
    ground.create(&json!({"apiVersion": "velero.io/v1", "kind": "BackupRepository",
        "metadata": {"name": format!("{}-default-kopia", place.shop), "namespace": place.own},
        "spec": {"volumeNamespace": place.shop, "backupStorageLocation": "default", "repositoryType": "kopia",
            "maintenanceFrequency": "0s"}}));
    ground.until_in(&place.own, "backuprepository", &format!("{}-default-kopia", place.shop), "Ready");
    for (claim, bytes) in [("data", 9), ("device", 16 << 20)] {
        move_snapshot(&place, claim);
        if claim == "data" {
            eventually("a mover", || !ground.get_in(&place.own, "pod", claim).is_null());
            ground.bed.kubectl(&["delete", "pod", claim, "-n", &place.own, "--ignore-not-found", "--wait=false"]);
        }
        let ended = comes_to_be(|| {
            let phase = ground.get_in(&place.own, "dataupload", claim)["status"]["phase"].clone();
            phase == "Completed" || phase == "Failed" || phase == "Canceled"
        });
        let upload = ground.get_in(&place.own, "dataupload", claim);
        let logs = || ground.bed.kubectl(&["logs", "-n", &place.own, "daemonset/node-agent", "--tail=60"]);
        assert!(ended && upload["status"]["phase"] == "Completed", "{upload} {}", logs());
        let status = &upload["status"];
        assert_eq!(status["progress"], json!({"totalBytes": bytes, "bytesDone": bytes}), "{upload}");
        assert_eq!((status["snapshotID"].as_str().map(str::len), &status["nodeOS"]), (Some(32), &json!("linux")));
        let is_clean = || {
            let kinds =
                ["pods", "persistentvolumeclaims", "persistentvolumes", "volumesnapshots", "volumesnapshotcontents"];
            kinds.iter().all(|kind| left(&place, kind, claim).is_empty())
                && ground.get_in(&place.own, "dataupload", claim)["metadata"].get("finalizers").is_none()
        };
        assert!(comes_to_be(is_clean), "{} {}", ground.get_in(&place.own, "dataupload", claim), logs());
        assert_eq!(ground.get_in(&place.shop, "volumesnapshot", claim), Value::Null);
    }
    assert_eq!(place.handles(), [""; 0], "the driver has no snapshot any more");
    place.end();
}

/// Movers that no restricted namespace refuses, as the owner of the files: the namespace of the server is held to that
/// profile once the node agent runs, and no user is configured.
#[test]
#[ignore = "needs a node: make test-node"]
fn movers_without_privilege_save_and_bring_back_what_their_user_owns() {
    let place = Place::start("restricted");
    let ground = &place.ground;
    install(&place, &["--use-node-agent"]);
    ground.create(&json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "node-agent-config", "namespace": place.own},
        "data": {"config": r#"{"movers": {"podSecurity": "restricted"}}"#}}));
    install(&place, &["--use-node-agent", "--node-agent-configmap=node-agent-config", "--apply"]);
    let profile = "pod-security.kubernetes.io/enforce=restricted";
    ground.bed.kubectl(&["label", "--overwrite", "namespace", &place.own, profile]);
    place.claim("data", &json!({}));
    ground.create(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": place.shop},
        "spec": {"terminationGracePeriodSeconds": 0, "securityContext": {"runAsUser": 1000, "fsGroup": 2000},
            "containers": [{"name": "a", "image": "testbed.local/busybox:1", "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", "-c", "sleep 3600"], "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}}));
    place.until_ready(&place.shop, "web");
    let fill = "mkdir -m 700 /data/own && echo precious > /data/own/file && chmod 600 /data/own/file && sync";
    place.ask(&place.shop, "web", fill);
    let held = || place.ask(&place.shop, "web", "cat /data/own/file && stat -c '%u %a' /data/own /data/own/file");
    let before = held();
    assert!(before.starts_with("precious\n1000 ") && before.ends_with("\n1000 600\n"), "{before}");
    let namespace = format!("--include-namespaces={}", place.shop);
    let saved = place.lifeboat(&["backup", "create", "b", &namespace, "--snapshot-move-data", "--wait"]);
    let logs = || ground.bed.kubectl(&["logs", "-n", &place.own, "daemonset/node-agent", "--tail=60"]);
    let facts = ground.get_in(&place.own, "backup", "b");
    assert_eq!((saved.code, &facts["status"]["phase"]), (0, &json!("Completed")), "{saved:?} {facts} {}", logs());
    place.lose(&place.shop);
    let back = place.lifeboat(&["restore", "create", "back", "--from-backup=b", "--wait"]);
    assert_eq!(back.code, 0, "{back:?} {}", logs());
    place.until_ready(&place.shop, "web");
    // The kubelet hands all files of a volume that is new to it to the group of the pod.
    assert_eq!(held(), "precious\n1000 2770\n1000 660\n");
    place.end();
}
