//! Storage locations: what lies in a bucket shows up in the cluster, at little cost.

use crate::ground::{BUCKET, Ground, copy};
use crate::support::eventually;
use lifeboat_testbed::{Proxy, Seen};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;

/// scenario: Backups, BackupsSync
/// scenario: Upgrade
#[test]
fn a_bucket_that_velero_filled_shows_up() {
    let ground = Ground::start();
    let bucket = ground.directory("default", &json!({"default": true, "backupSyncPeriod": "1s"}));
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/testbed/fixtures/velero/backups/one-ns");
    copy(&golden, &bucket.join("backups/one-ns"));
    for name in ["cluster-false", "scoped", "selector"] {
        copy(&golden.with_file_name(name), &bucket.join("backups").join(name));
    }
    // Half-written: no record yet.
    copy(&golden, &bucket.join("backups/half"));
    std::fs::remove_file(bucket.join("backups/half/velero-backup.json")).expect("a record");
    // Velero's server may still be there: it never asks who leads.
    ground.create(&json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "velero-1", "namespace": "velero", "labels": {"deploy": "velero"}},
        "spec": {"containers": [{"name": "velero", "image": "velero/velero:v1.18.2", "args": ["server"]}]}}));
    let _server = ground.server("one");
    eventually("a word about the other server", || ground.log("one").contains("waiting until it has ended"));
    assert!(ground.get("lease", "lifeboat-server").is_null());
    ground.bed.kubectl(&["delete", "pod", "velero-1", "--namespace=velero", "--force", "--grace-period=0"]);
    let found = ground.until("backup", "one-ns", "Completed");
    assert_eq!(found["spec"]["storageLocation"], "default");
    assert_eq!(found["metadata"]["labels"]["velero.io/storage-location"], "default");
    for name in ["cluster-false", "scoped", "selector"] {
        let record = std::fs::read(bucket.join(format!("backups/{name}/velero-backup.json"))).expect("a record");
        let record: Value = serde_json::from_slice(&record).expect("JSON");
        eventually("the others", || ground.get("backup", name)["status"] == record["status"]);
    }

    ground.velero("Restore", "r", &json!({"backupName": "one-ns", "includedResources": ["configmaps"]}));
    ground.until("restore", "r", "Completed");
    assert!(!ground.maps("app1").is_empty());
    assert!(ground.get("backup", "half").is_null());

    what_was_never_finished_goes(&ground, &bucket);

    // Its files are lost: so is the object, and only then.
    std::fs::remove_dir_all(bucket.join("backups/one-ns")).expect("the files");
    ground.until_gone("backup", "one-ns");
}

/// Unfinished files go when it was this server that left them, long ago. Those of others stay, and a new Backup may
/// have the name of one that is gone.
fn what_was_never_finished_goes(ground: &Ground, bucket: &Path) {
    let here = ground.bed.kubectl(&["get", "namespace", "kube-system", "--output=jsonpath={.metadata.uid}"]);
    let now = jiff::Timestamp::now();
    let old = now - jiff::SignedDuration::from_hours(2);
    for (name, cluster, namespace, claimed) in [
        ("left", here.as_str(), "velero", old),
        ("left-now", &here, "velero", now),
        ("left-elsewhere", "another", "velero", old),
        ("left-by-another", &here, "other", old),
        ("left-by-a-command", &here, "", old),
    ] {
        let mut claim = json!({"format": "lifeboat.io/claim/v1", "clusterUID": cluster, "backupUID": "gone",
            "namespace": namespace, "attempt": 1, "claimed": claimed});
        if namespace.is_empty() {
            claim.as_object_mut().expect("a map").remove("namespace");
        }
        let folder = bucket.join("backups").join(name);
        std::fs::create_dir(&folder).expect("a folder");
        for (file, body) in [("lifeboat-claim.json", claim.to_string()), ("left.tar.gz", "x".into())] {
            std::fs::write(folder.join(file), body).expect("a file");
        }
    }
    eventually("the sweep", || !bucket.join("backups/left/lifeboat-claim.json").exists());
    assert!(!bucket.join("backups/left/left.tar.gz").exists(), "the claim is the last to go");
    for name in ["half", "left-now", "left-elsewhere", "left-by-another", "left-by-a-command"] {
        let files = std::fs::read_dir(bucket.join("backups").join(name)).expect("a folder");
        assert!(files.count() > 1, "{name} is not ours to remove");
    }
    ground.velero("Backup", "left-now", &json!({"includedNamespaces": ["app1"]}));
    ground.until("backup", "left-now", "Completed");
    ground.velero("Backup", "left-by-another", &json!({"includedNamespaces": ["app1"]}));
    let refused = ground.until("backup", "left-by-another", "Failed");
    assert_eq!(refused["status"]["failureReason"], "backup already exists in object storage");
}

/// However many backups a bucket holds, a sync reads the new ones only.
#[test]
fn a_sync_reads_what_is_new() {
    const MANY: usize = 1000;
    let ground = Ground::start();
    let proxy = Proxy::start(ground.s3.endpoint(), None).expect("a proxy");
    let record = |name: &str| {
        json!({"kind": "Backup", "apiVersion": "velero.io/v1", "metadata": {"name": name, "namespace": "velero"},
            "spec": {"storageLocation": "main"}, "status": {"phase": "Completed"}})
    };
    let put = |name: &str| {
        let file = ground.s3.file(BUCKET, &format!("main/backups/{name}/velero-backup.json"));
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        std::fs::write(file, record(name).to_string()).expect("write");
    };
    (0..MANY).for_each(|n| put(&format!("b{n}")));
    ground.s3_location("main", proxy.url());
    let patch = r#"{"spec":{"backupSyncPeriod":"1s"}}"#;
    ground.bed.kubectl(&["patch", "backupstoragelocation", "main", "-n", "velero", "--type=merge", "-p", patch]);
    let _server = ground.server("one");
    let count = || ground.bed.objects("backups", "velero").len();
    eventually("all backups", || count() == MANY);
    let synced = || ground.get("backupstoragelocation", "main")["status"]["lastSyncedTime"].clone();
    let passes = |n: usize| {
        for _ in 0..n {
            let before = synced();
            eventually("another pass", || synced() != before);
        }
    };
    passes(2);
    let _ = proxy.take_seen();
    let begun = Instant::now();
    passes(3);
    let seen = proxy.take_seen();
    // One begins each second, also those that a test on a busy machine does not see.
    let most_passes = usize::try_from(begun.elapsed().as_secs()).expect("some seconds") + 2;
    let reads = |seen: &[Seen]| seen.iter().filter(|s| s.path.contains("/velero-backup.json")).count();
    assert!(seen.iter().all(|s| s.method == "GET" && s.path.contains("list-type=2")), "{seen:?}");
    // A page holds a thousand names; the validation of the location lists too.
    assert!(seen.len() <= 2 * most_passes + 2, "{} requests: {seen:?}", seen.len());
    put("new");
    eventually("the new one", || count() == MANY + 1);
    passes(2);
    assert_eq!(reads(&proxy.take_seen()), 1);
}

/// A location is validated and synced in one visit, which one write notes.
#[test]
fn a_location_costs_one_write_a_visit() {
    let ground = Ground::start();
    let bucket = Proxy::start(ground.s3.endpoint(), None).expect("a proxy");
    ground.s3_location("main", bucket.url());
    ground.s3_location("second", bucket.url());
    for name in ["main", "second"] {
        let patch = json!({"spec": {"validationFrequency": "2s", "backupSyncPeriod": "2s", "default": name == "main"}});
        let patch = patch.to_string();
        ground.bed.kubectl(&["patch", "backupstoragelocation", name, "-n", "velero", "--type=merge", "-p", &patch]);
    }
    let (api, kubeconfig) = Proxy::before_api_server(&ground.bed.plane.kubeconfig(), "visits").expect("a proxy");
    let _server = ground.server_with("one", &kubeconfig, &[]);
    for name in ["main", "second"] {
        let status = || ground.get("backupstoragelocation", name)["status"].clone();
        eventually("the first visits", || status()["lastSyncedTime"].is_string());
        let both = [&status()["lastValidationTime"], &status()["lastSyncedTime"]].map(Value::to_string);
        eventually("a visit after them", || {
            let status = status();
            let times = [&status["lastValidationTime"], &status["lastSyncedTime"]].map(Value::to_string);
            times[0] != both[0] && times[1] != both[1]
        });
        let is_patch =
            |seen: &Seen| seen.method == "PATCH" && seen.path.contains(&format!("/backupstoragelocations/{name}"));
        let is_look = |seen: &Seen| {
            seen.path.contains(&format!("prefix={name}%2F&")) || seen.path.ends_with(&format!("prefix={name}%2F"))
        };
        let (mut patches, mut looks) = (0, 0);
        let _ = (api.take_seen(), bucket.take_seen());
        eventually("more visits", || {
            looks += bucket.take_seen().iter().filter(|seen| is_look(seen)).count();
            patches += api.take_seen().iter().filter(|seen| is_patch(seen)).count();
            looks > 4
        });
        // One may be under way at the beginning, and one at the end.
        assert!(patches.abs_diff(looks) <= 1, "{patches} writes for {looks} looks");
    }
}
