//! Volumes that are moved as block devices.

use super::movers::install;
use super::place::Place;
use crate::support::comes_to_be;
use serde_json::json;

/// A block device is moved out of its snapshot in blocks, and everything is lost.
#[test]
#[ignore = "needs a node: make test-node"]
fn a_device_is_moved_by_velero_block_and_comes_back() {
    let place = Place::start("blocks");
    install(&place, &["--use-node-agent", "--least-privilege"]);
    let ground = &place.ground;
    ground.create(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "disk", "namespace": place.shop},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "csi", "volumeMode": "Block",
            "resources": {"requests": {"storage": "16Mi"}}}}));
    ground.create(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": place.shop},
        "spec": {"terminationGracePeriodSeconds": 0,
            "containers": [{"name": "a", "image": "testbed.local/busybox:1", "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", "-c", "sleep 3600"],
                "volumeDevices": [{"name": "disk", "devicePath": "/dev/disk"}]}],
            "volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]}}));
    place.until_ready(&place.shop, "web");
    let fill = "head -c 2000000 /dev/urandom | dd of=/dev/disk bs=4096 seek=3 conv=notrunc,fsync && sync";
    place.ask(&place.shop, "web", fill);
    let device = || place.ask(&place.shop, "web", "sha256sum < /dev/disk");
    let before = device();

    let namespace = format!("--include-namespaces={}", place.shop);
    let flags = ["--snapshot-move-data", "--data-mover=velero-block", "--wait"];
    let saved = place.lifeboat(&[&["backup", "create", "b", &namespace], &flags[..]].concat());
    let facts = ground.get_in(&place.own, "backup", "b");
    let uploads = || ground.bed.kubectl(&["get", "datauploads", "-n", &place.own, "-o", "json"]);
    assert_eq!((saved.code, &facts["status"]["phase"]), (0, &json!("Completed")), "{saved:?} {facts} {}", uploads());
    let uploads: serde_json::Value = serde_json::from_str(&uploads()).expect("JSON");
    let upload = &uploads["items"][0];
    let facts = (&upload["spec"]["datamover"], &upload["status"]["progress"]["totalBytes"]);
    assert_eq!(facts, (&json!("velero-block"), &json!(16 << 20)), "{upload}");

    place.lose(&place.shop);
    let back = place.lifeboat(&["restore", "create", "r", "--from-backup", "b", "--wait"]);
    let facts = ground.get_in(&place.own, "restore", "r");
    assert_eq!((back.code, &facts["status"]["phase"]), (0, &json!("Completed")), "{back:?} {facts}");
    place.until_ready(&place.shop, "web");
    assert_eq!(device(), before);
    let left = || ground.bed.kubectl(&["get", "pods,persistentvolumeclaims", "-n", &place.own, "-o", "name"]);
    assert!(comes_to_be(|| !left().contains("/b-") && !left().contains("/r-")), "{}", left());
    place.end();
}
