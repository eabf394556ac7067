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
