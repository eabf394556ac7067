//! A dry run says what the real run does, and writes nothing.

use crate::support::{self, Run, Sandbox, eventually, program, run};
use lifeboat_testbed::{Fault, Nth, Proxy, Rule};
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;

const MANIFEST: &str = r#"
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: other}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}, data: {a: "1"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: same, namespace: shop}, data: {a: "1"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: lost, namespace: shop}, data: {a: "1"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: private, namespace: shop, labels: {velero.io/exclude-from-backup: "true"}}}
---
{apiVersion: v1, kind: Secret, metadata: {name: key, namespace: shop}, data: {k: b2xk}}
---
{apiVersion: v1, kind: Pod, metadata: {name: done, namespace: shop}, spec: {containers: []}, status: {phase: Succeeded}}
"#;

/// Every file below a folder, with its content.
fn files(folder: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut out = Vec::new();
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            out.extend(files(&path));
        } else {
            out.push((path.display().to_string(), std::fs::read(&path).expect("a file")));
        }
    }
    out.sort();
    out
}

struct Bed {
    sandbox: Sandbox,
    folder: tempfile::TempDir,
}

impl Bed {
    fn local(&self, args: &[&str]) -> Run {
        let mut command = Command::new(program());
        command.arg("local").args(args).arg("--bucket").arg(self.folder.path().join("bucket"));
        command.env("KUBECONFIG", self.sandbox.kubeconfig());
        command.env("XDG_STATE_HOME", self.folder.path().join("state"));
        run(&mut command)
    }

    fn kubectl(&self, args: &[&str]) -> String {
        self.sandbox.kubectl().try_run(args).unwrap_or_else(|e| panic!("{e:#}"))
    }
}

#[test]
fn a_dry_run_tells_and_writes_nothing() {
    let bed = Bed { sandbox: Sandbox::start(MANIFEST), folder: tempfile::tempdir().expect("a folder") };
    let backup = ["backup", "one", "--include-namespaces", "shop", "--exclude-resources", "events,serviceaccounts"];
    let run = bed.local(&[&backup[..], &["--dry-run"]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(files(bed.folder.path()), vec![], "no bucket, no state");
    let lines: Vec<&str> = run.out.lines().map(str::trim_end).collect();
    let columns = |line: &str| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    let table: Vec<String> = lines[..5].iter().map(|line| columns(line)).collect();
    // One ConfigMap is kube-root-ca.crt.
    assert_eq!(table, ["TYPE OBJECTS", "configmaps 4", "namespaces 1", "pods 1", "secrets 1"], "{run:?}");
    assert!(lines.contains(&"  1 of configmaps: labelled velero.io/exclude-from-backup=true"), "{run:?}");
    assert!(lines.contains(&"  events: excluded by excludedResources"), "{run:?}");
    assert_eq!(lines.last(), Some(&"Would save 7 objects of 4 types. Nothing was written."));

    let run = bed.local(&backup);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.out.contains(" 7 objects,"), "the dry run counted what was saved: {run:?}");
    let again = bed.local(&[&backup[..], &["--dry-run"]].concat());
    assert_eq!((again.code, again.err.contains("already exists")), (1, true), "{again:?}");

    bed.kubectl(&[
        "patch",
        "configmap/settings",
        "--namespace=shop",
        "--type=merge",
        "--patch",
        r#"{"data":{"a":"2","b":"3"}}"#,
    ]);
    bed.kubectl(&["patch", "secret/key", "--namespace=shop", "--type=merge", "--patch", r#"{"data":{"k":"bmV3"}}"#]);
    bed.kubectl(&["delete", "configmap/lost", "--namespace=shop"]);
    let before = (files(bed.folder.path()), bed.kubectl(&["get", "all,configmaps,secrets", "-A", "-o", "json"]));
    let restore = ["restore", "r", "--from-backup", "one"];
    let run = bed.local(&[&restore[..], &["--dry-run"]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    let lines: Vec<&str> = run.out.lines().map(str::trim_end).collect();
    assert_eq!(
        lines[..5],
        [
            "TYPE        CREATE  UPDATE  RECREATE  UNCHANGED  SKIP  CONFLICT  REFUSED",
            "configmaps  1       0       0         1          1     1         0",
            "namespaces  0       0       0         1          0     0         0",
            "pods        0       0       0         0          1     0         0",
            "secrets     0       0       0         0          0     1         0",
        ]
    );
    let created_or_unchanged = |line: &&str| line.starts_with("create ") || line.starts_with("unchanged ");
    assert!(!lines.iter().any(created_or_unchanged), "{run:?}");
    let run = bed.local(&[&restore[..], &["--dry-run", "--details"]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    let (_, details) = run.out.split_once("\n\n").expect("a table, then details");
    let (details, digest) = details.rsplit_once("Plan: sha256:").expect("the digest of the plan");
    assert_eq!(digest.trim_end().len(), 64, "{run:?}");
    assert_eq!(
        details,
        "unchanged namespaces/shop
conflict  secrets/shop/key: it is there, differs, and stays as it is
            /data/k: \"(hidden)\" -> \"(hidden)\"
skip      configmaps/shop/kube-root-ca.crt: controllers make it in every namespace
create    configmaps/shop/lost
unchanged configmaps/shop/same
conflict  configmaps/shop/settings: it is there, differs, and stays as it is
            /data/a: \"2\" -> \"1\"
            /data/b: \"3\" -> (absent)
skip      pods/shop/done: it has ended, and is not started again

Would create 1 objects, update 0, leave 2 that are as in the backup and 2 that differ, skip 2; 0 cannot be restored. Nothing was written.
"
    );
    let update = [&restore[..], &["--existing-resource-policy", "update", "--dry-run", "-o", "json", "--show-secrets"]];
    let run = bed.local(&update.concat());
    let seen: Value = serde_json::from_str(&run.out).expect("JSON");
    assert_eq!(
        seen["counts"],
        json!({"create": 1, "update": 2, "recreate": 0, "unchanged": 2, "skip": 2, "conflict": 0, "refused": 0, "extra": 0, "remove": 0})
    );
    let key = json!({"action": "update", "type": "secrets", "namespace": "shop", "name": "key",
        "differences": [{"path": "/data/k", "inCluster": "bmV3", "inBackup": "b2xk"}]});
    let mut item =
        seen["items"].as_array().expect("items").iter().find(|item| item["name"] == "key").expect("it").clone();
    // What a plan holds it to.
    let map = item.as_object_mut().expect("a map");
    let digests = ["found", "written"].map(|name| map.remove(name).and_then(|digest| digest.as_str().map(str::len)));
    assert_eq!((item, digests), (key, [Some(32); 2]), "{run:?}");
    let after = (files(bed.folder.path()), bed.kubectl(&["get", "all,configmaps,secrets", "-A", "-o", "json"]));
    assert_eq!(before, after, "nothing was written");

    // The real run does what was said.
    let run = bed.local(&[&restore[..], &["--existing-resource-policy", "update"]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    let run = bed.local(&[&restore[..], &["--dry-run", "-o", "json"]].concat());
    let seen: Value = serde_json::from_str(&run.out).expect("JSON");
    assert_eq!(
        seen["counts"],
        json!({"create": 0, "update": 0, "recreate": 0, "unchanged": 5, "skip": 2, "conflict": 0, "refused": 0, "extra": 0, "remove": 0}),
        "{run:?}"
    );
}

#[test]
fn a_dry_run_leaves_the_folder_that_another_command_makes_meanwhile() {
    let bed = support::Bed::start();
    let (proxy, kubeconfig) = Proxy::before_api_server(&bed.plane.kubeconfig(), "slow").expect("a proxy");
    proxy.script(vec![Rule::new("*", "*", Nth::Only(1), Fault::Delay(Duration::from_secs(2)))]);
    std::thread::scope(|scope| {
        let preview = scope.spawn(|| bed.local_through(&kubeconfig, &["backup", "b", "--dry-run"]));
        eventually("its first request", || proxy.is_met());
        std::fs::create_dir_all(bed.bucket()).expect("a folder");
        let run = preview.join().expect("its end");
        assert_eq!((run.code, bed.bucket().exists()), (0, true), "{run:?}");
    });
}
