//! A control plane that serves one test after the other.

use lifeboat_testbed::{ControlPlane, Kubectl};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Everything that an API server lists, by path, without what changes by itself.
fn listed(kubectl: &Kubectl) -> Vec<String> {
    let types =
        ["namespaces", "secrets", "configmaps", "serviceaccounts", "services", "clusterroles", "crds", "ipaddresses"];
    let args = ["get", &types.join(","), "--all-namespaces", "--output=json"];
    let all: Value = serde_json::from_str(&kubectl.try_run(&args).expect("the objects")).expect("JSON");
    let mut out: Vec<String> = all["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|object| {
            let (metadata, rules) = (&object["metadata"], &object["rules"]);
            format!("{} {} {} {rules}", object["kind"], metadata["namespace"], metadata["name"])
        })
        .collect();
    out.sort();
    out
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "{what} did not come to be within a minute");
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

fn create(kubectl: &Kubectl, object: &Value) {
    let file = tempfile::Builder::new().suffix(".json").tempfile().expect("a file");
    std::fs::write(file.path(), object.to_string()).expect("write");
    kubectl.try_run(&["create", "--filename", &file.path().display().to_string()]).expect("it is made");
}

#[test]
fn a_control_plane_is_as_new_after_it_was_put_back() {
    let mut plane = ControlPlane::start_for_many().expect("a control plane");
    let new = listed(&plane.kubectl());
    for round in 0..3 {
        let kubectl = plane.kubectl();
        kubectl.try_run(&["create", "namespace", "shop"]).expect("a namespace");
        until("the account", || kubectl.try_run(&["get", "serviceaccount", "default", "--namespace", "shop"]).is_ok());
        create(
            &kubectl,
            &json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "teas.snapshot.storage.k8s.io", "annotations": {"api-approved.kubernetes.io": "unapproved"}},
            "spec": {"group": "snapshot.storage.k8s.io", "scope": "Namespaced", "names": {"plural": "teas", "kind": "Tea"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                    {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}),
        );
        let tea = json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "Tea",
            "metadata": {"name": "oolong", "namespace": "shop", "finalizers": ["tea.example/never"]}});
        until("the type", || kubectl.try_run(&["get", "teas", "--namespace", "shop"]).is_ok());
        create(&kubectl, &tea);
        create(
            &kubectl,
            &json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "till", "namespace": "shop"},
            "spec": {"ports": [{"port": 80}], "clusterIP": "10.96.7.7"}}),
        );
        kubectl.try_run(&["delete", "clusterrole", "view"]).expect("it is deleted");
        kubectl.try_run(&["label", "namespace", "default", &format!("round=r{round}")]).expect("a label");
        assert_ne!(listed(&kubectl), new, "round {round}");
        plane.put_back().expect("it is put back");
        assert_eq!(listed(&plane.kubectl()), new, "round {round}");
    }
}
