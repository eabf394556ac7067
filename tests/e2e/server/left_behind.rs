//! Work in progress that another server, or Velero, has left.

use crate::ground::{Ground, copy};
use crate::support::{eventually, gunzip_json};
use serde_json::{Value, json};
use std::path::Path;

/// Phases in which a server of Velero left its work.
#[test]
fn what_velero_was_at_comes_to_its_end() {
    let ground = Ground::start();
    let bucket = ground.directory("default", &json!({"default": true, "backupSyncPeriod": "1s"}));
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/testbed/fixtures/velero/backups/one-ns");
    let gzip = |value: &Value| lifeboat_archive::sidecar::encode(value).expect("a file");
    let operation = |phase: &str, created: &str| {
        json!({"spec": {"backupItemAction": "example.com/x", "operationID": "1"},
            "status": {"phase": phase, "created": created}})
    };
    let left = |name: &str, phase: &str, operations: &Value| {
        copy(&golden, &bucket.join("backups").join(name));
        for file in std::fs::read_dir(bucket.join("backups").join(name)).expect("files") {
            let path = file.expect("a file").path();
            let renamed = path.file_name().expect("a name").to_string_lossy().replace("one-ns", name);
            std::fs::rename(&path, path.with_file_name(renamed)).expect("rename");
        }
        let record = bucket.join(format!("backups/{name}/velero-backup.json"));
        let mut backup: Value = serde_json::from_slice(&std::fs::read(&record).expect("a record")).expect("JSON");
        backup["metadata"] =
            json!({"name": name, "namespace": "velero", "labels": {"velero.io/storage-location": "default"}});
        backup["status"]["phase"] = json!(phase);
        backup["status"]["completionTimestamp"] = Value::Null;
        std::fs::write(&record, backup.to_string()).expect("write");
        std::fs::write(bucket.join(format!("backups/{name}/{name}-itemoperations.json.gz")), gzip(operations))
            .expect("write");
        backup["status"].as_object_mut().expect("a status").remove("completionTimestamp");
        ground.create(&backup);
    };
    let long_ago = "2026-01-01T00:00:00Z";
    left("good", "WaitingForPluginOperations", &json!([operation("Completed", long_ago)]));
    left(
        "stranger",
        "WaitingForPluginOperations",
        &json!([operation("Completed", long_ago), operation("New", "2100-01-01T00:00:00Z")]),
    );
    left("failed", "WaitingForPluginOperationsPartiallyFailed", &json!([operation("Failed", long_ago)]));
    left("finalizing", "FinalizingPartiallyFailed", &json!([]));
    left("running", "InProgress", &json!([]));
    let uid = ground.get("backup", "running")["metadata"]["uid"].as_str().expect("a UID").to_owned();
    ground.create(&json!({"apiVersion": "velero.io/v2alpha1", "kind": "DataUpload",
        "metadata": {"name": "upload", "namespace": "velero", "labels": {"velero.io/backup-uid": uid}},
        "spec": {"snapshotType": "CSI", "sourcePVC": "p", "backupStorageLocation": "default", "sourceNamespace": "n",
            "operationTimeout": "10m"}, "status": {"phase": "InProgress"}}));
    // Found in the bucket, with volumes.
    copy(&golden, &bucket.join("backups/one-ns"));
    let volume = json!({"kind": "PodVolumeBackup", "apiVersion": "velero.io/v1",
        "metadata": {"name": "one-ns-x", "namespace": "other", "uid": "1", "resourceVersion": "7",
            "labels": {"velero.io/backup-name": "one-ns", "velero.io/backup-uid": "old"},
            "ownerReferences": [{"apiVersion": "velero.io/v1", "kind": "Backup", "name": "one-ns", "uid": "old"}]},
        "spec": {"node": "n", "pod": {"kind": "Pod", "name": "p"}, "volume": "v", "backupStorageLocation": "there",
            "repoIdentifier": "r"},
        "status": {"phase": "Completed", "snapshotID": "s", "progress": {}}});
    std::fs::write(bucket.join("backups/one-ns/one-ns-podvolumebackups.json.gz"), gzip(&json!([volume])))
        .expect("write");

    what_servers_left(&ground);
    let server = ground.server("one");
    let completed = |name: &str, phase: &str| {
        let ended = ground.until("backup", name, phase);
        assert!(ended["status"]["completionTimestamp"].is_string(), "{ended}");
        let record = std::fs::read(bucket.join(format!("backups/{name}/velero-backup.json"))).expect("a record");
        let record: Value = serde_json::from_slice(&record).expect("JSON");
        assert_eq!(record["status"], ended["status"], "{name}");
        ended
    };
    assert_eq!(completed("good", "Completed")["status"]["backupItemOperationsCompleted"], 1);
    let stranger = completed("stranger", "PartiallyFailed");
    assert_eq!(
        (&stranger["status"]["backupItemOperationsFailed"], &stranger["status"]["errors"]),
        (&json!(1), &json!(1))
    );
    let operations = gunzip_json(&bucket.join("backups/stranger/stranger-itemoperations.json.gz"));
    let why = "this server has no action example.com/x, which alone knows how far it is, plugin: example.com/x";
    assert_eq!(operations[1]["status"]["error"], why);
    let results = gunzip_json(&bucket.join("backups/stranger/stranger-results.gz"));
    assert!(results["errors"].to_string().contains(why), "{results}");
    assert_eq!(completed("failed", "PartiallyFailed")["status"]["backupItemOperationsFailed"], 1);
    completed("finalizing", "PartiallyFailed");
    let running = ground.until("backup", "running", "Failed");
    let reason = "found a backup with status \"InProgress\" during the server starting, mark it as \"Failed\"";
    assert_eq!(running["status"]["failureReason"], reason);
    let upload = ground.get("dataupload", "upload");
    assert_eq!(upload["spec"]["cancel"], true);
    let why = "Dataupload is in status \"InProgress\" during the velero server starting, mark it as cancel";
    assert_eq!(upload["status"]["message"], why);

    let backup = ground.until("backup", "one-ns", "Completed");
    let mut volume = Value::Null;
    eventually("its volume", || {
        volume = ground.get("podvolumebackup", "one-ns-x");
        !volume.is_null()
    });
    let uid = &backup["metadata"]["uid"];
    assert_eq!(&volume["metadata"]["ownerReferences"][0]["uid"], uid);
    assert_eq!(&volume["metadata"]["labels"]["velero.io/backup-uid"], uid);
    assert_eq!(volume["spec"]["backupStorageLocation"], "default");
    assert_eq!(volume["status"]["snapshotID"], "s");

    what_servers_left_ends(&ground, &bucket);

    // The old way with what is in progress.
    assert_eq!(server.stop(), Some(0));
    ground.create(&object("Backup", "ours", &json!({}), "InProgress", "1"));
    ground.create(&object("Restore", "ours", &json!({"backupName": "one-ns"}), "InProgress", "1"));
    let _old = ground.server_with("two", &ground.bed.plane.kubeconfig(), &["--fail-in-progress-on-restart"]);
    for (kind, word) in [("backup", "backup"), ("restore", "restore")] {
        let failed = ground.until(kind, "ours", "Failed");
        let reason =
            format!("found a {word} with status \"InProgress\" during the server starting, mark it as \"Failed\"");
        assert_eq!(failed["status"]["failureReason"], reason);
    }
}

/// A Backup or Restore as a server left it; `attempt` is empty for one of Velero's.
pub(super) fn object(kind: &str, name: &str, spec: &Value, phase: &str, attempt: &str) -> Value {
    let mut spec = spec.clone();
    if kind == "Backup" && spec.get("storageLocation").is_none() {
        spec["storageLocation"] = json!("default");
    }
    let mut object = json!({"apiVersion": "velero.io/v1", "kind": kind,
        "metadata": {"name": name, "namespace": "velero"}, "spec": spec, "status": {"phase": phase}});
    if phase != "ReadyToStart" {
        object["status"]["startTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    if !attempt.is_empty() {
        object["metadata"]["annotations"] = json!({"lifeboat.io/attempt": attempt});
    }
    object
}

/// Phases in which a server was cut off, each of which another one finds at its start.
fn what_servers_left(ground: &Ground) {
    let namespace = json!({"includedNamespaces": ["velero"], "includedResources": ["configmaps"]});
    let elsewhere = json!({"storageLocation": "gone"});
    for (name, spec, phase, attempt) in [
        ("ready", &namespace, "ReadyToStart", ""),
        ("again", &namespace, "InProgress", "1"),
        ("thrice", &namespace, "InProgress", "3"),
        ("again-elsewhere", &elsewhere, "InProgress", "1"),
        ("waiting-elsewhere", &elsewhere, "WaitingForPluginOperations", ""),
        ("finalizing-elsewhere", &elsewhere, "Finalizing", ""),
    ] {
        ground.create(&object("Backup", name, spec, phase, attempt));
    }
    let (good, gone) = (json!({"backupName": "one-ns"}), json!({"backupName": "gone"}));
    for (name, spec, phase, attempt) in [
        ("veleros", &good, "InProgress", ""),
        ("again-without-backup", &gone, "InProgress", "2"),
        ("waiting-without-backup", &gone, "WaitingForPluginOperations", ""),
        ("finalizing-without-backup", &gone, "Finalizing", ""),
    ] {
        ground.create(&object("Restore", name, spec, phase, attempt));
    }
}

fn what_servers_left_ends(ground: &Ground, bucket: &Path) {
    ground.until("backup", "ready", "Completed");
    assert_eq!(ground.until("backup", "again", "Completed")["status"]["attempt"], 2);
    let thrice = ground.until("backup", "thrice", "Failed");
    let reason = "the server was cut off 3 times while this backup was in progress";
    assert_eq!(thrice["status"]["failureReason"], reason);
    for file in ["velero-backup.json", "thrice-logs.gz", "thrice-results.gz"] {
        assert!(bucket.join("backups/thrice").join(file).exists(), "{file}");
    }
    let failed = ground.until("backup", "again-elsewhere", "Failed");
    assert!(failed["status"]["failureReason"].as_str().unwrap_or_default().contains("gone was not found"), "{failed}");
    for name in ["waiting-elsewhere", "finalizing-elsewhere"] {
        let ended = ground.until("backup", name, "PartiallyFailed");
        assert!(ended["status"]["completionTimestamp"].is_string(), "{ended}");
    }
    let veleros = ground.until("restore", "veleros", "Failed");
    let reason = "found a restore with status \"InProgress\" during the server starting, mark it as \"Failed\"";
    assert_eq!(veleros["status"]["failureReason"], reason);
    let missing = "Error retrieving backup: can't find backup velero/gone: backups.velero.io \"gone\" not found";
    let again = ground.until("restore", "again-without-backup", "Failed");
    assert_eq!(again["status"]["failureReason"], missing);
    for name in ["waiting-without-backup", "finalizing-without-backup"] {
        ground.until("restore", name, "PartiallyFailed");
    }
    // A deletion that was cut off goes on; one that is for another backup of the name takes none.
    let request = |name: &str, uid: &str| {
        json!({"apiVersion": "velero.io/v1", "kind": "DeleteBackupRequest",
            "metadata": {"name": name, "namespace": "velero", "labels": {"velero.io/backup-uid": uid}},
            "spec": {"backupName": "again"}, "status": {"phase": "InProgress"}})
    };
    ground.create(&request("stale", "another"));
    ground.until_gone("deletebackuprequest", "stale");
    let again = ground.get("backup", "again");
    assert_eq!(again["status"]["phase"], "Completed");
    ground.create(&request("cut-off", again["metadata"]["uid"].as_str().expect("a UID")));
    ground.until_gone("backup", "again");
    ground.until_gone("deletebackuprequest", "cut-off");
    assert!(!bucket.join("backups/again/velero-backup.json").exists());
}
