//! Several clusters on one bucket, each a sandbox.

use crate::support::{Run, Sandbox, gunzip_json, local, program, run};
use lifeboat_lifecycle::passed_over::{NotedNames, PassedOver};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const EMPTY: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: other}}";
const MANIFEST: &str = r#"
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}, data: {a: "1"}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: 'CORP\alice-view'}, rules: []}
"#;

fn on(sandbox: &Sandbox, folder: &Path, args: &[&str]) -> Run {
    local(&sandbox.kubeconfig(), folder, args)
}

#[test]
fn a_restore_with_the_name_of_another_clusters_is_refused_and_leaves_it() {
    let (made, first, second) = (Sandbox::start(MANIFEST), Sandbox::start(EMPTY), Sandbox::start(EMPTY));
    let folder = tempfile::tempdir().expect("a folder");
    let run = on(&made, folder.path(), &["backup", "one"]);
    assert_eq!(run.code, 0, "{run:?}");
    let restore = ["restore", "back", "--from-backup", "one"];
    let run = on(&first, folder.path(), &restore);
    assert_eq!(run.code, 0, "{run:?}");
    let list = folder.path().join("bucket/restores/back/restore-back-resource-list.json.gz");
    let before = std::fs::read(&list).expect("the list");
    // A name with a backslash is a name.
    let roles = &gunzip_json(&list)["rbac.authorization.k8s.io/v1/ClusterRole"];
    assert!(roles.as_array().is_some_and(|all| all.contains(&json!("CORP\\alice-view(created)"))), "{roles}");
    let run = on(&second, folder.path(), &restore);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("the name \"back\" is taken") && run.err.contains("nothing was restored"), "{run:?}");
    assert_eq!(std::fs::read(&list).expect("the list"), before);
    // Nothing of it was taken up from the first cluster.
    let run = on(&second, folder.path(), &["restore", "there", "--from-backup", "one"]);
    assert_eq!(run.code, 0, "{run:?}");
    let list = gunzip_json(&folder.path().join("bucket/restores/there/restore-there-resource-list.json.gz"));
    assert!(list.to_string().contains("shop/settings(created)"), "{list}");
    // The same cluster may use its name again.
    let run = on(&first, folder.path(), &restore);
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn a_restore_from_a_schedule_takes_another_clusters_backup_only_if_told() {
    let (made, other) = (Sandbox::start(MANIFEST), Sandbox::start(EMPTY));
    let folder = tempfile::tempdir().expect("a folder");
    let run = on(&made, folder.path(), &["backup", "nightly-1", "--labels", "velero.io/schedule-name=nightly"]);
    assert_eq!(run.code, 0, "{run:?}");
    let restore = ["restore", "r", "--from-schedule", "nightly"];
    let run = on(&other, folder.path(), &restore);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(
        run.err.contains(
            "--source-cluster any (the annotation lifeboat.io/source-cluster: any of the restore) takes the newest"
        ),
        "{run:?}"
    );
    let run = on(&other, folder.path(), &[&restore[..], &["--source-cluster", "any"]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.err.contains("is nightly-1 of ") && run.err.contains(", made by the cluster "), "{run:?}");
    let run = on(&made, folder.path(), &["restore", "own", "--from-schedule", "nightly"]);
    assert_eq!(run.code, 0, "{run:?}");
}

/// The command that is offered about backups which are not taken over, with these words for those that it has in
/// capitals.
fn offered(passed: &PassedOver, sandbox: &Sandbox, state: &Path, words: [(&str, &str); 3]) -> Run {
    let said = passed.said("lifeboat");
    let line = said[0].next.split('`').nth(1).expect("a command").to_owned();
    let word = |word: &str| words.iter().find(|(name, _)| *name == word).map_or(word, |(_, with)| with).to_owned();
    let mut command = Command::new(program());
    command.args(line.split(' ').skip(1).map(word)).env("KUBECONFIG", sandbox.kubeconfig());
    run(command.env("XDG_STATE_HOME", state))
}

/// The sentences of `status`, the location and an event about them.
#[test]
fn the_command_offered_for_a_backup_that_is_not_taken_over_restores_it() {
    let (made, other) = (Sandbox::start(MANIFEST), Sandbox::start(EMPTY));
    let folder = tempfile::tempdir().expect("a folder");
    let backup = on(&made, folder.path(), &["backup", "one"]);
    assert_eq!(backup.code, 0, "{backup:?}");
    let bucket = folder.path().join("bucket");
    let url = bucket.display().to_string();
    let state = folder.path().join("state");
    let named = || NotedNames::of(vec!["one".to_owned()]);
    // Another backup of the name lies in another location.
    let same_name = PassedOver { same_name: named(), ..PassedOver::default() };
    let words = |name| [("NAME", name), ("URL", &*url), ("BACKUP", "one")];
    let back = offered(&same_name, &other, &state, words("same-name"));
    assert_eq!(back.code, 0, "{back:?}");

    // Its operations have not ended, and its cluster is lost.
    let path = bucket.join("backups/one/velero-backup.json");
    let mut record: Value = serde_json::from_slice(&std::fs::read(&path).expect("the record")).expect("JSON");
    record["status"]["phase"] = json!("WaitingForPluginOperations");
    std::fs::write(&path, record.to_string()).expect("a record");
    let empty = Sandbox::start(EMPTY);
    let waiting = PassedOver { waiting: named(), ..PassedOver::default() };
    let back = offered(&waiting, &empty, &state, words("waiting"));
    assert_eq!(back.code, 0, "{back:?}");
    assert!(back.err.contains("the backup one never came to its end (phase WaitingForPluginOperations)"), "{back:?}");
    let list = gunzip_json(&bucket.join("restores/waiting/restore-waiting-resource-list.json.gz"));
    assert!(list.to_string().contains("shop/settings(created)"), "{list}");
    // The others that read it as it is.
    let preview = on(&empty, folder.path(), &["restore", "shown", "--from-backup", "one", "--dry-run"]);
    assert!(preview.code == 0 && preview.err.contains("never came to its end"), "{preview:?}");
    let mut undelete = Command::new(program());
    undelete.args([
        "undelete",
        "configmap/settings",
        "--object-namespace",
        "shop",
        "--from",
        "one",
        "--bucket",
        &url,
        "--dry-run",
    ]);
    let undelete = run(undelete.env("KUBECONFIG", empty.kubeconfig()).env("XDG_STATE_HOME", &state));
    assert!(undelete.code == 0 && undelete.err.contains("never came to its end"), "{undelete:?}");
}
