//! Tests of comparing two backups: each change is found, and none is invented.

use crate::ground::{Fate, fate, key, objects, opened};
use lifeboat_browse::{Diff, DiffCounts, DiffScope, ObjectChange};
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_patch::Difference;
use lifeboat_select::Selector;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

async fn diff(before: &[Value], after: &[Value], scope: DiffScope) -> (Vec<(ObjectKey, ObjectChange)>, DiffCounts) {
    let (before, after) = (opened(before).await, opened(after).await);
    let mut diff = Diff::new(&before, &after, scope);
    let mut found = Vec::new();
    while let Some(object) = diff.next().await.unwrap() {
        found.push((object.key, object.change));
    }
    (found, diff.counts())
}

fn named(objects: &mut [Value], name: &str) -> usize {
    objects.iter().position(|object| object["metadata"]["name"] == name).unwrap()
}

/// The last bit of a change of the label.
fn label(from: &str, to: &str) -> ObjectChange {
    let (left, right) = (Some(from.into()), Some(to.into()));
    ObjectChange::Changed(vec![Difference { path: "/metadata/labels/app".to_owned(), left, right }])
}

#[tokio::test]
async fn objects_added_removed_or_changed_are_told_and_writes_of_servers_not() {
    let before = objects();
    let mut after = before.clone();
    let at = named(&mut after, "pod-1");
    after.remove(at);
    let at = named(&mut after, "pod-3");
    let mut new = after[at].clone();
    new["metadata"]["name"] = "pod-9".into();
    after[at]["metadata"]["labels"]["app"] = "other".into();
    after.push(new);
    // What a controller writes, and what belongs to one life.
    let at = named(&mut after, "pod-2");
    after[at]["status"]["phase"] = "Failed".into();
    after[at]["metadata"]["resourceVersion"] = "999".into();
    after.push(json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "a"}}));

    let (found, counts) = diff(&before, &after, DiffScope::default()).await;
    let pod = |name: &str| ObjectKey::new(GroupResource::new("", "pods"), Some("a"), name);
    assert_eq!(
        found,
        [
            (pod("pod-1"), ObjectChange::Removed),
            (pod("pod-3"), label("web", "other")),
            (pod("pod-9"), ObjectChange::Added)
        ]
    );
    assert_eq!(counts, DiffCounts { added: 1, removed: 1, changed: 1, unchanged: before.len() - 2, left_out: 1 });
    assert_eq!(diff(&after, &after, DiffScope::default()).await.0, []);
}

#[tokio::test]
async fn an_object_that_is_nested_too_deeply_to_be_restored_is_compared_too() {
    let gizmo = |name: &str, inside: &str| {
        let deep = (0..200).fold(json!(inside), |inside, _| json!([inside]));
        json!({"apiVersion": "example.com/v1", "kind": "Gizmo", "metadata": {"name": name, "uid": inside}, "deep": deep})
    };
    let before = [gizmo("changed", "1"), gizmo("same", "1")];
    let mut after = [gizmo("changed", "2"), gizmo("same", "1")];
    // Other bytes, and no change.
    after[1]["metadata"]["resourceVersion"] = "9".into();
    let (found, counts) = diff(&before, &after, DiffScope::default()).await;
    let ObjectChange::Changed(differences) = &found[0].1 else { panic!("{found:?}") };
    let paths: Vec<&str> = differences.iter().map(|one| one.path.as_str()).collect();
    assert_eq!((&*found[0].0.name, paths), ("changed", vec![&*format!("/deep{}", "/0".repeat(31))]));
    assert_eq!(counts, DiffCounts { changed: 1, unchanged: 1, ..DiffCounts::default() });
}

#[tokio::test]
async fn only_what_is_asked_for_is_compared() {
    let before = objects();
    let only = |count: usize, scope: DiffScope| {
        let before = before.clone();
        async move {
            let found = diff(&before, &[], scope).await.0;
            assert_eq!(found.len(), count, "{found:?}");
        }
    };
    let set = |words: &[&str]| -> BTreeSet<String> { words.iter().map(|word| (*word).to_owned()).collect() };
    // Three pods, a custom resource, and the namespace.
    only(5, DiffScope { namespaces: set(&["a"]), ..DiffScope::default() }).await;
    let pods = BTreeSet::from([GroupResource::new("", "pods")]);
    only(7, DiffScope { resources: pods.clone(), ..DiffScope::default() }).await;
    only(4, DiffScope { namespaces: set(&["b"]), resources: pods, ..DiffScope::default() }).await;
    let web = Selector::parse("app=web").unwrap();
    only(3, DiffScope { selector: web.clone(), ..DiffScope::default() }).await;
    // Labels count as they are on either side.
    let mut after = before.clone();
    let at = named(&mut after, "pod-3");
    after[at]["metadata"]["labels"]["app"] = "other".into();
    for (left, right) in [(&before, &after), (&after, &before)] {
        let scope = DiffScope { selector: web.clone(), ..DiffScope::default() };
        assert_eq!(diff(left, right, scope).await.0.len(), 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_change_is_found_and_none_is_invented(fates in prop::collection::vec(fate(), 40)) {
        let object = |n: usize, value: &str, revision: u32| {
            let (name, namespace) = (format!("c-{n}"), format!("n-{}", n % 3));
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": namespace, "uid": n.to_string(), "resourceVersion": revision.to_string()},
                "data": {"x": value}})
        };
        let (mut before, mut after, mut expected) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (n, fate) in fates.iter().enumerate() {
            let old = object(n, "1", 1);
            let (old, new, told) = match fate {
                Fate::Stays => (Some(old.clone()), Some(old), None),
                Fate::Goes => (Some(old), None, Some("removed")),
                Fate::Comes => (None, Some(old), Some("added")),
                Fate::Changes => (Some(old), Some(object(n, "2", 2)), Some("changed")),
                Fate::Lives => (Some(old), Some(object(n, "1", 3)), None),
            };
            expected.extend(told.map(|told| (key(&object(n, "", 0)), told)));
            before.extend(old);
            after.extend(new);
        }
        // The order of an archive is its own.
        after.reverse();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (found, counts) = runtime.block_on(diff(&before, &after, DiffScope::default()));
        let told = |change: &ObjectChange| match change {
            ObjectChange::Added => "added",
            ObjectChange::Removed => "removed",
            ObjectChange::Changed(_) => "changed",
        };
        prop_assert!(found.is_sorted_by(|a, b| a.0 < b.0));
        let compared = counts.added + counts.removed + counts.changed + counts.unchanged;
        prop_assert_eq!((compared, counts.left_out), (fates.len(), 0));
        prop_assert_eq!(found.iter().map(|(key, change)| (key.clone(), told(change))).collect::<BTreeMap<_, _>>(), expected);
    }
}
