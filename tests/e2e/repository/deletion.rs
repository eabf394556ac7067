//! Deletion of a backup whose volumes have snapshots in a repository of the location.

use crate::ground::Ground;
use crate::support::{program, run};
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::sidecar;
use lifeboat_bucket::Directory;
use lifeboat_store::Store;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const PASSWORD: &str = "deleted-passw0rd";

/// The output of `lifeboat repo ARGS` on the repository of the namespace `shop` in this bucket.
fn repo(bucket: &Path, password: &Path, args: &[&str]) -> Value {
    let mut command = Command::new(program());
    command.arg("repo").args(args).arg("--repo").arg(bucket.join("kopia/shop"));
    command.arg("--password-file").arg(password).env("KUBECONFIG", "/none");
    let run = run(&mut command);
    assert_eq!(run.code, 0, "{args:?}: {run:?}");
    serde_json::from_str(&run.out).unwrap_or_default()
}

fn secret(ground: &Ground, password: &str) {
    let data = json!({"stringData": {"repository-password": password}}).to_string();
    let line = ["patch", "secret", "velero-repo-credentials", "--namespace=velero", "--type=merge", "-p", &data];
    ground.bed.kubectl(&line);
}

/// scenario: Backups, Deletion, FSBackup
#[test]
fn a_deleted_backup_takes_its_snapshots_in_repositories_along() {
    let ground = Ground::start();
    let bucket = ground.directory("main", &json!({}));
    ground.create(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "velero-repo-credentials", "namespace": "velero"},
        "stringData": {"repository-password": "another"}}));
    let _server = ground.server("one");
    ground.until("backupstoragelocation", "main", "Available");
    ground.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    ground.velero("Backup", "b", &json!({"storageLocation": "main", "includedNamespaces": ["shop"]}));
    ground.until("backup", "b", "Completed");

    // What a node agent saves.
    let (password, volume) = (ground.directories.path().join("password"), ground.directories.path().join("volume"));
    std::fs::write(&password, PASSWORD).expect("write");
    std::fs::create_dir(&volume).expect("a folder");
    std::fs::write(volume.join("file"), "data").expect("write");
    std::fs::create_dir_all(bucket.join("kopia/shop")).expect("a folder");
    repo(&bucket, &password, &["create"]);
    let tree = volume.display().to_string();
    let ids = ["of the backup", "of somebody else"]
        .map(|_| repo(&bucket, &password, &["snapshot", &tree, "-o", "json"])["id"].take());
    let pod_volumes = json!([{"spec": {"pod": {"namespace": "shop", "name": "db"}, "volume": "data", "uploaderType": "kopia"},
        "status": {"phase": "Completed", "snapshotID": ids[0]}}]);
    let store = Store::new(Arc::new(Directory::open(&bucket).expect("the folder")));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let bytes = sidecar::encode(&pod_volumes).expect("bytes");
    runtime.block_on(store.replace_file("b", BackupFile::PodVolumeBackups, bytes)).expect("the file");

    // A repository that does not open keeps the backup, and says why.
    ground.velero("DeleteBackupRequest", "first", &json!({"backupName": "b"}));
    let failed = ground.until("deletebackuprequest", "first", "Processed");
    let why = failed["status"]["errors"].to_string();
    assert!(
        why.contains(
            "error deleting 1 snapshot of backup b in the repository of namespace shop: the password does not open"
        ) && why.contains("the Secret velero-repo-credentials"),
        "{why}"
    );
    assert_eq!(repo(&bucket, &password, &["snapshots", "-o", "json"]).as_array().map(Vec::len), Some(2));

    secret(&ground, PASSWORD);
    ground.velero("DeleteBackupRequest", "second", &json!({"backupName": "b"}));
    ground.until_gone("deletebackuprequest", "second");
    ground.until_gone("backup", "b");
    let left = repo(&bucket, &password, &["snapshots", "-o", "json"]);
    let left: Vec<&Value> = left.as_array().into_iter().flatten().map(|one| &one["id"]).collect();
    assert_eq!(left, [&ids[1]]);
    let lists = std::fs::read_dir(bucket.join("metadata/lifeboat-repository-snapshots"));
    assert_eq!(lists.map(Iterator::count).unwrap_or_default(), 0, "a list is left");
}
