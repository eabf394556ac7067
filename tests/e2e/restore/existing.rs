//! Objects that exist already: left, updated or made anew, each by the policy for it.

use crate::ground::Ground;
use crate::support::{Bed, ended, eventually, gunzip_json, program, run};
use lifeboat_testbed::{Fault, Kill, Nth, Proxy, Rule};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;

const SPACE: &str = "shop";

fn own(name: &str) -> Value {
    json!({"name": name, "namespace": SPACE})
}

fn config_map(name: &str, data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": own(name), "data": {"a": data}})
}

fn deployment(app: &str) -> Value {
    let labels = json!({"app": app});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": own("web"), "spec": {"replicas": 0,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}}})
}

fn widgets() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

fn widget(name: &str, size: u64) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": own(name), "spec": {"size": size}})
}

fn claim(size: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": own("data"), "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": {"requests": {"storage": size}}}})
}

fn secret(data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": own("key"), "stringData": {"a": data}})
}

fn service(node_port: u64) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": own("web"), "spec": {"type": "NodePort",
        "selector": {"app": "web"}, "ports": [{"port": 80, "nodePort": node_port}]}})
}

fn create(bed: &Bed, object: &Value) {
    bed.plane.kubectl().create(object).unwrap_or_else(|e| panic!("{e:#}"));
}

fn get(bed: &Bed, kind: &str, name: &str) -> Value {
    let text =
        bed.kubectl(&["get", kind, name, "-n", SPACE, "--ignore-not-found", "--show-managed-fields", "--output=json"]);
    serde_json::from_str(&text).unwrap_or_default()
}

fn replica_sets(bed: &Bed) -> String {
    bed.kubectl(&["get", "replicasets", "-n", SPACE, "--output=jsonpath={.items[*].spec.selector.matchLabels}"])
}

/// Deletes an object and makes another of its name.
fn replace(bed: &Bed, object: &Value) {
    let (kind, name) = (object["kind"].as_str().expect("a kind"), object["metadata"]["name"].as_str().expect("a name"));
    bed.kubectl(&["delete", kind, name, "-n", SPACE]);
    create(bed, object);
}

/// Warnings and errors about the namespace.
fn told(results: &Value, severity: &str) -> Vec<String> {
    let found = results[severity]["namespaces"][SPACE].as_array().cloned().unwrap_or_default();
    let mut told: Vec<String> = found.iter().map(|text| text.as_str().expect("text").to_owned()).collect();
    told.sort();
    told
}

/// The objects that a restore has deleted, as it stored them.
fn replaced(bed: &Bed, restore: &str, path: &str) -> Vec<Value> {
    let folder = bed.bucket().join(format!("restores/{restore}/replaced/{path}"));
    let Ok(files) = std::fs::read_dir(&folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    files.iter().map(|file| gunzip_json(file)).collect()
}

#[test]
fn what_differs_is_left_updated_or_made_anew_by_the_policy_for_it() {
    let bed = Bed::start();
    create(&bed, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}));
    create(&bed, &widgets());
    eventually("widgets", || bed.plane.kubectl().create(&widget("small", 1)).is_ok());
    let mut held = config_map("held", "1");
    for object in [
        config_map("fixed", "1"),
        config_map("same", "1"),
        held.clone(),
        deployment("old"),
        secret("1"),
        service(30080),
        claim("1Gi"),
    ] {
        create(&bed, &object);
    }
    let without = ["--exclude-resources", "endpoints,endpointslices.discovery.k8s.io"];
    assert_eq!(bed.local(&[&["backup", "all", "--include-namespaces", SPACE][..], &without].concat()).code, 0);

    // None of these can be updated: the fields are immutable.
    let mut fixed = config_map("fixed", "2");
    fixed["immutable"] = true.into();
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    held["data"]["a"] = "2".into();
    for object in [&fixed, &held, &deployment("new"), &service(30081), &widget("small", 2), &secret("2")] {
        replace(&bed, object);
    }
    bed.kubectl(&[
        "patch",
        "pvc",
        "data",
        "-n",
        SPACE,
        "--type=merge",
        "-p",
        r#"{"metadata": {"labels": {"x": "y"}}}"#,
    ]);
    eventually("the replica set", || replica_sets(&bed).contains("new"));
    let restore = |name: &str, flags: &[&str]| {
        let base =
            ["restore", name, "--from-backup", "all", "--existing-resource-policy", "recreate", "--preserve-nodeports"];
        let run = bed.local(&[&base[..], &["--existing-resource-policy-override", "secrets=none"], flags].concat());
        assert_eq!(run.code, 0, "{run:?}");
        run
    };

    let plan = restore("p", &["--dry-run", "-o", "json"]);
    let plan: Value = serde_json::from_str(&plan.out).expect("JSON");
    let planned = |word: &str| -> Vec<String> {
        let items = plan["items"].as_array().expect("items").iter().filter(|item| item["action"] == word);
        let mut names: Vec<String> =
            items.map(|item| format!("{} {}", item["type"], item["name"]).replace('"', "")).collect();
        names.sort();
        names
    };
    assert_eq!(planned("recreate"), ["configmaps fixed", "deployments.apps web", "services web"]);
    assert_eq!(
        planned("conflict"),
        ["configmaps held", "persistentvolumeclaims data", "secrets key", "widgets.example.com small"]
    );
    let held = plan["items"].as_array().expect("items").iter().find(|item| item["name"] == "held").expect("it");
    let warning = held["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.starts_with("it is not recreated: it has the finalizer") && held["errors"].is_null(), "{held}");
    assert_eq!(get(&bed, "configmap", "fixed")["data"]["a"], "2", "a dry run writes nothing");

    let before =
        ["deployment", "configmap"].map(|kind| get(&bed, kind, if kind == "deployment" { "web" } else { "fixed" }));
    restore("r", &[]);
    assert_eq!(get(&bed, "configmap", "fixed")["data"]["a"], "1");
    assert_eq!(get(&bed, "deployment", "web")["spec"]["selector"], json!({"matchLabels": {"app": "old"}}));
    assert_eq!(get(&bed, "service", "web")["spec"]["ports"][0]["nodePort"], 30080);
    assert!(replica_sets(&bed).contains("\"app\":\"new\""), "dependents are left");
    for (kind, name, path, value) in [
        ("secret", "key", "/data/a", json!("Mg==")),
        ("configmap", "held", "/data/a", json!("2")),
        ("widget", "small", "/spec/size", json!(2)),
        ("pvc", "data", "/metadata/labels/x", json!("y")),
    ] {
        assert_eq!(get(&bed, kind, name).pointer(path), Some(&value), "{kind} {name} is left");
    }
    let kept = [("deployments.apps/namespaces/shop/web", &before[0]), ("configmaps/namespaces/shop/fixed", &before[1])];
    for (path, object) in kept {
        assert_eq!(replaced(&bed, "r", path), std::slice::from_ref(object), "what was there is in the bucket");
    }
    let results = bed.results("r");
    assert_eq!(told(&results, "errors"), [""; 0]);
    let advice = |of: &str| format!("allowRecreate: [{of}] (--allow-recreate) lets it be deleted all the same");
    assert_eq!(
        told(&results, "warnings"),
        [
            format!("could not recreate configmaps/shop/held, which differs from the backup: it has the finalizer example.com/hold, and what goes with it is not known; {}", advice("configmaps")),
            "could not recreate persistentvolumeclaims/shop/data, which differs from the backup: persistentvolumeclaims are never deleted to be made anew".to_owned(),
            format!("could not recreate widgets.example.com/shop/small, which differs from the backup: it is a custom resource, and what its controller does when it is deleted is not known; {}", advice("widgets.example.com")),
            "could not restore, Secret \"key\" already exists. Warning: the in-cluster version is different than the backed-up version".to_owned(),
        ]
    );
    let listed = gunzip_json(&bed.bucket().join("restores/r/restore-r-resource-list.json.gz"));
    assert_eq!(
        listed["v1/ConfigMap"],
        json!(["shop/fixed(recreated)", "shop/held(failed)", "shop/kube-root-ca.crt(skipped)", "shop/same(skipped)"])
    );

    restore("s", &["--allow-recreate", "widgets.example.com"]);
    assert_eq!(get(&bed, "widget", "small")["spec"]["size"], 1);
}

#[test]
fn nothing_is_deleted_that_the_api_server_would_not_take_back() {
    let bed = Bed::start();
    create(&bed, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}));
    create(&bed, &config_map("fixed", "1"));
    assert_eq!(bed.local(&["backup", "all", "--include-namespaces", SPACE]).code, 0);
    let mut fixed = config_map("fixed", "2");
    fixed["immutable"] = true.into();
    replace(&bed, &fixed);
    create(
        &bed,
        &json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-maps"}, "spec": {"failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["configmaps"]}]},
            "validations": [{"expression": "false", "message": "no maps today"}]}}),
    );
    create(
        &bed,
        &json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-maps"}, "spec": {"policyName": "no-maps", "validationActions": ["Deny"]}}),
    );
    let flags = ["create", "configmap", "probe", "-n", SPACE, "--dry-run=server"];
    eventually("the policy", || bed.plane.kubectl().try_run(&flags).is_err());
    let before = get(&bed, "configmap", "fixed");
    let run = bed.local(&["restore", "r", "--from-backup", "all", "--existing-resource-policy", "recreate"]);
    assert_eq!(run.code, 3, "{run:?}");
    assert_eq!(get(&bed, "configmap", "fixed"), before);
    let errors = told(&bed.results("r"), "errors");
    assert_eq!(errors.len(), 1, "{errors:?}");
    let begins = "could not recreate configmaps/shop/fixed: it was left as it is, because the API server refuses to create (as a dry run): ";
    assert!(errors[0].starts_with(begins) && errors[0].contains("no maps today"), "{errors:?}");
}

#[test]
fn an_object_being_recreated_comes_back_whenever_the_command_dies() {
    let bed = Bed::start();
    create(&bed, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}));
    create(&bed, &config_map("fixed", "1"));
    assert_eq!(bed.local(&["backup", "all", "--include-namespaces", SPACE]).code, 0);
    let mut fixed = config_map("fixed", "2");
    fixed["immutable"] = true.into();
    let one = "/api/v1/namespaces/shop/configmaps/fixed";
    let all = "/api/v1/namespaces/shop/configmaps*";
    for (number, (method, path, kill)) in [
        // The dry run, the deletion, and the create.
        ("POST", all, Kill::After),
        ("DELETE", one, Kill::Before),
        ("DELETE", one, Kill::After),
        ("POST", all, Kill::Before),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("r{number}");
        replace(&bed, &fixed);
        let before = get(&bed, "configmap", "fixed");
        let (proxy, kubeconfig) = Proxy::before_api_server(&bed.plane.kubeconfig(), &name).expect("a proxy");
        // Another object is created by nobody: the second POST is that of the object itself.
        let nth = if (method, number) == ("POST", 3) { Nth::Only(2) } else { Nth::Only(1) };
        proxy.script(vec![Rule::new(method, path, nth, Fault::Kill(kill))]);
        let flags = ["restore", &name, "--from-backup", "all", "--existing-resource-policy", "recreate"];
        let mut command = Command::new(program());
        command.arg("local").args(flags).arg("--bucket").arg(bed.bucket());
        command.env("KUBECONFIG", &kubeconfig).env("XDG_STATE_HOME", bed.bucket().with_file_name("state"));
        let mut first = command.spawn().expect("the command");
        proxy.victim(first.id());
        assert!(!ended(&mut first).success(), "{name}");
        proxy.no_victim();
        proxy.script(Vec::new());
        assert!(command.status().expect("the command").success(), "{name}");
        assert_eq!(get(&bed, "configmap", "fixed")["data"]["a"], "1", "{name}");
        assert_eq!(replaced(&bed, &name, "configmaps/namespaces/shop/fixed"), [before], "{name}");
    }
}

#[test]
fn a_field_that_the_definition_lacks_is_refused_before_anything_is_made() {
    let ground = Ground::start();
    let fields = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let remove = ["allowRecreate", "existingResourcePolicyOverrides"]
        .map(|field| json!({"op": "remove", "path": format!("{fields}/{field}")}));
    let patch = json!(remove).to_string();
    ground.bed.kubectl(&["patch", "crd", "restores.velero.io", "--type=json", "-p", &patch]);
    ground.velero("Backup", "all", &json!({}));
    let flags = ["restore", "create", "r", "--from-backup", "all"];
    let lifeboat = |more: &[&str]| {
        run(Command::new(program()).args(flags).args(more).env("KUBECONFIG", ground.bed.plane.kubeconfig()))
    };
    let asked = ["--allow-recreate", "widgets", "--existing-resource-policy-override", "secrets=none"];
    let expected = "An error occurred: restores.velero.io \"r\" was not created: the cluster's definition of restores has no \
                    spec.allowRecreate, spec.existingResourcePolicyOverrides; run `install --crds-only --apply`\n";
    let mut refused = lifeboat(&asked);
    // The API server takes a moment to serve what a definition has become.
    eventually("the definition", || {
        refused = lifeboat(&asked);
        ground.bed.kubectl(&["delete", "restores.velero.io", "--all", "-n", "velero"]);
        refused.code != 0
    });
    assert_eq!((refused.code, refused.err.as_str()), (1, expected));
    assert!(ground.get("restore", "r").is_null());
    assert_eq!(lifeboat(&[]).code, 0, "without these flags it is created");
}
