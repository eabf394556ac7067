//! `lifeboat debug`: one file for who helps.

use crate::ground::Ground;
use crate::support::{Run, program, run};
use lifeboat_archive::gzip::capped;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;

fn lifeboat(ground: &Ground, folder: &Path, line: &str) -> Run {
    let mut command = Command::new(program());
    command.args(line.split(' ')).current_dir(folder);
    run(command.env("KUBECONFIG", ground.bed.plane.kubeconfig()).env("TZ", "UTC"))
}

/// The files of a bundle.
fn unpacked(bundle: &Path) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(capped(File::open(bundle).expect("the bundle"), 64 << 20));
    let mut found = BTreeMap::new();
    for entry in archive.entries().expect("entries") {
        let mut entry = entry.expect("an entry");
        let name = entry.path().expect("a path").display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("text");
        found.insert(name, text);
    }
    found
}

#[test]
fn a_bundle_holds_what_somebody_who_helps_needs_and_no_secrets() {
    let ground = Ground::start();
    let folder = tempfile::tempdir().expect("a folder");
    ground.many("shop", 3);
    ground.directory("main", &json!({"default": true, "credential": {"name": "cloud", "key": "cloud"}}));
    let run = lifeboat(&ground, folder.path(), "debug");
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("no server is installed in namespace velero"), "{}", run.err);

    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "velero", "namespace": "velero", "labels": {"component": "velero"}},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "velero", "image": "none", "args": ["server", "--password=geheim"]}]}}}});
    ground.create(&deployment);
    let run = lifeboat(&ground, folder.path(), "debug --backup none");
    assert_eq!((run.code, run.err.contains("backups.velero.io \"none\" not found")), (1, true), "{run:?}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0);

    let _server = ground.server("one");
    ground.until("backupstoragelocation", "main", "Available");
    let hook = json!({"resources": [{"name": "h", "pre": [{"exec": {"command": ["psql", "-pgeheim"]}}]}]});
    ground.velero("Backup", "b", &json!({"includedNamespaces": ["shop"], "hooks": hook}));
    ground.until("backup", "b", "Completed");
    ground.velero("Restore", "r", &json!({"backupName": "b"}));
    ground.until("restore", "r", "Completed");
    let run = lifeboat(&ground, folder.path(), "debug --backup b --restore r --output x.tar.gz");
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
    let path = folder.path().join("x.tar.gz");
    let path = path.canonicalize().expect("the bundle");
    let expected = [
        "Collecting velero resources in namespace: velero",
        "Collecting velero deployment logs in namespace: velero",
        "Collecting log for backup: b",
        "Collecting log for restore: r",
        &format!("Generated debug information bundle: {}", path.display()),
    ];
    assert_eq!(run.out.lines().collect::<Vec<_>>(), expected);

    let files = unpacked(&path);
    for name in ["version.txt", "backup_describe_b.txt", "backup_b.log", "restore_describe_r.txt", "restore_r.log"] {
        assert!(files.get(&format!("velero-bundle/{name}")).is_some_and(|text| !text.is_empty()), "{name}: {files:?}");
    }
    assert!(files["velero-bundle/version.txt"].contains("Server:\n\tVersion: v"), "{files:?}");
    let objects = |name: &str| {
        let text = &files[&format!("velero-bundle/kubecapture/{name}.json")];
        serde_json::from_str::<Value>(text).expect("JSON")["items"].clone()
    };
    let backups = objects("velero.io_v1/velero/backups");
    assert_eq!((&backups[0]["metadata"]["name"], &backups[0]["kind"]), (&json!("b"), &json!("Backup")));
    assert_eq!(objects("apps_v1/velero/deployments")[0]["metadata"]["name"], "velero");
    assert!(!files.keys().any(|name| name.contains("secret") || name.ends_with("missing.txt")), "{:?}", files.keys());
    assert!(!files.values().any(|text| text.contains("geheim")), "{files:?}");
}

#[test]
fn a_bug_is_reported_with_the_versions() {
    let ground = Ground::start();
    let folder = tempfile::tempdir().expect("a folder");
    let run = lifeboat(&ground, folder.path(), "bug");
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.out.contains(&format!("v{}, commit ", env!("CARGO_PKG_VERSION"))), "{}", run.out);
}
