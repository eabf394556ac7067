//! A backup served as a store: the same objects as a store in memory that holds them, and no way to change them.
#![allow(clippy::unwrap_used, reason = "tests")]

mod counting;
mod diff;
mod ground;
mod history;
mod live;

use ground::{key, objects, opened};
use lifeboat_browse::TypeContents;
use lifeboat_object::GroupResource;
use lifeboat_sandbox::{ListQuery, MemoryStore, ObjectStore, Selector, StoreError};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn query(resource: &str, namespace: Option<&str>, labels: &str, fields: &str) -> ListQuery {
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    ListQuery {
        resource: GroupResource::new(group, resource),
        namespace: namespace.map(str::to_owned),
        selector: Selector::parse(resource, labels, fields).unwrap(),
        after: None,
        limit: 0,
        revision: None,
    }
}

/// Namespace and name of all objects of a query, read by pages of `limit`.
async fn listed(store: &impl ObjectStore, query: &ListQuery, limit: usize) -> Vec<(String, String)> {
    let mut query = ListQuery { limit, ..query.clone() };
    let mut all = Vec::new();
    loop {
        let page = store.list(&query).await.unwrap();
        assert!(limit == 0 || page.objects.len() <= limit, "{} objects in a page of {limit}", page.objects.len());
        let place = |key: &lifeboat_object::ObjectKey| (key.namespace.clone().unwrap_or_default(), key.name.clone());
        all.extend(page.objects.iter().map(|object| place(&object.key)));
        if !page.more {
            return all;
        }
        query.after = all.last().cloned();
    }
}

#[tokio::test]
async fn it_lists_what_a_store_in_memory_with_the_same_objects_lists() {
    let objects = objects();
    let backup = opened(&objects).await;
    let memory = MemoryStore::default();
    for object in &objects {
        memory.insert(&key(object), object).await.unwrap();
    }
    for resource in ["pods", "namespaces", "configmaps", "widgets.example.com", "secrets", "gizmos.example.com"] {
        for namespace in [None, Some("a"), Some("b"), Some("none")] {
            for labels in ["", "app=web", "app!=web", "app in (web,db)", "none"] {
                for fields in ["", "metadata.name=pod-3", "metadata.name!=pod-3", "metadata.namespace=b"] {
                    let query = query(resource, namespace, labels, fields);
                    let expected = listed(&memory, &query, 0).await;
                    for limit in [0, 1, 3, 500] {
                        assert_eq!(listed(&backup, &query, limit).await, expected, "{query:?} by {limit}");
                    }
                }
            }
        }
    }
    let phase = query("pods", None, "", "status.phase=Running");
    assert_eq!(listed(&backup, &phase, 2).await, listed(&memory, &phase, 2).await);
}

#[tokio::test]
async fn objects_come_in_the_order_in_which_an_api_server_keeps_them() {
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let pod = |namespace: &str, name: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}});
    let pods = [pod("a", "y"), pod("a", "x"), pod("a.b", "v"), pod("a-b", "z"), pod("ab", "w")];
    let objects = [&["a", "a-b", "a.b", "ab"].map(namespace)[..], &pods].concat();
    let backup = opened(&objects).await;
    let memory = MemoryStore::default();
    for object in &objects {
        memory.insert(&key(object), object).await.unwrap();
    }
    let expected =
        [("a-b", "z"), ("a.b", "v"), ("a", "x"), ("a", "y"), ("ab", "w")].map(|(n, m)| (n.to_owned(), m.to_owned()));
    let all = query("pods", None, "", "");
    for limit in [0, 1, 2, 3] {
        assert_eq!(listed(&backup, &all, limit).await, expected, "by {limit}");
        assert_eq!(listed(&memory, &all, limit).await, expected, "by {limit}");
    }
    for (namespace, place) in [("a-b", 0..1), ("a.b", 1..2), ("a", 2..4), ("ab", 4..5), ("a-", 0..0)] {
        let one = query("pods", Some(namespace), "", "");
        assert_eq!(listed(&backup, &one, 1).await, expected[place.clone()], "{namespace}");
        assert_eq!(listed(&memory, &one, 1).await, expected[place], "{namespace}");
    }
}

#[tokio::test]
async fn an_object_is_served_byte_for_byte() {
    let objects = objects();
    let backup = opened(&objects).await;
    for object in &objects {
        let found = backup.get(&key(object)).await.unwrap().unwrap();
        assert_eq!(found.body, object.to_string().as_bytes(), "{}", found.key);
        assert_eq!(found.key, key(object));
        assert_eq!(Some(found.api_version.as_str()), object["apiVersion"].as_str());
    }
    assert!(
        backup
            .get(&key(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}})))
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn types_are_those_of_the_backup_in_the_version_in_which_it_has_them() {
    let backup = opened(&objects()).await;
    let types = backup.types();
    let served = |group: &str, resource: &str| -> BTreeMap<String, (String, bool)> {
        let of_type = types.all().filter(|r| r.group == group && r.resource == resource);
        of_type.map(|r| (r.version.clone(), (r.kind.clone(), r.namespaced))).collect()
    };
    let only =
        |version: &str, kind: &str, namespaced| BTreeMap::from([(version.to_owned(), (kind.to_owned(), namespaced))]);
    // The definition serves v1 and v2, and the backup has it in v1.
    assert_eq!(served("example.com", "widgets"), only("v1", "Widget", true));
    // No definition came with these: their objects tell.
    assert_eq!(served("example.com", "gizmos"), only("v1", "Gizmo", false));
    // A built-in type that the backup has in another version than the built-in ones.
    assert_eq!(served("policy", "poddisruptionbudgets"), only("v1beta1", "PodDisruptionBudget", true));
    // Types of which the backup has nothing are there, and empty.
    assert_eq!(served("apps", "deployments"), only("v1", "Deployment", true));
    let widgets = types.find("example.com", "v1", "widgets").unwrap();
    assert_eq!(types.columns(widgets).unwrap()[0].json_path, ".spec.size");
    assert!(
        types
            .all()
            .all(|r| r.verbs == ["create"]
                || r.verbs.iter().all(|verb| ["get", "list", "watch"].contains(&verb.as_str())))
    );
}

#[tokio::test]
async fn its_contents_are_counted_by_type() {
    let objects = objects();
    let contents = opened(&objects).await.contents();
    let bytes = |kind: &str| -> u64 {
        let of_kind = objects.iter().filter(|object| object["kind"] == kind);
        of_kind.map(|object| object.to_string().len() as u64).sum()
    };
    let of = |group: &str, resource: &str, version: &str, objects: usize, kind: &str| TypeContents {
        resource: GroupResource::new(group, resource),
        versions: vec![version.to_owned()],
        objects,
        bytes: bytes(kind),
    };
    let mut expected = vec![
        of("", "namespaces", "v1", 2, "Namespace"),
        of("", "pods", "v1", 7, "Pod"),
        of("apiextensions.k8s.io", "customresourcedefinitions", "v1", 1, "CustomResourceDefinition"),
        of("example.com", "gizmos", "v1", 1, "Gizmo"),
        of("example.com", "widgets", "v1", 1, "Widget"),
        of("policy", "poddisruptionbudgets", "v1beta1", 1, "PodDisruptionBudget"),
    ];
    expected.sort_by(|a, b| a.resource.cmp(&b.resource));
    assert_eq!(contents, expected);
}

#[tokio::test]
async fn a_word_names_types_as_kubectl_takes_it() {
    let backup = opened(&objects()).await;
    for (word, expected) in [
        ("pods", &["pods"][..]),
        ("po", &["pods"]),
        ("Pod", &["pods"]),
        ("widget.example.com", &["widgets.example.com"]),
        ("gizmos", &["gizmos.example.com"]),
        ("ev", &["events", "events.events.k8s.io"]),
        ("deploy.apps", &["deployments.apps"]),
        ("deployments.v1.apps", &["deployments.apps"]),
        ("widget.example", &["widgets.example.com"]),
        ("deploy.example.com", &[]),
        ("none", &[]),
    ] {
        let found: Vec<String> = backup.resources_of(word).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{word}");
    }
}

#[tokio::test]
async fn nothing_can_be_written_and_nothing_ever_happens() {
    let objects = objects();
    let backup = opened(&objects).await;
    assert_eq!(backup.read_only(), Some("this is the backup \"b\", which can be read and not changed"));
    let (key, pod) = (key(&objects[2]), &objects[2]);
    let stored = backup.get(&key).await.unwrap().unwrap();
    assert!(matches!(backup.insert(&key, pod).await, Err(StoreError::ReadOnly)));
    assert!(matches!(backup.update(&key, stored.revision, pod).await, Err(StoreError::ReadOnly)));
    assert!(matches!(backup.remove(&key, stored.revision).await, Err(StoreError::ReadOnly)));
    let revision = *backup.revisions().borrow();
    let changes = backup.changes(stored.revision, None, 10).unwrap();
    assert_eq!((changes.changes.len(), changes.through), (0, revision));
    let page = backup.list(&query("pods", None, "", "")).await.unwrap();
    assert!(page.revision == revision && page.objects.iter().all(|object| object.revision <= revision));
}

#[tokio::test]
async fn a_backup_of_one_namespace_says_which() {
    let mut objects = objects();
    assert_eq!(opened(&objects).await.only_namespace(), None);
    objects.retain(|object: &Value| object["metadata"]["namespace"] != "b");
    assert_eq!(opened(&objects).await.only_namespace(), Some("a"));
    objects.retain(|object| object["metadata"]["namespace"].is_null());
    assert_eq!(opened(&objects).await.only_namespace(), None);
}
