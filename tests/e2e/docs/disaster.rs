//! docs/disaster.md, as it stands there, in an empty cluster.

use crate::ground::Ground;
use crate::page::{self, Reader};
use crate::support::Bed;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Name and number of a ConfigMap, but of the one that each namespace has.
fn data(map: &Value) -> Option<(String, String)> {
    let name = map["metadata"]["name"].as_str()?.to_owned();
    let number = map["data"]["number"].as_str()?.to_owned();
    (name != "kube-root-ca.crt").then_some((name, number))
}

#[test]
fn a_lost_cluster_comes_back_by_the_page_for_it() {
    let old = Ground::start();
    old.many("shop", 5);
    old.create(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": "shop"}, "stringData": {"a": "b"}}));
    old.s3_location("main", old.s3.endpoint());
    let server = old.server("old");
    old.until("backupstoragelocation", "main", "Available");
    old.velero("Backup", "nightly-20261122030000", &json!({"storageLocation": "main", "includedNamespaces": ["shop"]}));
    old.until("backup", "nightly-20261122030000", "Completed");
    let expected = old.maps("shop");
    server.kill();
    // Each test has one control plane at a time.
    let Ground { bed, s3, directories: _directories } = old;
    drop(bed);

    let mut reader = Reader::with_bucket(&s3, "main").of_backup("nightly-20261122030000");
    let bed = Bed::start();
    reader.follow(&bed, &page::read("disaster.md"));
    let maps = bed.kubectl(&["get", "configmaps", "-n", "shop", "-o", "json"]);
    let maps: Value = serde_json::from_str(&maps).expect("JSON");
    let found: BTreeMap<String, String> = maps["items"].as_array().expect("a list").iter().filter_map(data).collect();
    assert_eq!(found, expected);
    let get = ["get", "secret", "keys", "-n", "shop", "-o", "jsonpath={.data.a}"];
    assert_eq!(bed.kubectl(&get), "Yg==");
    let phase = ["get", "backup", "first-after", "-n", "velero", "-o", "jsonpath={.status.phase}"];
    assert_eq!(bed.kubectl(&phase), "Completed");
}
