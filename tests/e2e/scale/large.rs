//! Large backups and restores, counted request by request: only what differs is written, and a backup asks for pages,
//! not for objects.

use crate::faults::{config_maps, namespace};
use crate::many;
use crate::support::{Bed, eventually};
use lifeboat_testbed::{ContainerCommand, Proxy, Ran, Seen};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// ConfigMaps of the large restore.
const MAPS: usize = 10_000;

/// A third of all stays as it is, a third is changed, and a third is lost.
fn fate(number: usize) -> &'static str {
    ["equal", "changed", "missing"][number % 3]
}

fn maps() -> Vec<Value> {
    let with_fate = |(number, mut map): (usize, Value)| {
        map["metadata"]["labels"] = json!({"fate": fate(number)});
        map
    };
    config_maps("large", MAPS).enumerate().map(with_fate).collect()
}

/// The number of writing requests, by method.
fn writes(seen: &[Seen]) -> BTreeMap<String, usize> {
    let mut out = BTreeMap::new();
    for request in seen.iter().filter(|request| request.method != "GET") {
        // Whether the namespace is there is found out by creating it.
        if (request.path.as_str(), request.status) != ("/api/v1/namespaces", 409) {
            assert!(request.status < 300 && request.path.contains("/namespaces/large/configmaps"), "{request:?}");
            *out.entry(request.method.clone()).or_default() += 1;
        }
    }
    out
}

/// Names of the ConfigMaps and their data.
fn data(bed: &Bed) -> BTreeMap<String, Value> {
    let list = bed.kubectl(&["get", "--raw", "/api/v1/namespaces/large/configmaps"]);
    let list: Value = serde_json::from_str(&list).expect("a list");
    let items = list["items"].as_array().expect("items").iter();
    let named = items.map(|map| (map["metadata"]["name"].as_str().expect("a name").to_owned(), map["data"].clone()));
    named.filter(|(name, _)| name != "kube-root-ca.crt").collect()
}

#[test]
fn a_large_restore_writes_only_changed_and_missing_objects() {
    let bed = Bed::start();
    let direct = bed.plane.kubeconfig();
    many::create(&direct, vec![namespace("large")]);
    bed.plane.store(&maps()).expect("the ConfigMaps");
    let before = data(&bed);
    let types = ["--include-resources", "configmaps"];
    let saved = bed.local(&[&["backup", "b", "--include-namespaces", "large"][..], &types].concat());
    assert_eq!(saved.code, 0, "{saved:?}");

    let changed: Vec<Value> = maps().into_iter().filter(|map| map["metadata"]["labels"]["fate"] == "changed").collect();
    let count = |wanted: &str| (0..MAPS).filter(|number| fate(*number) == wanted).count();
    assert_eq!(changed.len(), count("changed"));
    let changed = changed.into_iter().map(|mut map| {
        map["data"] = json!({"number": "drifted", "more": "yes"});
        map
    });
    bed.plane.store(&changed.collect::<Vec<_>>()).expect("the changes");
    // An API server that has much else to do gives up the deletion of thousands on its way.
    let missing = ["delete", "--raw", "/api/v1/namespaces/large/configmaps?labelSelector=fate%3Dmissing"];
    eventually("the deletion of the missing ones", || bed.plane.kubectl().try_run(&missing).is_ok());
    let (proxy, kubeconfig) = Proxy::before_api_server(&direct, "large").expect("a proxy");
    let line = ["restore", "r", "--from-backup", "b", "--existing-resource-policy", "update"];
    let run = bed.local_through(&kubeconfig, &line);
    assert_eq!(run.code, 0, "{run:?}");
    let expected = [("PATCH", "changed"), ("POST", "missing")].map(|(method, fate)| (method.to_owned(), count(fate)));
    assert_eq!(writes(&proxy.take_seen()), BTreeMap::from(expected));
    assert_eq!(data(&bed), before);

    // Nothing differs now, so nothing is written.
    let run = bed.local_through(
        &kubeconfig,
        &["restore", "again", "--from-backup", "b", "--existing-resource-policy", "update"],
    );
    assert_eq!((run.code, writes(&proxy.take_seen())), (0, BTreeMap::new()), "{run:?}");
}

/// Pods of the large backup, each with a claim of its own, and those of them that have a hook before and one after.
const PODS: usize = 5_000;
const WITH_HOOKS: usize = 25;
/// ConfigMaps of the large backup: with pods and claims there are 30,000 objects.
const OTHERS: usize = 20_000;
/// Objects that an answer to a list has at the most.
const PAGE: usize = 500;

fn pod(number: usize) -> Value {
    let annotations = if number < WITH_HOOKS {
        json!({"pre.hook.backup.velero.io/command": "freeze", "post.hook.backup.velero.io/command": "thaw"})
    } else {
        json!({})
    };
    let claim = json!({"name": "data", "persistentVolumeClaim": {"claimName": format!("claim-{number}")}});
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{number}"), "namespace": "large", "annotations": annotations},
        "spec": {"automountServiceAccountToken": false, "volumes": [claim],
            "containers": [{"name": "db", "image": "i:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]}})
}

fn claim(number: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": format!("claim-{number}"), "namespace": "large"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "none",
            "resources": {"requests": {"storage": "1Gi"}}}})
}

/// A controller manager that is paused until this goes: other tests use its cluster after this one.
struct PausedControllers {
    pid: String,
}

impl Drop for PausedControllers {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-CONT", &self.pid]).status();
    }
}

/// Pauses the controller manager of a cluster: it would tell of each claim again and again that nothing binds it.
fn pause_controllers(bed: &Bed) -> PausedControllers {
    let kubeconfig = bed.plane.kubeconfig().display().to_string();
    let is_it = |pid: &str| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        // Not the shell that looks after it: that one has to end it.
        let program = line.split('\0').next().unwrap_or_default();
        program.ends_with("/kube-controller-manager") && line.contains(&kubeconfig)
    };
    let processes =
        std::fs::read_dir("/proc").expect("processes").filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let found: Vec<String> = processes.filter(|pid| is_it(pid)).collect();
    assert_eq!(found.len(), 1, "one controller manager: {found:?}");
    assert!(Command::new("kill").args(["-STOP", &found[0]]).status().expect("kill").success());
    PausedControllers { pid: found[0].clone() }
}

#[test]
fn a_large_backup_asks_for_pages_and_runs_hooks_with_few_requests() {
    let bed = Bed::start();
    let direct = bed.plane.kubeconfig();
    many::create(&direct, vec![namespace("large")]);
    eventually("the service account of pods", || {
        bed.objects("serviceaccounts", "large").iter().any(|account| account["metadata"]["name"] == "default")
    });
    let _paused = pause_controllers(&bed);
    let mut objects: Vec<Value> = config_maps("large", OTHERS).collect();
    objects.extend((0..PODS).map(claim).chain((0..PODS).map(pod)));
    bed.plane.store(&objects).expect("the objects");

    let (proxy, kubeconfig) = Proxy::before_api_server(&direct, "large").expect("a proxy");
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    proxy.run_commands_by(Arc::new(move |_: &ContainerCommand| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ran::default()
    }));
    let run = bed.local_through(&kubeconfig, &["backup", "b", "-o", "json"]);
    assert_eq!(run.code, 0, "{run:?}");
    let backup: Value = serde_json::from_str(&run.out).expect("JSON");
    let hooks = 2 * WITH_HOOKS;
    assert_eq!(
        (ran.load(Ordering::Relaxed), &backup["status"]["hookStatus"]),
        (hooks, &json!({"hooksAttempted": hooks}))
    );
    let saved = backup["status"]["progress"]["itemsBackedUp"].as_u64().expect("a number");
    assert!(saved >= 30_000, "{saved} objects are in the backup");

    let seen = proxy.take_seen();
    let types = bed.kubectl(&["api-resources", "--verbs=list,create,get,delete", "--output=name"]).lines().count();
    let pages = [OTHERS, PODS, PODS].iter().map(|count| count.div_ceil(PAGE)).sum::<usize>();
    let most = 2 * types + pages + 4 * hooks + 50;
    let mut by_path: BTreeMap<&str, usize> = BTreeMap::new();
    for request in &seen {
        *by_path.entry(request.path.split(['?']).next().unwrap_or_default()).or_default() += 1;
    }
    assert!(seen.len() <= most, "{} requests, and no more than {most} are expected: {by_path:?}", seen.len());
    assert!(seen.iter().all(|request| request.method == "GET"), "a backup only reads");
}
