//! Objects that an API server refuses, and fields that it does not let be changed.

use crate::support::{Bed, eventually, gunzip_json, with_object};
use serde_json::{Value, json};

const SPACE: &str = "shop";

/// A type without a status subresource.
fn definition(plural: &str, kind: &str, versions: &[&str]) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "required": ["spec"]}});
    let version =
        |name: &&str| json!({"name": name, "served": true, "storage": *name == versions[0], "schema": schema});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": versions.iter().map(version).collect::<Vec<_>>()}})
}

fn custom(kind: &str, name: &str, rest: &Value) -> Value {
    let mut object =
        json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": name, "namespace": SPACE}});
    object.as_object_mut().expect("a map").extend(rest.as_object().cloned().unwrap_or_default());
    object
}

fn create(bed: &Bed, object: &Value) {
    bed.plane.kubectl().create(object).unwrap_or_else(|e| panic!("{e:#}"));
}

fn get(bed: &Bed, kind: &str, name: &str, path: &str) -> String {
    bed.kubectl(&["get", kind, name, "-n", SPACE, &format!("--output=jsonpath={path}")])
}

/// Messages of the results about the namespace, and those about no namespace of the cluster.
fn told(results: &Value, severity: &str) -> Vec<String> {
    let all = &results[severity];
    let found = [&all["namespaces"][SPACE], &all["cluster"]].map(|list| list.as_array().cloned().unwrap_or_default());
    found.concat().iter().map(|text| text.as_str().expect("text").to_owned()).collect()
}

#[test]
fn an_object_as_large_as_etcd_takes_comes_back_and_a_status_that_is_data() {
    let bed = Bed::start();
    bed.kubectl(&["create", "namespace", SPACE]);
    create(&bed, &definition("doors", "Door", &["v1"]));
    let door = custom("Door", "front", &json!({"spec": {}, "status": {"state": "open"}}));
    eventually("doors", || bed.plane.kubectl().create(&door).is_ok());
    let large = |bytes: usize| custom("Door", "large", &json!({"spec": {"x": "y".repeat(bytes)}}));
    let is_taken = |bytes: &usize| bed.plane.kubectl().create(&large(*bytes)).is_ok();
    let most = (1_500_000..1_573_000).rev().step_by(40).find(is_taken).expect("a size that etcd takes");
    let args = ["backup", "all", "--include-namespaces", SPACE, "--include-resources", "doors.example.com"];
    let saved = bed.local(&args);
    assert_eq!(saved.code, 0, "{saved:?}");
    let results = gunzip_json(&bed.bucket().join("backups/all/all-results.gz"));
    let warned = told(&results, "warnings");
    assert!(
        warned.len() == 1 && warned[0].contains("doors.example.com/shop/large is saved, but a restore may not"),
        "{results}"
    );

    bed.kubectl(&["delete", "doors", "--all", "-n", SPACE]);
    let restored = bed.local(&["restore", "back", "--from-backup", "all"]);
    assert_eq!(restored.code, 0, "{restored:?}");
    let results = bed.results("back");
    let warned = told(&results, "warnings");
    let begins = "doors.example.com/shop/large has not got the labels velero.io/backup-name and velero.io/restore-name";
    assert!(warned.len() == 1 && warned[0].starts_with(begins) && told(&results, "errors").is_empty(), "{results}");
    assert_eq!(get(&bed, "door", "large", "{.spec.x}").len(), most);
    assert_eq!(get(&bed, "door", "large", "{.metadata.labels}"), "");
    assert_eq!(get(&bed, "door", "front", "{.status.state}"), "open");
}

#[test]
fn an_update_writes_all_that_can_change_and_no_older_definition() {
    let bed = Bed::start();
    bed.kubectl(&["create", "namespace", SPACE]);
    create(&bed, &definition("doors", "Door", &["v1"]));
    eventually("doors", || bed.plane.kubectl().create(&custom("Door", "d", &json!({"spec": {}}))).is_ok());
    let map = |data: &str, label: &str| {
        let metadata = json!({"name": "fixed", "namespace": SPACE, "labels": {"l": label}});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": data}, "immutable": true})
    };
    let set = |service: &str, replicas: u8| {
        let labels = json!({"app": "db"});
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": SPACE}, "spec": {
            "serviceName": service, "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}}})
    };
    create(&bed, &map("1", "1"));
    create(&bed, &set("one", 0));
    let types = "configmaps,statefulsets,doors.example.com,customresourcedefinitions";
    let args =
        ["backup", "all", "--include-namespaces", SPACE, "--include-resources", types, "--include-cluster-resources"];
    assert_eq!(bed.local(&args).code, 0);
    bed.kubectl(&["delete", "configmap/fixed", "statefulset/db", "-n", SPACE]);
    create(&bed, &map("2", "2"));
    create(&bed, &set("two", 1));
    with_object(&bed.plane.kubectl(), &["replace"], &{
        let version = "--output=jsonpath={.metadata.resourceVersion}";
        let mut newer = definition("doors", "Door", &["v1", "v2"]);
        newer["metadata"]["resourceVersion"] = bed.kubectl(&["get", "crd", "doors.example.com", version]).into();
        newer
    })
    .unwrap_or_else(|e| panic!("{e:#}"));

    let update = ["--from-backup", "all", "--existing-resource-policy", "update", "--include-cluster-resources"];
    let restored = bed.local(&[&["restore", "r"][..], &update].concat());
    assert_eq!(restored.code, 0, "{restored:?}");
    let results = bed.results("r");
    let mut warned = told(&results, "warnings");
    warned.sort();
    let begins = [
        "could not update configmaps/shop/fixed to match the backup: data cannot be changed (",
        "could not update customresourcedefinitions.apiextensions.k8s.io/doors.example.com to match the backup: it stays as it is, because \
         it is newer than the one of the backup: it serves the version v2, and objects there may need that",
        "could not update statefulsets.apps/shop/db to match the backup: spec.serviceName cannot be changed (",
    ];
    assert!(warned.len() == 3 && warned.iter().zip(begins).all(|(text, begin)| text.starts_with(begin)), "{results}");
    assert_eq!(told(&results, "errors"), [""; 0]);
    assert_eq!(get(&bed, "configmap", "fixed", "{.data.a} {.metadata.labels.l}"), "2 1");
    assert_eq!(get(&bed, "statefulset", "db", "{.spec.serviceName} {.spec.replicas}"), "two 0");
    let versions = || bed.kubectl(&["get", "crd", "doors.example.com", "--output=jsonpath={.spec.versions[*].name}"]);
    assert_eq!(versions(), "v1 v2");
    let restored = bed.local(&[&["restore", "s", "--update-definitions"][..], &update].concat());
    assert_eq!((restored.code, versions().as_str()), (0, "v1"), "{restored:?}");

    // The type is of another scope now.
    bed.kubectl(&["delete", "crd", "doors.example.com"]);
    let mut other = definition("doors", "Door", &["v1"]);
    other["spec"]["scope"] = "Cluster".into();
    create(&bed, &other);
    let served = || bed.kubectl(&["api-resources", "--api-group=example.com", "--no-headers"]).contains("doors");
    eventually("doors of the cluster", served);
    let restored = bed.local(&["restore", "t", "--from-backup", "all", "--include-resources", "doors.example.com"]);
    assert_eq!(restored.code, 3, "{restored:?}");
    let errors = told(&bed.results("t"), "errors");
    let begins = "error restoring doors.example.com/shop/d: in this cluster the type doors.example.com is in no namespace, and it was in one";
    assert!(errors.len() == 1 && errors[0].starts_with(begins), "{errors:?}");
}
