//! The kustomize base: the objects that `lifeboat install` makes.

use super::BASE;
use crate::support::{program, run};
use lifeboat_testbed::Binaries;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kustomize").join(name)
}

/// The output of the command from which `make deploy` makes the base.
fn installed(form: &str) -> String {
    let mut command = Command::new(program());
    let run = run(command.arg("install").args(BASE.split(' ')).args(["--dry-run", "-o", form]));
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    run.out
}

/// The objects that kubectl makes of a folder, by kind and name.
fn kustomized(name: &str) -> BTreeMap<String, Value> {
    let kubectl = Binaries::ensure().expect("the programs of the test bed").path("kubectl");
    let run = run(Command::new(kubectl).arg("kustomize").arg(folder(name)));
    assert_eq!(run.code, 0, "{run:?}");
    let documents = run.out.split("\n---\n");
    documents.map(|text| named(serde_saphyr::from_str(text).expect("YAML"))).collect()
}

fn named(object: Value) -> (String, Value) {
    (format!("{} {}", object["kind"], object["metadata"]["name"]).replace('"', ""), object)
}

#[test]
fn the_base_of_kustomize_is_what_the_command_makes() {
    let file = std::fs::read_to_string(folder("base").join("install.yaml")).expect("the file");
    assert!(file == installed("yaml"), "deploy/kustomize/base/install.yaml is old: make deploy writes it anew");
    let list: Value = serde_json::from_str(&installed("json")).expect("JSON");
    let expected: BTreeMap<String, Value> =
        list["items"].as_array().expect("a list").iter().cloned().map(named).collect();
    assert_eq!(kustomized("base"), expected);
}

#[test]
fn an_overlay_adds_a_bucket_and_its_credentials() {
    let (base, mut with_bucket) = (kustomized("base"), kustomized("s3"));
    let location = with_bucket.remove("BackupStorageLocation default").expect("the location");
    let secret = with_bucket.remove("Secret cloud-credentials").expect("the credentials");
    assert_eq!(with_bucket, base);
    assert_eq!(location["spec"]["credential"], json!({"name": secret["metadata"]["name"], "key": "cloud"}));
    assert!(secret["data"]["cloud"].is_string(), "{secret}");
}
