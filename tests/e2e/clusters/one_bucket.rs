//! Several clusters on one bucket, each a sandbox.

use crate::support::{Run, Sandbox, gunzip_json, local};
use serde_json::json;
use std::path::Path;

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
