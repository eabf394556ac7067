//! Restored objects get their owners back.

use crate::support::{Bed, ended, eventually, program};
use lifeboat_testbed::{Fault, Kill, Nth, Proxy, Rule};
use serde_json::{Value, json};
use std::process::Command;

fn own(name: &str) -> Value {
    json!({"name": name, "namespace": "shop"})
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": own(name), "data": {"a": "1"}})
}

fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}})
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": own(name)})
}

fn pods() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}})
}

fn deployment() -> Value {
    let mut pods = pods();
    pods["spec"]["restartPolicy"] = "Always".into();
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": own("web"),
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": pods}})
}

fn cron_job() -> Value {
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": own("tick"),
        "spec": {"schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": {"spec": {"template": pods()}}}})
}

fn job() -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": own("once"), "spec": {"suspend": true, "template": pods()}})
}

fn create(bed: &Bed, object: &Value) {
    bed.plane.kubectl().create(object).unwrap_or_else(|e| panic!("{e:#}"));
}

fn get(bed: &Bed, space: &str, object: &str) -> Value {
    let text = bed.kubectl(&["get", object, "-n", space, "--ignore-not-found", "--output=json"]);
    serde_json::from_str(&text).unwrap_or_default()
}

/// A reference to an object of the cluster, as its controller.
fn reference(bed: &Bed, space: &str, owner: &str) -> Value {
    let owner = get(bed, space, owner);
    json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true})
}

fn give(bed: &Bed, object: &str, owner: &str) {
    let patch = json!({"metadata": {"ownerReferences": [reference(bed, "shop", owner)]}}).to_string();
    bed.kubectl(&["patch", object, "-n", "shop", "--type=merge", "-p", &patch]);
}

fn owners(bed: &Bed, space: &str, object: &str) -> Value {
    get(bed, space, object)["metadata"]["ownerReferences"].clone()
}

/// A cluster with the namespace.
fn bed() -> Bed {
    let bed = Bed::start();
    create(&bed, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    bed
}

#[test]
fn what_is_restored_goes_with_its_owner_again() {
    let bed = bed();
    create(&bed, &definition());
    eventually("widgets", || bed.plane.kubectl().create(&widget("big")).is_ok());
    let mut unsaved = widget("unsaved");
    unsaved["metadata"]["labels"] = json!({"velero.io/exclude-from-backup": "true"});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "keeper"}, "rules": []});
    for object in [
        &unsaved,
        &role,
        &config_map("kept"),
        &config_map("lost"),
        &config_map("part"),
        &deployment(),
        &cron_job(),
        &job(),
    ] {
        create(&bed, object);
    }
    give(&bed, "configmap/part", "widget/big");
    give(&bed, "deployment/web", "widget/big");
    give(&bed, "configmap/lost", "widget/unsaved");
    give(&bed, "configmap/kept", "clusterrole/keeper");
    give(&bed, "job/once", "cronjob/tick");
    eventually("the replica set", || get(&bed, "shop", "replicasets")["items"][0].is_object());
    assert_eq!(bed.local(&["backup", "all", "--include-namespaces", "shop"]).code, 0);

    let flags = ["--namespace-mappings", "shop:copy", "--restore-owner-references"];
    let run = bed.local(&[&["restore", "r", "--from-backup", "all"][..], &flags].concat());
    assert_eq!(run.code, 0, "{run:?}");
    let of = |owner: &str| json!([reference(&bed, "copy", owner)]);
    assert_eq!(owners(&bed, "copy", "configmap/part"), of("widget/big"));
    assert_eq!(owners(&bed, "copy", "deployment/web"), of("widget/big"));
    assert_eq!(owners(&bed, "copy", "configmap/kept"), of("clusterrole/keeper"));
    assert_eq!(owners(&bed, "copy", "job/once"), json!(null), "a cron job counts and deletes what it owns");
    assert_eq!(owners(&bed, "copy", "configmap/lost"), json!(null));
    let told =
        "configmaps/copy/lost was not given all owners that it had in the backup: Widget unsaved is not in the cluster";
    let warnings = bed.results("r")["warnings"]["namespaces"]["copy"].clone();
    assert_eq!(warnings, json!([told]));
    eventually("the replica set is adopted", || {
        let adopted = &get(&bed, "copy", "replicasets")["items"][0]["metadata"]["ownerReferences"];
        adopted[0]["uid"] == get(&bed, "copy", "deployment/web")["metadata"]["uid"]
    });

    bed.kubectl(&["delete", "widget", "big", "-n", "copy"]);
    eventually("the parts go with it", || get(&bed, "copy", "configmap/part").is_null());
    eventually("the deployment goes with it", || get(&bed, "copy", "deployment/web").is_null());
    let stays = ["configmap/kept", "configmap/lost"].map(|name| get(&bed, "copy", name).is_object());
    assert_eq!(stays, [true, true]);
}

#[test]
fn owners_come_back_whenever_the_command_dies() {
    let bed = bed();
    for name in ["owner", "a", "b"] {
        create(&bed, &config_map(name));
    }
    for name in ["configmap/a", "configmap/b"] {
        give(&bed, name, "configmap/owner");
    }
    assert_eq!(bed.local(&["backup", "all", "--include-namespaces", "shop"]).code, 0);
    for (number, (nth, kill)) in
        [(1, Kill::Before), (1, Kill::After), (2, Kill::Before), (2, Kill::After)].into_iter().enumerate()
    {
        let name = format!("r{number}");
        let (proxy, kubeconfig) = Proxy::before_api_server(&bed.plane.kubeconfig(), &name).expect("a proxy");
        let path = format!("/api/v1/namespaces/{name}/configmaps/*");
        proxy.script(vec![Rule::new("PATCH", &path, Nth::Only(nth), Fault::Kill(kill))]);
        let mapping = format!("shop:{name}");
        let flags =
            ["restore", &name, "--from-backup", "all", "--namespace-mappings", &mapping, "--restore-owner-references"];
        let mut command = Command::new(program());
        command.arg("local").args(flags).arg("--bucket").arg(bed.bucket());
        command.env("KUBECONFIG", &kubeconfig).env("XDG_STATE_HOME", bed.bucket().with_file_name("state"));
        let mut first = command.spawn().expect("the command");
        proxy.victim(first.id());
        assert!(!ended(&mut first).success(), "{name}");
        proxy.no_victim();
        proxy.script(Vec::new());
        assert!(command.status().expect("the command").success(), "{name}");
        let expected = json!([reference(&bed, &name, "configmap/owner")]);
        for object in ["configmap/a", "configmap/b"] {
            assert_eq!(owners(&bed, &name, object), expected, "{name} {object}");
        }
    }
}
