//! Tests of comparing a backup with a cluster: each change of the cluster is found, and none is invented.

use crate::ground::{Fate, fate, key, objects, opened};
use lifeboat_api::{Backup, BackupPhase};
use lifeboat_browse::{DiffCounts, DiffScope, LiveCluster, LiveDiff, ObjectChange};
use lifeboat_cluster::{Cluster, ConnectOptions};
use lifeboat_object::{ApiResource, GroupResource, chain};
use lifeboat_sandbox::{ListQuery, Sandbox, SandboxOptions, Selector};
use lifeboat_testbed::{Fault, Nth, Proxy, Rule};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

/// A cluster of its own.
struct World {
    sandbox: Sandbox,
    cluster: Cluster,
}

impl World {
    /// With these objects; the lists come by pages of seven.
    async fn of(objects: &[Value]) -> Self {
        let sandbox = Sandbox::start(SandboxOptions::for_tests()).await.unwrap();
        let cluster = connected(&sandbox.kubeconfig()).await;
        sandbox.apply(objects.to_vec()).await.unwrap();
        Self { sandbox, cluster }
    }

    /// All its objects, as a backup has them.
    async fn saved(&self) -> Vec<Value> {
        let store = self.sandbox.store();
        let types: BTreeSet<GroupResource> = store.types().all().map(|api| api.group_resource()).collect();
        let mut saved = Vec::new();
        for resource in types {
            let selector = Selector::parse(&resource.resource, "", "").unwrap();
            let query = ListQuery { resource, namespace: None, selector, after: None, limit: 0, revision: None };
            let listed = store.list(&query).await.unwrap().objects;
            saved.extend(listed.iter().map(|object| serde_json::from_slice::<Value>(&object.body).unwrap()));
        }
        saved
    }

    async fn apply(&self, object: Value) {
        self.sandbox.apply(vec![object]).await.unwrap();
    }

    async fn remove(&self, object: &Value) {
        let store = self.sandbox.store();
        let key = key(object);
        let revision = store.get(&key).await.unwrap().unwrap().revision;
        store.remove(&key, revision).await.unwrap();
    }

    async fn diff(&self, before: &[Value], record: &Backup, scope: DiffScope) -> Found {
        let (found, errors) = diff(&self.cluster, before, record, scope).await;
        assert_eq!(errors, [""; 0]);
        found
    }

    /// The same cluster, of which some requests go wrong.
    async fn with_faults(&self, rules: Vec<Rule>) -> (Proxy, Cluster) {
        let sandbox = &self.sandbox;
        let proxy = Proxy::start(&format!("https://{}", sandbox.address()), Some(sandbox.authority_pem())).unwrap();
        proxy.script(rules);
        let cluster = connected(&proxy.kubeconfig("token")).await;
        (proxy, cluster)
    }
}

/// A client whose lists come by pages of seven.
async fn connected(kubeconfig: &str) -> Cluster {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(kubeconfig.as_bytes()).unwrap();
    let options = ConnectOptions {
        kubeconfig: Some(file.path().to_owned()),
        user_agent: "test".to_owned(),
        page_size: Some(7),
        ..ConnectOptions::default()
    };
    Cluster::connect(&options).await.unwrap()
}

/// Compares; gives the findings, and the errors of single types.
async fn diff(cluster: &Cluster, before: &[Value], record: &Backup, scope: DiffScope) -> (Found, Vec<String>) {
    let before = opened(before).await;
    let live = LiveCluster::discover(cluster).await.unwrap();
    let mut diff = LiveDiff::begin(&before, record, &live, scope).await.unwrap();
    let (mut objects, mut errors) = (Vec::new(), Vec::new());
    loop {
        match diff.next().await {
            Ok(Some(object)) => objects.push((object.key.to_string(), told(&object.change))),
            Ok(None) => break,
            Err(e) => {
                assert!(e.resource().is_some(), "{e}");
                errors.push(chain(&e));
            }
        }
    }
    objects.sort();
    (Found { objects, counts: diff.counts(), notes: diff.notes().to_vec() }, errors)
}

/// The findings of a comparison.
#[derive(Clone, Debug, PartialEq)]
struct Found {
    objects: Vec<(String, &'static str)>,
    counts: DiffCounts,
    notes: Vec<String>,
}

fn told(change: &ObjectChange) -> &'static str {
    match change {
        ObjectChange::Added => "added",
        ObjectChange::Removed => "removed",
        ObjectChange::Changed(_) => "changed",
    }
}

/// The record of a finished backup of everything.
fn record() -> Backup {
    let mut record = Backup::default();
    record.status.phase = Some(BackupPhase::Completed);
    record
}

fn config_map(namespace: &str, name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {"x": value}})
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn list<'a>(objects: &'a [(String, &'static str)]) -> Vec<(&'a str, &'static str)> {
    objects.iter().map(|(name, told)| (name.as_str(), *told)).collect()
}

/// Objects of all the types that a cluster without other definitions serves.
fn stock() -> Vec<Value> {
    objects()
        .into_iter()
        .filter(|object| object["kind"] != "Gizmo" && object["kind"] != "PodDisruptionBudget")
        .collect()
}

#[tokio::test]
async fn right_after_a_backup_nothing_has_changed() {
    let world = World::of(&stock()).await;
    let saved = world.saved().await;
    let found = world.diff(&saved, &record(), DiffScope::default()).await;
    let counts = DiffCounts { unchanged: saved.len(), ..DiffCounts::default() };
    assert_eq!(found, Found { objects: vec![], counts, notes: vec![] });
}

#[tokio::test]
async fn live_changes_are_told_and_objects_that_clusters_make_are_not() {
    let world = World::of(&stock()).await;
    let saved = world.saved().await;
    world.apply(namespace("c")).await;
    world.apply(config_map("c", "new", "1")).await;
    let pod = |name: &str| saved.iter().find(|object| object["metadata"]["name"] == name).unwrap().clone();
    world.remove(&pod("pod-1")).await;
    let mut other = pod("pod-3");
    other["metadata"]["labels"]["app"] = "other".into();
    world.apply(other).await;
    let mut ran = pod("pod-5");
    ran["status"]["phase"] = "Failed".into();
    world.apply(ran).await;
    world.apply(json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "a"}})).await;
    world
        .apply(json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l", "namespace": "a"}}))
        .await;
    let mut root = config_map("a", "kube-root-ca.crt", "1");
    root["metadata"]["labels"] = json!({});
    world.apply(root).await;
    let mut kept_out = config_map("a", "kept-out", "1");
    kept_out["metadata"]["labels"] = json!({"velero.io/exclude-from-backup": "true"});
    world.apply(kept_out).await;
    let found = world.diff(&saved, &record(), DiffScope::default()).await;
    assert_eq!(
        list(&found.objects),
        [
            ("configmaps/c/new", "added"),
            ("namespaces/c", "added"),
            ("pods/a/pod-1", "removed"),
            ("pods/a/pod-3", "changed"),
        ]
    );
    let counts = DiffCounts { added: 2, removed: 1, changed: 1, unchanged: saved.len() - 3, left_out: 3 };
    assert_eq!(found.counts, counts);
}

#[tokio::test]
async fn an_object_that_is_being_deleted_is_told() {
    let world = World::of(&stock()).await;
    let saved = world.saved().await;
    let mut pod = saved.iter().find(|object| object["metadata"]["name"] == "pod-3").unwrap().clone();
    let (store, key) = (world.sandbox.store(), key(&pod));
    let revision = store.get(&key).await.unwrap().unwrap().revision;
    pod["metadata"]["deletionTimestamp"] = "2026-11-26T00:00:00Z".into();
    store.update(&key, revision, &pod).await.unwrap();
    let found = world.diff(&saved, &record(), DiffScope::default()).await;
    assert_eq!(list(&found.objects), [("pods/a/pod-3", "changed")]);
}

#[tokio::test]
async fn a_backup_of_a_part_is_compared_with_that_part() {
    let world = World::of(&stock()).await;
    let everything = world.saved().await;
    let in_a = |object: &Value| object["metadata"]["namespace"] == "a" || object["metadata"]["name"] == "a";
    let mut of_a: Vec<Value> = everything.iter().filter(|object| in_a(object)).cloned().collect();
    let mut record = record();
    record.spec.included_namespaces = vec!["a*".to_owned()];
    world.apply(config_map("b", "elsewhere", "1")).await;
    world.apply(namespace("apart")).await;
    world.apply(config_map("apart", "new", "1")).await;
    world.apply(config_map("a", "new", "1")).await;
    let found = world.diff(&of_a, &record, DiffScope::default()).await;
    let added = [("configmaps/a/new", "added"), ("configmaps/apart/new", "added"), ("namespaces/apart", "added")];
    assert_eq!(list(&found.objects), added);

    // What the backup holds for the sake of others is compared, and nothing else of its type is missed.
    let definition = everything.iter().find(|object| object["kind"] == "CustomResourceDefinition").unwrap().clone();
    of_a.push(definition.clone());
    let mut changed = definition;
    changed["metadata"]["labels"] = json!({"x": "y"});
    world.apply(changed).await;
    let only = DiffScope {
        resources: [GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions")].into(),
        ..DiffScope::default()
    };
    let found = world.diff(&of_a, &record, only).await;
    assert_eq!(
        list(&found.objects),
        [("customresourcedefinitions.apiextensions.k8s.io/widgets.example.com", "changed")]
    );
}

#[tokio::test]
async fn with_a_label_selector_new_objects_count_by_label_and_known_ones_always() {
    let world = World::of(&stock()).await;
    let web = |object: &Value| object["metadata"]["labels"]["app"] == "web";
    let saved: Vec<Value> = world.saved().await.into_iter().filter(web).collect();
    let mut record = record();
    record.spec.label_selector = Some(lifeboat_select::parse_selector("app=web").unwrap());
    let mut lost = saved[0].clone();
    lost["metadata"]["labels"]["app"] = "other".into();
    let name = lost["metadata"]["name"].as_str().unwrap().to_owned();
    let place = lost["metadata"]["namespace"].as_str().unwrap().to_owned();
    world.apply(lost).await;
    world.apply(config_map("a", "plain", "1")).await;
    let mut new = config_map("a", "web", "1");
    new["metadata"]["labels"] = json!({"app": "web"});
    world.apply(new).await;
    let found = world.diff(&saved, &record, DiffScope::default()).await;
    let changed = format!("pods/{place}/{name}");
    // The namespace of what would be saved would be saved too.
    assert_eq!(
        list(&found.objects),
        [("configmaps/a/web", "added"), ("namespaces/a", "added"), (changed.as_str(), "changed")]
    );
}

#[tokio::test]
async fn only_what_is_asked_for_is_compared() {
    let world = World::of(&stock()).await;
    let saved = world.saved().await;
    for name in ["pod-1", "pod-2", "pod-3"] {
        world.remove(saved.iter().find(|object| object["metadata"]["name"] == name).unwrap()).await;
    }
    let mut new = config_map("a", "new", "1");
    new["metadata"]["labels"] = json!({"app": "web"});
    world.apply(new).await;
    world.apply(namespace("c")).await;
    let (world, saved) = (&world, &saved);
    let only = async |scope: DiffScope| world.diff(saved, &record(), scope).await.objects;
    let a: BTreeSet<String> = ["a".to_owned()].into();
    let in_a = [("configmaps/a/new", "added"), ("pods/a/pod-1", "removed"), ("pods/a/pod-3", "removed")];
    assert_eq!(list(&only(DiffScope { namespaces: a.clone(), ..DiffScope::default() }).await), in_a);
    let pods: BTreeSet<GroupResource> = [GroupResource::new("", "pods")].into();
    let in_pods = [("pods/a/pod-1", "removed"), ("pods/a/pod-3", "removed"), ("pods/b/pod-2", "removed")];
    assert_eq!(list(&only(DiffScope { resources: pods.clone(), ..DiffScope::default() }).await), in_pods);
    let without_pods = DiffScope { excluded: pods.clone(), ..DiffScope::default() };
    assert_eq!(list(&only(without_pods).await), [("configmaps/a/new", "added"), ("namespaces/c", "added")]);
    let selector = lifeboat_select::Selector::parse("app=web").unwrap();
    let labelled = [("configmaps/a/new", "added"), ("pods/a/pod-3", "removed")];
    assert_eq!(list(&only(DiffScope { selector, ..DiffScope::default() }).await), labelled);
    let both = DiffScope { namespaces: a, resources: pods, ..DiffScope::default() };
    assert_eq!(list(&only(both).await), in_a[1..]);
    let new_namespace = DiffScope { namespaces: ["c".to_owned()].into(), ..DiffScope::default() };
    assert_eq!(list(&only(new_namespace).await), [("namespaces/c", "added")]);
}

#[tokio::test]
async fn what_the_user_should_know_of_the_comparison_is_said() {
    let world = World::of(&stock()).await;
    let mut saved = world.saved().await;
    saved.push(json!({"apiVersion": "example.com/v1", "kind": "Gizmo", "metadata": {"name": "one"}}));
    let mut old = config_map("a", "budget", "1");
    old["apiVersion"] = "policy/v1beta1".into();
    old["kind"] = "PodDisruptionBudget".into();
    saved.push(old);
    let mut partial = record();
    partial.status.phase = Some(BackupPhase::PartiallyFailed);
    let found = world.diff(&saved, &partial, DiffScope::default()).await;
    assert_eq!(
        list(&found.objects),
        [("gizmos.example.com/one", "removed"), ("poddisruptionbudgets.policy/a/budget", "removed")]
    );
    let mut notes = found.notes.clone();
    notes.sort();
    assert_eq!(
        notes,
        [
            "gizmos.example.com: the cluster does not serve this type, so that all 1 of the backup are told as removed",
            "poddisruptionbudgets.policy: the cluster does not serve v1beta1, in which the backup has them; they are compared \
             with what it serves as v1",
            "the backup is PartiallyFailed: what it could not save is told as added",
        ]
    );

    // What policies have left out is not known.
    let mut with_policies = record();
    with_policies.metadata.annotations.insert("lifeboat.io/resource-policies".to_owned(), "file".to_owned());
    world.apply(config_map("a", "new", "1")).await;
    let pods = DiffScope { namespaces: ["a".to_owned()].into(), ..DiffScope::default() };
    let found = world.diff(&stock(), &with_policies, pods).await;
    assert!(found.objects.iter().all(|(_, told)| *told != "added"), "{found:?}");
    assert_eq!(
        found.notes,
        [
            "the backup has resource policies, which may have left objects out: objects that only the cluster has are not told"
        ]
    );
}

/// An answer of an API server that refuses.
fn refusal(code: u16, reason: &str, message: &str) -> Fault {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "code": code});
    Fault::Answer { status: code, headers: vec![], body: body.to_string() }
}

#[tokio::test]
async fn an_object_listed_twice_is_told_once_and_a_broken_page_is_read_again() {
    let many = (0..20).map(|n| config_map("a", &format!("c-{n:02}"), "1"));
    let world = World::of(&stock().into_iter().chain(many).collect::<Vec<_>>()).await;
    let saved = world.saved().await;
    for n in 0..20 {
        world.apply(config_map("a", &format!("d-{n:02}"), "1")).await;
    }
    world.apply(config_map("a", "c-03", "2")).await;
    world.remove(&config_map("a", "c-04", "")).await;
    let expected = world.diff(&saved, &record(), DiffScope::default()).await;
    assert_eq!((expected.counts.added, expected.counts.removed, expected.counts.changed), (20, 1, 1));
    let page = |nth: u64, fault: Fault| Rule::new("GET", "/api/v1/configmaps*", Nth::Only(nth), fault);
    let expired = || refusal(410, "Expired", "the continue token is too old");
    for rules in [vec![page(1, Fault::Truncate(900))], vec![page(3, Fault::Truncate(900))], vec![page(4, expired())]] {
        let what = format!("{rules:?}");
        let (_proxy, cluster) = world.with_faults(rules).await;
        let (found, errors) = diff(&cluster, &saved, &record(), DiffScope::default()).await;
        assert_eq!((found, errors), (expected.clone(), vec![]), "{what}");
    }
}

#[tokio::test]
async fn a_type_that_cannot_be_listed_is_named_and_the_others_are_compared() {
    let world = World::of(&stock()).await;
    let saved = world.saved().await;
    world.remove(saved.iter().find(|object| object["metadata"]["name"] == "pod-1").unwrap()).await;
    world.apply(config_map("a", "new", "1")).await;
    let forbidden = |path: &str| Rule::new("GET", path, Nth::Every, refusal(403, "Forbidden", "not for you"));
    let rules = ["/api/v1/pods*", "/apis/example.com/v1/widgets*", "/api/v1/namespaces?*"].map(forbidden);
    let (_proxy, cluster) = world.with_faults(rules.to_vec()).await;
    let (found, errors) = diff(&cluster, &saved, &record(), DiffScope::default()).await;
    assert_eq!(list(&found.objects), [("configmaps/a/new", "added")]);
    assert_eq!(
        errors,
        [
            "pods are not compared to the end: cannot list pods: not for you",
            "widgets.example.com are not compared to the end: cannot list widgets.example.com: not for you",
            "namespaces are not compared to the end: cannot list namespaces: not for you",
        ]
    );
}

#[tokio::test]
async fn the_lists_of_eight_namespaces_and_no_more_are_begun_at_once() {
    let spaces: Vec<String> = (0..20).map(|n| format!("n-{n:02}")).collect();
    let filled = spaces.iter().flat_map(|name| [namespace(name), config_map(name, "new", "1")]);
    let world = World::of(&filled.collect::<Vec<_>>()).await;
    let only = || DiffScope {
        namespaces: spaces.iter().cloned().collect(),
        resources: [GroupResource::new("", "configmaps")].into(),
        ..DiffScope::default()
    };
    let added: Vec<String> = spaces.iter().map(|name| format!("configmaps/{name}/new")).collect();
    let found = world.diff(&[], &record(), only()).await;
    assert_eq!(list(&found.objects), added.iter().map(|name| (name.as_str(), "added")).collect::<Vec<_>>());

    // The first list has no answer.
    let of_first = Rule::new("GET", "/api/v1/namespaces/n-00/configmaps*", Nth::Every, Fault::Hang);
    let (proxy, cluster) = world.with_faults(vec![of_first]).await;
    let (before, record) = (opened(&[]).await, record());
    let live = LiveCluster::discover(&cluster).await.unwrap();
    let mut diff = LiveDiff::begin(&before, &record, &live, only()).await.unwrap();
    let mut listed = BTreeSet::new();
    let mut take = || {
        let of_lists = proxy.take_seen().into_iter().filter(|seen| seen.path.contains("/configmaps"));
        listed.extend(of_lists.map(|seen| seen.path["/api/v1/namespaces/".len()..][..4].to_owned()));
        listed.len()
    };
    let all_that_are_begun = async {
        while take() < 7 {
            tokio::task::yield_now().await;
        }
        // Whatever was begun with them comes to the proxy before the last of these.
        for _ in 0..spaces.len() {
            cluster.get(&ApiResource::namespaces(), None, "n-00").await.unwrap();
        }
        take();
    };
    tokio::select! {
        next = diff.next() => panic!("{next:?}"),
        () = all_that_are_begun => {}
    }
    assert_eq!(listed, spaces[1..8].iter().cloned().collect());
}

/// The findings after random changes, and the expected ones.
async fn random(fates: &[Fate]) -> (Found, BTreeMap<String, &'static str>) {
    let object = |n: usize, value: &str| match n % 2 {
        0 => config_map(&format!("n-{}", n % 3), &format!("c-{n}"), value),
        _ => {
            let metadata = json!({"name": format!("s-{n}"), "namespace": format!("n-{}", n % 3)});
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"x": value}})
        }
    };
    let before = |(n, fate): (usize, &Fate)| (!matches!(fate, Fate::Comes)).then(|| object(n, "MQ=="));
    let spaces = ["n-0", "n-1", "n-2"].map(namespace);
    let stock: Vec<Value> = spaces.into_iter().chain(fates.iter().enumerate().filter_map(before)).collect();
    let world = World::of(&stock).await;
    let saved = world.saved().await;
    let mut expected = BTreeMap::new();
    for (n, fate) in fates.iter().enumerate() {
        let told = match fate {
            Fate::Stays => None,
            Fate::Goes => {
                world.remove(&object(n, "")).await;
                Some("removed")
            }
            Fate::Comes => {
                world.apply(object(n, "MQ==")).await;
                Some("added")
            }
            Fate::Changes => {
                world.apply(object(n, "Mg==")).await;
                Some("changed")
            }
            // Gone and made again as it was.
            Fate::Lives => {
                world.remove(&object(n, "")).await;
                world.apply(object(n, "MQ==")).await;
                None
            }
        };
        expected.extend(told.map(|told| (key(&object(n, "")).to_string(), told)));
    }
    (world.diff(&saved, &record(), DiffScope::default()).await, expected)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_change_is_found_and_none_is_invented(fates in prop::collection::vec(fate(), 40)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (found, expected) = runtime.block_on(random(&fates));
        let counts = found.counts;
        prop_assert_eq!(counts.added + counts.removed + counts.changed, expected.len());
        prop_assert_eq!(found.objects.into_iter().collect::<BTreeMap<_, _>>(), expected);
    }
}
