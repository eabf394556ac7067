//! The README, and the pages of docs/ about what users want to do, as they stand there.

use crate::faults::namespace;
use crate::ground::{BUCKET, Ground, copy};
use crate::page::{self, Reader};
use crate::support::Bed;
use crate::velero::migrate;
use lifeboat_testbed::Kubectl;
use serde_json::{Value, json};
use std::path::Path;

/// The application that the pages are about.
fn open_shop(kubectl: &Kubectl) {
    let labels = json!({"app": "web"});
    let named = |name: &str| json!({"name": name, "namespace": "shop"});
    let containers = json!([{"name": "web", "image": "registry.example.com/web:1"}]);
    for object in [
        namespace("shop"),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": named("settings"), "data": {"colour": "blue"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": named("prices"), "data": {"tea": "3"}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": named("keys"), "stringData": {"a": "b"}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": named("web"),
            "spec": {"selector": labels, "ports": [{"port": 80}]}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": named("web"),
            "spec": {"selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}}}),
    ] {
        kubectl.create(&object).unwrap_or_else(|e| panic!("{e:#}"));
    }
}

/// The contents of the application, without the parts that a cluster makes itself.
fn shop(bed: &Bed) -> Vec<String> {
    let types = "configmaps,secrets,services,deployments,persistentvolumeclaims";
    let list = bed.kubectl(&["get", types, "--namespace=shop", "--output=json"]);
    let list: Value = serde_json::from_str(&list).expect("JSON");
    let objects = list["items"].as_array().expect("a list").iter();
    let own = objects.filter(|object| object["metadata"]["name"] != "kube-root-ca.crt");
    let told = |object: &Value| {
        let content = match object["kind"].as_str() {
            Some("Deployment") => &object["spec"]["template"]["spec"]["containers"][0]["image"],
            Some("Service") => &object["spec"]["ports"][0]["port"],
            Some("PersistentVolumeClaim") => &object["spec"]["storageClassName"],
            _ => &object["data"],
        };
        format!("{} {} {content}", object["kind"], object["metadata"]["name"])
    };
    own.map(told).collect()
}

/// A cluster with the application, and a server that keeps backups in object storage.
fn with_shop() -> Ground {
    let ground = Ground::start();
    open_shop(&ground.kubectl());
    ground.s3_location("default", ground.s3.endpoint());
    ground
}

#[test]
fn the_readme_shows_what_happens() {
    let bed = Bed::start();
    open_shop(&bed.plane.kubectl());
    let before = shop(&bed);
    Reader::new().follow(&bed, &page::read("../README.md"));
    assert_eq!(shop(&bed), before);
}

#[test]
fn a_namespace_is_protected_by_the_page_for_it() {
    let ground = with_shop();
    let _server = ground.server("one");
    ground.until("backupstoragelocation", "default", "Available");
    Reader::new().follow(&ground.bed, &page::read("protect.md"));
    let schedule = ground.get("schedule", "shop-nightly")["spec"].clone();
    assert_eq!((&schedule["schedule"], &schedule["retention"]), (&json!("0 3 * * *"), &json!({})), "{schedule}");
    assert_eq!(schedule["template"]["includedNamespaces"], json!(["shop"]));
    assert!(ground.get("namespace", "shop-rehearsal").is_null());
    ground.until_gone("restore", "rehearsal");
}

#[test]
fn one_object_comes_back_by_the_page_for_it() {
    let ground = with_shop();
    let _server = ground.server("one");
    ground.until("backupstoragelocation", "default", "Available");
    let name = "shop-nightly-20261122030000";
    ground.velero("Backup", name, &json!({"includedNamespaces": ["shop"]}));
    ground.until("backup", name, "Completed");
    let before = shop(&ground.bed);
    // Nobody has asked for this one.
    ground.bed.kubectl(&["delete", "configmap", "prices", "--namespace=shop"]);
    Reader::with_bucket(&ground.s3, "default").of_backup(name).follow(&ground.bed, &page::read("restore-one.md"));
    let without_prices = before.iter().filter(|object| !object.contains("prices")).cloned();
    assert_eq!(shop(&ground.bed), without_prices.collect::<Vec<_>>());
}

#[test]
fn an_application_moves_to_another_cluster_by_the_page_for_it() {
    let class = |name: &str| json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, "provisioner": "x"});
    let old = with_shop();
    old.create(&class("fast"));
    old.create(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}}));
    let server = old.server("old");
    old.until("backupstoragelocation", "default", "Available");
    old.velero("Schedule", "nightly", &json!({"schedule": "0 3 * * *", "template": {}}));
    let page = page::read("move.md");
    let (there, here) = page.split_once("## In the new cluster").expect("a part for each cluster");
    let mut reader = Reader::with_bucket(&old.s3, "default");
    reader.follow(&old.bed, there);
    assert_eq!(old.get("schedule", "nightly")["spec"]["paused"], true);
    let before = shop(&old.bed);
    server.kill();
    // Each test has one control plane at a time.
    let Ground { bed, s3: _s3, directories: _directories } = old;
    drop(bed);

    let bed = Bed::start();
    bed.plane.kubectl().create(&class("standard")).expect("a class");
    reader.follow(&bed, here);
    let moved: Vec<String> = before.iter().map(|object| object.replace("\"fast\"", "\"standard\"")).collect();
    assert_eq!(shop(&bed), moved);
    assert_ne!(moved, before, "the claim is among them");
    let mode = ["get", "backupstoragelocation", "default", "-n", "velero", "--output=jsonpath={.spec.accessMode}"];
    assert_eq!(bed.kubectl(&mode), "ReadWrite");
}

#[test]
fn backups_lie_in_a_directory_by_the_page_for_it() {
    let bed = Bed::start();
    open_shop(&bed.plane.kubectl());
    let before = shop(&bed);
    let mut reader = Reader::new();
    let page = page::read("without-object-storage.md");
    let (by_hand, by_server) = page.split_once("## A server").expect("a part about the server");
    reader.follow(&bed, by_hand);
    assert_eq!(shop(&bed), before);
    reader.follow(&bed, by_server);
    assert_eq!(shop(&bed), before);
}

#[test]
fn velero_is_taken_over_by_the_page_for_it() {
    let ground = migrate::with_velero();
    open_shop(&ground.kubectl());
    migrate::point_at_bucket(&ground, "there");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/testbed/fixtures/velero/backups/one-ns");
    copy(&golden, &ground.s3.file(BUCKET, "there/backups/one-ns"));
    // As Velero has left it in the cluster.
    let record = std::fs::read(golden.join("velero-backup.json")).expect("a record");
    let mut record: Value = serde_json::from_slice(&record).expect("JSON");
    let metadata = record["metadata"].as_object_mut().expect("metadata");
    metadata.retain(|key, _| matches!(key.as_str(), "name" | "namespace" | "labels" | "annotations"));
    // So that it is kept, whenever this runs.
    record["status"]["expiration"] = json!("2099-01-01T00:00:00Z");
    ground.create(&record);
    // The server's flag would have all volumes moved, which is not there yet: a schedule that asks for it does not go
    // on.
    let template =
        json!({"includedNamespaces": ["shop"], "defaultVolumesToFsBackup": false, "snapshotMoveData": false});
    ground.velero("Schedule", "nightly", &json!({"schedule": "0 3 * * *", "template": template}));
    let mut reader = Reader::with_bucket(&ground.s3, "there").of_backup("one-ns");
    reader.follow(&ground.bed, &page::read("take-over.md"));
    let image = ["get", "deployment", "velero", "-n", "velero"];
    let path = "--output=jsonpath={.spec.template.spec.containers[0].image}";
    assert_eq!(ground.bed.kubectl(&[&image[..], &[path]].concat()), "velero/velero:v1.18.2");
    assert_eq!(ground.get("backup", "one-ns")["spec"], record["spec"], "it is as Velero has made it");
}
