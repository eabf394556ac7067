//! A backup of files that Velero made comes back in a cluster that never saw Velero, by our server and node agent.
//!
//! The fixture has the small files of one volume whole. The packs of the other volume's large files are left out of it:
//! this volume fails, and its pod does not begin.

use super::movers::install;
use super::place::{Place, REPOSITORY_SECRET};
use super::transfer_kills::{last_words, left};
use crate::support::{comes_to_be, eventually};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Unpacks the bucket into the place of the location of an installation, with a backup that does not expire.
fn unpack(place: &Place) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/testbed/fixtures/repository/bucket.tar.gz");
    let bucket = place.ground.s3.file("server", "installed");
    std::fs::create_dir_all(&bucket).expect("a folder");
    let unpacked = Command::new("tar").arg("-xzf").arg(fixture).arg("-C").arg(&bucket).status().expect("tar");
    assert!(unpacked.success(), "{unpacked}");
    let record = bucket.join("backups/fs2/velero-backup.json");
    let mut backup: Value = serde_json::from_slice(&std::fs::read(&record).expect("a record")).expect("JSON");
    backup["status"]["expiration"] = json!("2099-01-01T00:00:00Z");
    std::fs::write(record, backup.to_string()).expect("write");
    // It has no other part in this.
    std::fs::remove_dir_all(bucket.join("backups/dm1")).expect("a backup");
}

/// The folder of a volume of the restored pod on the node.
fn folder(pod: &Value, volume: &str) -> PathBuf {
    let uid = pod["metadata"]["uid"].as_str().expect("a UID");
    Path::new("/var/lib/kubelet/pods").join(uid).join("volumes/kubernetes.io~empty-dir").join(volume)
}

#[test]
#[ignore = "needs a node: make test-node"]
fn files_that_velero_saved_come_back_where_velero_never_was() {
    let place = Place::start("golden-files");
    let ground = &place.ground;
    unpack(&place);
    ground.create(&json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "classes", "namespace": place.own,
            "labels": {"velero.io/plugin-config": "", "velero.io/change-storage-class": "RestoreItemAction"}},
        "data": {"csi-testcsi": "csi"}}));
    install(&place, &["--use-node-agent"]);
    eventually("the backup out of the bucket", || {
        ground.get_in(&place.own, "backup", "fs2")["status"]["phase"] == "Completed"
    });
    let mapping = format!("--namespace-mappings=vol:{}", place.shop);
    let which = ["--include-resources=pods,persistentvolumeclaims,configmaps", "--selector=app!=blk", "--wait"];
    place.lifeboat(&[&["restore", "create", "r", "--from-backup=fs2", &mapping], &which[..]].concat());
    let restore = ground.get_in(&place.own, "restore", "r");
    assert_eq!(restore["status"]["phase"], "PartiallyFailed", "{restore} {}", last_words(&place));

    let all = ground.bed.plane.client().list("podvolumerestores.velero.io", Some(&place.own));
    let all = all.unwrap_or_else(|e| panic!("{e:#}"));
    let of = |one: &Value| (one["spec"]["volume"].to_string(), one["status"]["phase"].clone());
    let phases: BTreeMap<String, Value> = all.iter().map(of).collect();
    let expected = [(r#""data""#, "Failed"), (r#""scratch""#, "Completed")];
    let expected = expected.map(|(volume, phase)| (volume.to_owned(), json!(phase)));
    assert_eq!(phases, BTreeMap::from(expected), "{all:?}");
    let pod = ground.get_in(&place.shop, "pod", "web-0");
    let scratch = folder(&pod, "scratch");
    // As Velero's own record of the volume has them.
    for (path, mode, time, hash) in [
        ("e1", 0o644, 1_795_253_453_549_562_562, "c896fe114f7d33783275365da8c56d298dcd256a8d17378fcded25f5be10bdc0"),
        ("zero", 0o644, 1_795_253_402_876_026_294, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("d/e2", 0o644, 1_795_253_402_876_026_294, "fc3edd6c9fea6af8e8cc61940325f78ba8e25ebcdd2ea422e0c1d73958fe13c2"),
    ] {
        let file = scratch.join(path);
        let (bytes, metadata) = (std::fs::read(&file).expect(path), file.metadata().expect(path));
        let modified = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        let owner = (metadata.uid(), metadata.gid());
        let is = (metadata.permissions().mode() & 0o7777, modified, owner, hex::encode(Sha256::digest(&bytes)));
        assert_eq!(is, (mode, time, (0, 0), hash.to_owned()), "{path}");
    }
    // Nothing begins with half of its data.
    let status = &pod["status"];
    assert_eq!(
        (&status["phase"], &status["initContainerStatuses"][0]["name"]),
        (&json!("Pending"), &json!("restore-wait"))
    );
    let secret = ground.get_in(&place.own, "secret", REPOSITORY_SECRET);
    let password = STANDARD.decode(secret["data"]["repository-password"].as_str().unwrap_or_default()).expect("base64");
    assert_eq!(password, b"static-passw0rd", "the password of Velero opens what is there");
    assert!(comes_to_be(|| left(&place).is_empty()), "{:?}", left(&place));
    place.end();
}
