//! A backup written by Velero is restored as Velero restores it: the objects that each run touched are equal, field by
//! field, to those that Velero's own run left.

use crate::snapshot::{self, Snapshot, without_automatic_ports};
use crate::support::{Bed, Run, gunzip_json};
use lifeboat_patch::restored::{is_made_anew, losses};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testbed/fixtures/velero")
}

fn label(object: &Value) -> &str {
    object["metadata"]["labels"]["velero.io/restore-name"].as_str().unwrap_or_default()
}

/// Objects that carry the label of a restore, without those that every cluster makes anew.
fn touched(all: impl Iterator<Item = Value>, restore: &str) -> Snapshot {
    all.filter(|o| label(o) == restore).filter(|o| !is_made_anew(o)).map(|o| (snapshot::name(&o), o)).collect()
}

/// What differs between what Velero's restore left and what ours left.
fn differences(bed: &Bed, restore: &str) -> Vec<String> {
    let golden = fixtures().join("restore-runs").join(restore).join("after.json.gz");
    let golden = match gunzip_json(&golden) {
        Value::Array(objects) => touched(objects.into_iter(), restore),
        other => panic!("a list of objects, not {other}"),
    };
    let live = snapshot::take(bed);
    let ours = touched(live.values().cloned(), restore);
    let mut out = Vec::new();
    for (name, object) in &golden {
        // Labelled or not: we do not write an object that is as it was.
        match live.get(name) {
            None => out.push(format!("{name}: Velero's only")),
            Some(found) => {
                let (left, right) = (without_automatic_ports(object), without_automatic_ports(found));
                out.extend(losses(&left, &right).iter().map(|d| format!("{name}: {d}")));
            }
        }
    }
    // Cluster-scoped objects were made in another way here than in the golden run, and so were found changed.
    let ours_only =
        ours.iter().filter(|(name, o)| !golden.contains_key(*name) && !o["metadata"]["namespace"].is_null());
    out.extend(ours_only.map(|(name, _)| format!("{name}: ours only")));
    out
}

fn restore(bed: &Bed, name: &str, more: &[&str]) -> Run {
    let mut args = vec!["restore", name, "--from-backup", "one-ns"];
    args.extend(more);
    bed.local(&args)
}

/// Puts the drift of the golden data into app1.
fn drift(bed: &Bed) {
    let patch = |object: &str, patch: &str| {
        bed.kubectl(&["patch", object, "--namespace=app1", "--type=merge", "--patch", patch]);
    };
    patch("configmap/settings", r#"{"metadata":{"labels":{"drift":"yes"}},"data":{"a":"drifted","new":"key"}}"#);
    patch("deployment/web", r#"{"spec":{"replicas":3}}"#);
    patch("serviceaccount/web", r#"{"secrets":[{"name":"regcred"}]}"#);
    patch("widget/w1", r#"{"spec":{"size":30}}"#);
}

#[test]
fn veleros_backup_comes_back_as_velero_restores_it() {
    let bed = Bed::start();
    bed.kubectl(&["create", "namespace", "velero"]);
    bed.apply_file("golden/00-cluster.yaml");
    // Its claim was deleted: the volume is released and takes no other.
    let released = r#"{"spec":{"claimRef":{"namespace":"app1","name":"shared","uid":"gone"}}}"#;
    bed.kubectl(&["patch", "persistentvolume/pv-nfs", "--type=merge", "--patch", released]);
    let backups = bed.bucket().join("backups/one-ns");
    std::fs::create_dir_all(&backups).expect("a bucket");
    for file in std::fs::read_dir(fixtures().join("backups/one-ns")).expect("fixtures") {
        let file = file.expect("an entry");
        std::fs::copy(file.path(), backups.join(file.file_name())).expect("copy");
    }

    let run = restore(&bed, "r-plain", &[]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(differences(&bed, "r-plain"), PLAIN, "r-plain");

    let run = restore(&bed, "r-map", &["--namespace-mappings", "app1:app1x"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(differences(&bed, "r-map"), MAP, "r-map");

    for (name, policy, expected) in
        [("r-existing-none", "none", EXISTING_NONE), ("r-existing-update", "update", EXISTING_UPDATE)]
    {
        drift(&bed);
        bed.kubectl(&["delete", "secret/opaque", "--namespace=app1"]);
        let run = restore(&bed, name, &["--existing-resource-policy", policy]);
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(differences(&bed, name), expected, "{name}");
    }
}

const PLAIN: &[&str] = &[];
/// Velero keeps the fixed node port, which the original holds, and fails; we drop it under a namespace mapping.
const MAP: &[&str] = &["Service. app1x np: ours only"];
const EXISTING_NONE: &[&str] = &[];
/// A pod or a bound claim cannot be changed, by neither: it stays what it was made as. In the golden run it was made by
/// its controller or by hand, here by the restore before.
const EXISTING_UPDATE: &[&str] = &[
    "PersistentVolumeClaim. app1 shared: /spec/selector: {} became absent",
    "PersistentVolumeClaim. app1 shared: /spec/volumeName: \"pv-nfs\" became absent",
    "Pod. app1 db-0: /spec/containers/0/volumeMounts/1/name: \"kube-api-access-tmtwg\" became \"kube-api-access-w5bkt\"",
    "Pod. app1 db-0: /spec/volumes/1/name: \"kube-api-access-tmtwg\" became \"kube-api-access-w5bkt\"",
    "Pod. app1 lone: /spec/nodeName: \"node-a\" became absent",
];
