//! Backups that Velero has made, and backups of a server.

use super::printed::tables;
use super::{Browsing, browse};
use crate::ground::{Ground, copy};
use lifeboat_archive::gzip::unpack;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The backups of the fixtures.
const BACKUPS: [&str; 4] = ["cluster-false", "one-ns", "scoped", "selector"];

/// The objects of one type in an archive: their version, and the bytes of each by its namespace, a slash and its name.
#[derive(Default)]
pub(super) struct OfType {
    version: String,
    objects: BTreeMap<String, Vec<u8>>,
}

impl OfType {
    pub(super) fn count(&self) -> usize {
        self.objects.len()
    }
}

/// A bucket with the backups of the fixtures.
pub(super) fn bucket() -> tempfile::TempDir {
    let bucket = tempfile::tempdir().expect("a folder");
    for name in BACKUPS {
        copy(&fixtures().join(name), &bucket.path().join("backups").join(name));
    }
    bucket
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/testbed/fixtures/velero/backups")
}

/// The objects in the archive of a fixture, by type.
pub(super) fn archived(name: &str) -> BTreeMap<String, OfType> {
    let archive = std::fs::read(fixtures().join(name).join(format!("{name}.tar.gz"))).expect("an archive");
    let tar = unpack(&archive, 100 << 20).expect("gzip");
    let mut types: BTreeMap<String, OfType> = BTreeMap::new();
    for entry in tar::Archive::new(tar.as_slice()).entries().expect("a tar file") {
        let mut entry = entry.expect("an entry");
        let path = entry.path().expect("a path").display().to_string();
        let (of, version, place) = match path.split('/').collect::<Vec<_>>()[..] {
            ["resources", of, version, "namespaces", namespace, file] => (of, version, format!("{namespace}/{file}")),
            ["resources", of, version, "cluster", file] => (of, version, format!("/{file}")),
            _ => continue,
        };
        let Some(version) = version.strip_suffix("-preferredversion") else { continue };
        let of_type = types.entry(of.to_owned()).or_default();
        version.clone_into(&mut of_type.version);
        let mut body = Vec::new();
        entry.read_to_end(&mut body).expect("an object");
        of_type.objects.insert(place.strip_suffix(".json").expect("a file of JSON").to_owned(), body);
    }
    types
}

/// The list of a type as it has to be answered: with each object byte for byte.
fn list_of(group: &str, of_type: &OfType) -> String {
    let OfType { version, objects } = of_type;
    let first: Value = serde_json::from_slice(objects.values().next().expect("an object")).expect("JSON");
    let kind = first["kind"].as_str().expect("a kind");
    let version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
    let items: Vec<&str> = objects.values().map(|body| std::str::from_utf8(body).expect("text")).collect();
    let metadata = json!({"resourceVersion": i64::MAX.to_string()});
    format!(r#"{{"kind":"{kind}List","apiVersion":"{version}","metadata":{metadata},"items":[{}]}}"#, items.join(","))
}

#[test]
fn objects_of_veleros_backups_are_served_byte_for_byte_and_with_tables() {
    let bucket = bucket();
    for name in BACKUPS {
        let types = archived(name);
        assert!(types.len() > 5, "{name} holds {:?}", types.keys());
        let browsing = Browsing::of(name, bucket.path());
        let kubectl = browsing.kubectl();
        for (of, of_type) in &types {
            let (plural, group) = of.split_once('.').unwrap_or((of, ""));
            let version = &of_type.version;
            let path = match group {
                "" => format!("/api/{version}/{plural}"),
                group => format!("/apis/{group}/{version}/{plural}"),
            };
            let list = kubectl.try_run(&["get", "--raw", &path]).expect("a list");
            assert!(list.trim_end() == list_of(group, of_type), "{name}, {of}: {list}");
        }
        let all: Vec<&str> = types.keys().map(String::as_str).collect();
        let printed = kubectl.try_run(&["get", &all.join(","), "--all-namespaces", "--output=wide"]).expect("tables");
        let rows: Vec<usize> = tables(&printed).iter().map(|table| table.rows.len()).collect();
        assert_eq!(rows, types.values().map(OfType::count).collect::<Vec<_>>(), "{name}: {printed}");
    }
}

#[test]
fn a_backup_of_the_server_is_seen_without_its_bucket_and_its_copy_goes() {
    let ground = Ground::start();
    ground.many("shop", 3);
    ground.directory("main", &json!({"default": true}));
    let server = ground.server("one");
    ground.until("backupstoragelocation", "main", "Available");
    ground.velero("Backup", "nightly", &json!({"includedNamespaces": ["shop"]}));
    ground.until("backup", "nightly", "Completed");
    let before = ground.bed.kubectl(&["get", "configmaps", "--namespace=shop", "--output=yaml"]);
    ground.bed.kubectl(&["delete", "configmaps", "--namespace=shop", "--all"]);

    let scratch = tempfile::tempdir().expect("a folder");
    let kubeconfig = ground.bed.plane.kubeconfig();
    let seen = |name: &str, more: &[&str]| {
        let mut browse = browse(name, more, &["get", "configmaps", "--output=yaml"]);
        crate::support::run(browse.env("KUBECONFIG", &kubeconfig).env("TMPDIR", scratch.path()))
    };
    let run = seen("nightly", &[]);
    assert_eq!((run.code, run.out.as_str()), (0, before.as_str()), "{run:?}");
    let left: Vec<_> = std::fs::read_dir(scratch.path()).expect("the folder").collect();
    assert!(left.is_empty(), "{left:?}");

    let none = seen("none", &[]);
    assert!(none.code == 1 && none.err.contains("backups.velero.io \"none\" not found"), "{none:?}");
    server.kill();
    let alone = seen("nightly", &["--timeout", "1s"]);
    assert!(alone.code == 1 && alone.out.is_empty(), "{alone:?}");
    assert!(alone.err.contains("timed out waiting for the URL of "), "{alone:?}");
}
