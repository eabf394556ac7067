//! The effect of the label `velero.io/exclude-from-backup=true`.

use crate::support::{Sandbox, program, run};
use serde_json::{Value, json};
use std::process::Command;

const MANIFEST: &str = r#"
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: private, labels: {velero.io/exclude-from-backup: "true"}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: public, namespace: shop}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: secret, namespace: private}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, provisioner: example.com/fast}
"#;

#[test]
fn a_labelled_namespace_stays_out_and_stands_in_the_record() {
    let sandbox = Sandbox::start(MANIFEST);
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(program());
    command.args(["local", "backup", "one", "-o", "json", "--bucket"]);
    command.arg(folder.path().join("bucket"));
    command.env("KUBECONFIG", sandbox.kubeconfig()).env("XDG_STATE_HOME", folder.path().join("state"));
    let run = run(&mut command);
    assert_eq!(run.code, 0, "{run:?}");
    let backup: Value = serde_json::from_str(&run.out).expect("JSON");
    assert_eq!(backup["spec"]["excludedNamespaces"], json!(["private"]));
    let list = folder.path().join("bucket/backups/one/one-resource-list.json.gz");
    let list = crate::support::gunzip_json(&list);
    let names = |kind: &str| list[kind].as_array().cloned().unwrap_or_default();
    assert!(names("v1/ConfigMap").contains(&json!("shop/public")), "{list}");
    assert!(!list.to_string().contains("private"), "{list}");
    // Such a namespace does not switch off cluster-scoped types, as it does in Velero.
    assert_eq!(names("storage.k8s.io/v1/StorageClass"), [json!("fast")]);
}
