//! Tests that objects which the cluster refuses are named one by one, and everything else is restored.

use crate::faults::{config_maps, namespace};
use crate::ground::Ground;
use crate::support::{Bed, gunzip_json, until_types_are_served};
use lifeboat_testbed::{Fault, Nth, Proxy, Rule, Seen};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn in_shop(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "shop"}})
}

/// Names of objects of a type in the namespace.
fn names(bed: &Bed, kind: &str) -> BTreeSet<String> {
    let out = bed.kubectl(&["get", kind, "--namespace=shop", "--output=jsonpath={.items[*].metadata.name}"]);
    out.split_whitespace().filter(|name| *name != "kube-root-ca.crt").map(str::to_owned).collect()
}

fn set(names: impl IntoIterator<Item = impl Into<String>>) -> BTreeSet<String> {
    names.into_iter().map(Into::into).collect()
}

/// The results for the namespace, sorted.
fn told(results: &Value, severity: &str) -> Vec<String> {
    let found = results[severity]["namespaces"]["shop"].as_array().cloned().unwrap_or_default();
    let mut out: Vec<String> = found.iter().map(|text| text.as_str().expect("a text").to_owned()).collect();
    out.sort();
    out
}

#[test]
fn each_object_that_a_webhook_denies_is_named_and_the_rest_is_restored() {
    let bed = Bed::start();
    let kubectl = bed.plane.kubectl();
    let secrets = ["gold", "iron", "silver"];
    let all = std::iter::once(namespace("shop"))
        .chain(config_maps("shop", 20))
        .chain(secrets.map(|name| in_shop("Secret", name)))
        .chain(["web", "db"].map(|name| in_shop("ServiceAccount", name)));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": all.collect::<Vec<_>>()});
    kubectl.create(&list).expect("objects");
    let saved = bed.local(&["backup", "b", "--include-namespaces", "shop"]);
    assert_eq!(saved.code, 0, "{saved:?}");
    let before = ["configmaps", "serviceaccounts"].map(|kind| names(&bed, kind));
    bed.kubectl(&["delete", "namespace", "shop", "--timeout=180s"]);

    let (proxy, kubeconfig) = Proxy::before_api_server(&bed.plane.kubeconfig(), "denied").expect("a proxy");
    let why = "admission webhook \"guard.example.com\" denied the request: no secrets in the shop";
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": why,
        "reason": "Forbidden", "code": 403});
    let fault = Fault::Answer { status: 403, headers: vec![], body: body.to_string() };
    proxy.script(vec![Rule::new("POST", "/api/v1/namespaces/shop/secrets*", Nth::Every, fault)]);
    let run = bed.local_through(&kubeconfig, &["restore", "r", "--from-backup", "b"]);
    assert_eq!(run.code, 3, "{run:?}");
    let tries = |seen: &Seen| seen.method == "POST" && seen.path.starts_with("/api/v1/namespaces/shop/secrets");
    let tries = proxy.take_seen().iter().filter(|seen| tries(seen)).count();
    assert_eq!(tries, secrets.len(), "a denial is final");
    let results = bed.results("r");
    assert_eq!(told(&results, "errors"), secrets.map(|name| format!("error restoring secrets/shop/{name}: {why}")));
    assert_eq!(told(&results, "warnings"), Vec::<String>::new());
    assert_eq!(["configmaps", "serviceaccounts"].map(|kind| names(&bed, kind)), before);
    assert_eq!(names(&bed, "secrets"), BTreeSet::new());
    let failed: Vec<String> = secrets.iter().map(|name| format!("shop/{name}(failed)")).collect();
    assert_eq!(bed.resource_list("r")["v1/Secret"], failed);

    // Once it lets them in, a restore brings what is missing.
    proxy.script(Vec::new());
    let run = bed.local_through(&kubeconfig, &["restore", "again", "--from-backup", "b"]);
    assert_eq!((run.code, names(&bed, "secrets")), (0, set(secrets)), "{run:?}");
}

/// A definition of Gadgets; two of them under different plurals are in each other's way.
fn gadgets(plural: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural.trim_end_matches('s'), "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

#[test]
fn a_definition_never_established_is_named_and_the_rest_is_restored() {
    let ground = Ground::start();
    ground.create(&namespace("shop"));
    ground.create(&gadgets("gadgets"));
    until_types_are_served(&ground.bed.plane, &[]);
    for name in ["left", "right"] {
        let mut gadget = in_shop("Gadget", name);
        gadget["apiVersion"] = json!("example.com/v1");
        ground.create(&gadget);
    }
    config_maps("shop", 5).for_each(|map| ground.create(&map));
    let files = ground.directory("d", &json!({"default": true}));
    let kubeconfig = ground.bed.plane.kubeconfig();
    let _server = ground.server_with("one", &kubeconfig, &["--resource-timeout=5s"]);
    ground.until("backupstoragelocation", "d", "Available");
    ground.velero("Backup", "b", &json!({"includedNamespaces": ["shop"]}));
    ground.until("backup", "b", "Completed");

    ground.lose("shop");
    ground.bed.kubectl(&["delete", "customresourcedefinition", "gadgets.example.com"]);
    ground.create(&gadgets("gizmos"));
    ground.bed.kubectl(&[
        "wait",
        "--for=condition=Established",
        "customresourcedefinition/gizmos.example.com",
        "--timeout=180s",
    ]);
    ground.velero("Restore", "r", &json!({"backupName": "b"}));
    ground.until("restore", "r", "PartiallyFailed");
    let results = gunzip_json(&files.join("restores/r/restore-r-results.gz"));
    let not_ready = "error verifying the CRD gadgets.example.com is ready to use: it is not established after 5 s";
    assert_eq!(results["errors"]["cluster"], json!([not_ready]));
    let unserved = |name| {
        format!(
            "error restoring gadgets.example.com/shop/{name}: the cluster does not serve gadgets.example.com in example.com/v1"
        )
    };
    assert_eq!(told(&results, "errors"), ["left", "right"].map(unserved));
    assert_eq!(names(&ground.bed, "configmaps"), set((0..5).map(|n| format!("map-{n}"))));
}
