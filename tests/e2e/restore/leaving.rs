//! Tests that a restore waits for objects that are being deleted in the cluster.

use crate::support::{Bed, eventually};
use serde_json::{Value, json};

#[test]
fn an_object_that_is_being_deleted_is_restored_when_it_is_gone() {
    let bed = Bed::start();
    let kubectl = bed.plane.kubectl();
    bed.kubectl(&["create", "namespace", "shop"]);
    let map = |name: &str, finalizers: Value| {
        let metadata = json!({"name": name, "namespace": "shop", "finalizers": finalizers});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}});
        kubectl.create(&object).expect("a ConfigMap");
    };
    map("held", json!(["example.com/first", "example.com/second"]));
    map("plain", json!([]));
    let delete = |name: &str| bed.kubectl(&["delete", "configmap", name, "--namespace=shop", "--wait=false"]);
    let get = |name: &str, path: &str| {
        let path = format!("--output=jsonpath={path}");
        bed.kubectl(&["get", "configmap", name, "--namespace=shop", "--ignore-not-found", &path])
    };
    let scope = ["--include-namespaces", "shop", "--include-resources", "configmaps"];
    let run = bed.local(&[&["backup", "b"], &scope[..]].concat());
    assert_eq!(run.code, 0, "{run:?}");

    delete("held");
    delete("plain");
    let old = get("held", "{.metadata.uid}");
    let run = std::thread::scope(|threads| {
        let restore = threads.spawn(|| bed.local(&["restore", "back", "--from-backup", "b"]));
        // All others are done by then.
        eventually("the other one", || get("plain", "{.data.a}") == "1");
        bed.kubectl(&[
            "patch",
            "configmap",
            "held",
            "-n",
            "shop",
            "--type=merge",
            "-p",
            r#"{"metadata":{"finalizers":null}}"#,
        ]);
        restore.join().expect("the restore")
    });
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(bed.results("back"), json!({"errors": {}, "warnings": {}}));
    let listed = |restore: &str| bed.resource_list(restore).remove("v1/ConfigMap");
    let list = |held: &str, plain: &str| {
        let root = "shop/kube-root-ca.crt(skipped)".to_owned();
        Some(vec![format!("shop/held({held})"), root, format!("shop/plain({plain})")])
    };
    assert_eq!(listed("back"), list("created", "created"));
    assert_ne!(get("held", "{.metadata.uid}"), old);
    assert_eq!(get("held", "{.data.a}{.metadata.deletionTimestamp}"), "1");

    // This time it stays.
    delete("held");
    let args = ["restore", "again", "--from-backup", "b", "--terminating-resource-timeout", "1s"];
    let run = bed.local(&args);
    assert_eq!(run.code, 0, "{run:?}");
    let since = get("held", "{.metadata.deletionTimestamp}");
    let warning = format!(
        "could not restore configmaps/shop/held: the one in the cluster is being deleted since {since}, held by the \
         finalizers example.com/first, example.com/second, and was still there after 1 s; when it is gone, run the \
         restore again"
    );
    assert_eq!(bed.results("again"), json!({"errors": {}, "warnings": {"namespaces": {"shop": [warning]}}}));
    assert_eq!(listed("again"), list("failed", "skipped"));
}
