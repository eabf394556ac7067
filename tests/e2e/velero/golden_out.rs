//! In the state that Velero backed up, the same command lines save the same objects.

use crate::support::{Bed, eventually, gunzip_json};
use lifeboat_archive::{ArchivePath, ReadLimits, TarReader};
use lifeboat_testbed::{Proxy, Ran};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// The namespaces of the sample; the others hold what differs between any two clusters.
const NAMESPACES: [&str; 3] = ["app1", "app2", "app3-empty"];

/// The objects of an archive by path, generated parts of names replaced. Events are left out: which ones there are is a
/// matter of time.
fn objects(tarball: &Path) -> BTreeSet<String> {
    let bytes = std::fs::read(tarball).expect("an archive");
    let limits = ReadLimits::default();
    let mut reader = TarReader::new(lifeboat_archive::gzip::capped(bytes.as_slice(), limits.total), limits);
    let (mut out, mut body) = (BTreeSet::new(), Vec::new());
    while let Some(entry) = reader.next_file(&mut body).expect("an entry") {
        let ArchivePath::Object(path) = entry.path else {
            out.insert(entry.name);
            continue;
        };
        let namespace = path.key.namespace.clone().unwrap_or_default();
        let elsewhere = !namespace.is_empty() && !NAMESPACES.contains(&namespace.as_str());
        if elsewhere || path.key.resource.resource == "events" || is_of_the_cluster(&path.key.to_string()) {
            continue;
        }
        let object: Value = serde_json::from_slice(&body).expect("JSON");
        let name = &path.key.name;
        let stem = object["metadata"]["generateName"].as_str().filter(|stem| name.starts_with(stem));
        out.insert(match stem {
            Some(stem) => entry.name.replace(&format!("{name}.json"), &format!("{stem}*.json")),
            None => entry.name,
        });
    }
    out
}

/// Returns true for an object that every cluster has beside the sample.
fn is_of_the_cluster(key: &str) -> bool {
    let (resource, name) = key.split_once('/').unwrap_or((key, ""));
    resource == "namespaces" && !NAMESPACES.contains(&name)
}

fn differences(bed: &Bed, name: &str) -> Vec<String> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../crates/testbed/fixtures/velero/backups")
        .join(name)
        .join(format!("{name}.tar.gz"));
    let golden = objects(&golden);
    let ours = objects(&bed.bucket().join(format!("backups/{name}/{name}.tar.gz")));
    let missing = golden.difference(&ours).map(|p| format!("Velero's only: {p}"));
    let more = ours.difference(&golden).map(|p| format!("ours only: {p}"));
    // Both paths of an object differ alike: one is enough.
    missing.chain(more).filter(|p| !p.contains("-preferredversion")).collect()
}

fn sample(bed: &Bed) {
    bed.kubectl(&["create", "namespace", "velero"]);
    bed.apply("golden");
    let status = |object: &str, namespace: &str, patch: &str| {
        let namespace = format!("--namespace={namespace}");
        bed.kubectl(&["patch", object, &namespace, "--subresource=status", "--type=merge", "--patch", patch]);
    };
    status("widget/w1", "app1", r#"{"status":{"ready":true,"count":7}}"#);
    status("pod/lone", "app1", r#"{"status":{"phase":"Running","podIP":"10.9.9.9"}}"#);
    status("pod/done", "app1", r#"{"status":{"phase":"Succeeded"}}"#);
    status("pod/hooked", "app2", r#"{"status":{"phase":"Running"}}"#);
    bed.kubectl(&["create", "job", "yearly-1", "--from=cronjob/yearly", "--namespace=app1"]);
    for (what, count) in [("pods", 7), ("endpointslices", 4), ("controllerrevisions", 2)] {
        eventually(what, || bed.objects(what, "app1").len() == count);
    }
    eventually("the bound claims", || {
        let claims = bed.objects("persistentvolumeclaims", "app1");
        let claim = |name: &str| claims.iter().find(|claim| claim["metadata"]["name"] == name);
        ["data", "shared"].iter().all(|name| claim(name).is_some_and(|claim| claim["status"]["phase"] == "Bound"))
    });
}

#[test]
fn the_same_command_lines_save_the_same_objects() {
    let bed = Bed::start();
    sample(&bed);
    // A pod has hooks, and there is no node that could run them.
    let (proxy, kubeconfig) = Proxy::before_api_server(&bed.plane.kubeconfig(), "containers").expect("a proxy");
    proxy.run_commands_by(Arc::new(|_| Ran::default()));
    for (name, args, expected) in [
        ("one-ns", vec!["--include-namespaces", "app1"], ONE_NS),
        ("selector", vec!["-l", "tier=gold"], SELECTOR),
        (
            "scoped",
            vec![
                "--include-cluster-scoped-resources",
                "storageclasses,gadgets.example.com",
                "--include-namespace-scoped-resources",
                "configmaps,secrets,persistentvolumeclaims",
                "--exclude-namespaces",
                "velero,kube-system",
            ],
            SCOPED,
        ),
        ("cluster-false", vec!["--include-cluster-resources=false"], CLUSTER_FALSE),
    ] {
        let mut command = vec!["backup", name];
        command.extend(args);
        let run = bed.local_through(&kubeconfig, &command);
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(differences(&bed, name), expected, "{name}");
    }
    sidecars(&bed);
}

/// Records of volumes but for the reasons, and the empty files, are Velero's.
fn sidecars(bed: &Bed) {
    let read = |folder: &Path, file: &str| gunzip_json(&folder.join(format!("one-ns-{file}.json.gz")));
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/testbed/fixtures/velero/backups/one-ns");
    let ours = bed.bucket().join("backups/one-ns");
    for file in ["itemoperations", "podvolumebackups", "volumesnapshots"] {
        assert_eq!(read(&ours, file), read(&golden, file), "{file}");
    }
    let mut expected = read(&golden, "volumeinfo");
    let records = expected.as_array_mut().expect("records");
    // On purpose other reasons: those of Velero name no rule, and nothing that can be changed.
    for record in records.iter_mut() {
        record["skippedReason"] =
            "volumeSnapshot: snapshots are taken by default, but no applicable volumesnapshotter found: \
                                   there is no volume snapshot location;"
                .into();
    }
    // Ours names the claim without a volume too, in the order of the claims.
    let pending = serde_json::json!({
        "pvcName": "pgdata-db-0", "pvcNamespace": "app1", "snapshotDataMoved": false, "preserveLocalSnapshot": false,
        "skipped": true, "skippedReason": "any: the claim is not bound, it is Pending;"
    });
    records.insert(1, pending);
    assert_eq!(read(&ours, "volumeinfo"), expected);
    let mut record: Value =
        serde_json::from_slice(&std::fs::read(ours.join("velero-backup.json")).expect("a record")).expect("JSON");
    let added =
        record["metadata"]["annotations"].as_object_mut().expect("annotations").remove("lifeboat.io/namespaced-items");
    assert!(added.is_some(), "{record}");
    let theirs: Value =
        serde_json::from_slice(&std::fs::read(golden.join("velero-backup.json")).expect("a record")).expect("JSON");
    assert_eq!(record["spec"], theirs["spec"]);
    assert_eq!(record["metadata"]["annotations"], theirs["metadata"]["annotations"]);
    assert_eq!(record["metadata"]["labels"], theirs["metadata"]["labels"]);
}

const ONE_NS: &[&str] = &[];
/// Without filters by type all cluster-scoped types are in scope, as the documentation says: those that match the
/// selector, and the definition of one of them.
const SELECTOR: &[&str] = &[
    "ours only: resources/customresourcedefinitions.apiextensions.k8s.io/cluster/gadgets.example.com.json",
    "ours only: resources/gadgets.example.com/cluster/g2.json",
    "ours only: resources/priorityclasses.scheduling.k8s.io/cluster/very-high.json",
];
const SCOPED: &[&str] = &[];
const CLUSTER_FALSE: &[&str] = &[];
