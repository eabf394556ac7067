//! Backups in memory for tests.

use lifeboat_api::Backup;
use lifeboat_archive::ReadLimits;
use lifeboat_browse::BackupStore;
use lifeboat_fixtures::BackupFixture;
pub(crate) use lifeboat_fixtures::key_of as key;
use lifeboat_store::{OpenOptions, Store};
use proptest::prelude::*;
use serde_json::{Value, json};

const NAME: &str = "b";
/// Objects of one gzip member.
const OF_MEMBER: usize = 3;

/// Namespaces, pods of two of them, types that are defined, undefined, and of an older version. Not in the order of a list.
pub(crate) fn objects() -> Vec<Value> {
    let mut objects: Vec<Value> = ["b", "a"]
        .iter()
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": format!("ns-{name}")}}))
        .collect();
    for n in [4, 2, 3, 0, 1, 5, 6] {
        let namespace = if n % 2 == 0 { "b" } else { "a" };
        let app = ["web", "db", "cache"][n % 3];
        objects.push(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("pod-{n}"), "namespace": namespace, "uid": format!("pod-{n}"),
                "resourceVersion": (100 + n).to_string(), "labels": {"app": app}},
            "spec": {"priority": 12_345_678_901_234_567_890_u64},
            "status": {"phase": if n < 4 { "Running" } else { "Pending" }}}));
    }
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage,
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]})
    };
    objects.push(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com", "uid": "crd"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v2", false), version("v1", true)]}}));
    for (kind, api_version, namespace) in [
        ("Widget", "example.com/v1", Some("a")),
        ("Gizmo", "example.com/v1", None),
        ("PodDisruptionBudget", "policy/v1beta1", Some("b")),
    ] {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "one", "uid": kind}});
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = namespace.into();
        }
        objects.push(object);
    }
    objects
}

/// A backup of these objects, open as a store.
pub(crate) async fn opened(objects: &[Value]) -> BackupStore {
    let store = Store::in_memory();
    add(&store, NAME, objects, |_| {}).await;
    let archive = store.open_archive(NAME, &options()).await.unwrap();
    BackupStore::open(archive, "the backup \"b\"").await.unwrap()
}

pub(crate) fn options() -> OpenOptions {
    OpenOptions { limits: ReadLimits::default(), scratch: std::env::temp_dir(), ignore_index: false }
}

/// Makes a finished backup of these objects; `change` completes its record.
pub(crate) async fn add(store: &Store, name: &str, objects: &[Value], change: impl FnOnce(&mut Backup)) {
    BackupFixture::new(name, objects).in_members_of(OF_MEMBER).write_with(store, change).await;
}

/// The change of an object between the two states that are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    Stays,
    Goes,
    Comes,
    Changes,
    /// Written or made again as it was.
    Lives,
}

pub(crate) fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![Just(Fate::Stays), Just(Fate::Goes), Just(Fate::Comes), Just(Fate::Changes), Just(Fate::Lives)]
}
