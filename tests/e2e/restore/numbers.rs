//! Numbers come back digit for digit.

use crate::support::{Bed, until_types_are_served};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

/// Of the numbers that JSON can write: those that fit 64 bits, those that do not, and doubles in both writings.
fn number() -> impl Strategy<Value = String> {
    let double = any::<f64>().prop_filter("a number of JSON", |n| n.is_finite());
    prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        any::<u64>().prop_map(|n| n.to_string()),
        "-?[1-9][0-9]{18,40}",
        "-?[0-9]\\.[0-9]{1,25}",
        double.clone().prop_map(|n| format!("{n:?}")),
        double.prop_map(|n| format!("{n:e}")),
    ]
}

/// Custom resources that hold 1,000 numbers, and the one that was seen to be changed.
fn objects() -> Vec<Value> {
    let mut runner = TestRunner::deterministic();
    let numbers = proptest::collection::vec(number(), 50);
    let mut draw = || numbers.new_tree(&mut runner).expect("numbers").current().join(",");
    let lists: Vec<String> = (0..20).map(|_| draw()).chain(["18.724158270135618".to_owned()]).collect();
    let parsed = |list: &String| serde_json::from_str::<Value>(&format!("[{list}]")).expect("numbers");
    let object = |(i, list): (usize, Value)| {
        json!({"apiVersion": "example.com/v1", "kind": "Measurement", "spec": {"values": list},
            "metadata": {"name": format!("m{i}"), "namespace": "numbers"}})
    };
    lists.iter().map(parsed).enumerate().map(object).collect()
}

/// The values as the API server writes them.
fn measured(bed: &Bed) -> Vec<String> {
    let list = bed.kubectl(&["get", "--raw", "/apis/example.com/v1/namespaces/numbers/measurements"]);
    let list: Value = serde_json::from_str(&list).expect("a list");
    list["items"].as_array().expect("items").iter().map(|object| object["spec"]["values"].to_string()).collect()
}

#[test]
fn every_number_comes_back_digit_for_digit() {
    let bed = Bed::start();
    let kubectl = bed.plane.kubectl();
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "measurements.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "measurements", "singular": "measurement", "kind": "Measurement", "listKind": "MeasurementList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    kubectl.create(&definition).expect("a definition");
    until_types_are_served(&bed.plane, &[]);
    bed.kubectl(&["create", "namespace", "numbers"]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects()});
    kubectl.create(&list).expect("objects");
    let before = measured(&bed);
    assert_eq!(before.len(), 21);

    let saved = bed.local(&["backup", "numbers", "--include-namespaces", "numbers"]);
    assert_eq!(saved.code, 0, "{saved:?}");
    bed.kubectl(&["delete", "namespace", "numbers", "--timeout=180s"]);
    let restored = bed.local(&["restore", "again", "--from-backup", "numbers"]);
    assert_eq!(restored.code, 0, "{restored:?}");
    assert_eq!(measured(&bed), before);

    // Nothing differs, so nothing is written.
    let update = ["restore", "update", "--from-backup", "numbers", "--existing-resource-policy", "update"];
    let updated = bed.local(&update);
    assert_eq!(updated.code, 0, "{updated:?}");
    let of_measurements = bed.resource_list("update")["example.com/v1/Measurement"].clone();
    assert!(of_measurements.iter().all(|name| name.ends_with("(skipped)")), "{of_measurements:?}");
}
