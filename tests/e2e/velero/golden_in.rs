//! A backup written by Velero is restored as Velero restores it: the objects that each run touched are equal, field by
//! field, to those that Velero's own run left, and the results name the same objects where the design does not decide
//! otherwise.

use crate::results::{self, named};
use crate::snapshot::{self, Snapshot, without_automatic_ports};
use crate::support::{Bed, Run, eventually, gunzip_json};
use lifeboat_patch::restored::{is_made_anew, losses};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/testbed/fixtures/velero")
}

fn label(object: &Value) -> &str {
    object["metadata"]["labels"]["velero.io/restore-name"].as_str().unwrap_or_default()
}

/// Objects that carry the label of a restore, without those that every cluster makes anew.
fn touched(all: impl Iterator<Item = Value>, restore: &str) -> Snapshot {
    all.filter(|o| label(o) == restore).filter(|o| !is_made_anew(o)).map(|o| (snapshot::name(&o), o)).collect()
}

/// Returns true if it is left to chance that this restored pod is still there. A controller that sees the ReplicaSet of
/// the web before its pods makes others, and then deletes as many as there are too many, restored or not.
fn is_there_by_chance(kind: &str, name: &str) -> bool {
    kind == "Pod" && name.starts_with("web-")
}

/// The differences between the results of Velero's restore and of ours.
fn differences(bed: &Bed, restore: &str) -> Vec<String> {
    let golden = fixtures().join("restore-runs").join(restore).join("after.json.gz");
    let golden = match gunzip_json(&golden) {
        Value::Array(objects) => touched(objects.into_iter(), restore),
        other => panic!("a list of objects, not {other}"),
    };
    let live = snapshot::take(bed);
    let ours = touched(live.values().cloned(), restore);
    let by_chance = |object: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        is_there_by_chance(&text(&object["kind"]), &text(&object["metadata"]["name"]))
    };
    let mut out = Vec::new();
    for (name, object) in &golden {
        // Labelled or not: we do not write an object that is as it was.
        match live.get(name) {
            None if by_chance(object) => {}
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
    // In a new namespace either the restore makes this one, or before it the controller that makes it in every
    // namespace.
    let is_default_account = |name: &str| name.starts_with("ServiceAccount. ") && name.ends_with(" default");
    out.extend(
        ours_only
            .filter(|(name, o)| !is_default_account(name) && !by_chance(o))
            .map(|(name, _)| format!("{name}: ours only")),
    );
    out
}

/// Objects that the results of only one of the two name, without pods that are there by chance: only what was there
/// before is warned of.
fn told(bed: &Bed, restore: &str) -> Vec<String> {
    let file = fixtures().join("restore-runs").join(restore).join(format!("restore-{restore}-results.gz"));
    let kinds = results::kinds(&bed.plane.kubectl());
    // Lines such as `warning app1 Pod lone`.
    let is_kept = |line: &String| match line.split(' ').collect::<Vec<_>>()[..] {
        [_, _, kind, name] => !is_there_by_chance(kind, name),
        _ => true,
    };
    let lines = |results: &Value| named(results, &kinds).into_iter().filter(is_kept).collect::<Vec<_>>();
    let (golden, ours) = (lines(&gunzip_json(&file)), lines(&bed.results(restore)));
    let missing = golden.iter().filter(|line| !ours.contains(line)).map(|line| format!("Velero's only: {line}"));
    let more = ours.iter().filter(|line| !golden.contains(line)).map(|line| format!("ours only: {line}"));
    missing.chain(more).collect()
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
    eventually("three of the web", || {
        let replicas = "--output=jsonpath={.items[*].spec.replicas}";
        bed.kubectl(&["get", "replicasets", "--namespace=app1", "--selector=app=web", replicas]) == "3"
    });
    patch("serviceaccount/web", r#"{"secrets":[{"name":"regcred"}]}"#);
    patch("widget/w1", r#"{"spec":{"size":30}}"#);
}

#[test]
fn veleros_backup_comes_back_as_velero_restores_it() {
    let bed = Bed::start();
    bed.kubectl(&["create", "namespace", "velero"]);
    // As the sample of the golden runs was made: the annotation of the client-side apply is part of the objects.
    let cluster = fixtures().join("../golden/00-cluster.yaml");
    bed.kubectl(&["apply", "--filename", &cluster.display().to_string()]);
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
    assert_eq!(told(&bed, "r-plain"), PLAIN_TOLD);

    let run = restore(&bed, "r-map", &["--namespace-mappings", "app1:app1x"]);
    assert_eq!(run.code, 3, "{run:?}");
    assert_eq!(differences(&bed, "r-map"), MAP, "r-map");
    assert_eq!(told(&bed, "r-map"), MAP_TOLD);

    for (name, policy, expected, expected_told) in [
        ("r-existing-none", "none", EXISTING_NONE, EXISTING_NONE_TOLD),
        ("r-existing-update", "update", EXISTING_UPDATE, EXISTING_UPDATE_TOLD),
    ] {
        drift(&bed);
        bed.kubectl(&["delete", "secret/opaque", "--namespace=app1"]);
        let run = restore(&bed, name, &["--existing-resource-policy", policy]);
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(differences(&bed, name), expected, "{name}");
        assert_eq!(told(&bed, name), expected_told, "{name}");
    }
}

/// The Jobs have not ended, and make their pods anew.
const PLAIN: &[&str] = &["Pod. app1 once-ffdhq: Velero's only", "Pod. app1 yearly-1-k4pxm: Velero's only"];
/// Velero keeps the fixed node port, which the original holds, and fails; we drop it under a namespace mapping. It
/// makes a claim that waits for ever for the volume of the living one; we make none.
const MAP: &[&str] = &[
    "PersistentVolumeClaim. app1x data: Velero's only",
    "Pod. app1x once-ffdhq: Velero's only",
    "Pod. app1x yearly-1-k4pxm: Velero's only",
    "Service. app1x np: ours only",
];
const EXISTING_NONE: &[&str] = &[];
/// A pod or a bound claim cannot be changed, by neither: it stays what it was made as. In the golden run it was made by
/// its controller or by hand, here by the restore before.
const EXISTING_UPDATE: &[&str] = &[
    "PersistentVolumeClaim. app1 shared: /spec/selector: {} became absent",
    "PersistentVolumeClaim. app1 shared: /spec/volumeName: \"pv-nfs\" became absent",
    "Pod. app1 db-0: /spec/containers/0/volumeMounts/1/name: \"kube-api-access-tmtwg\" became \"kube-api-access-w5bkt\"",
    "Pod. app1 db-0: /spec/volumes/1/name: \"kube-api-access-tmtwg\" became \"kube-api-access-w5bkt\"",
    "Pod. app1 lone: /spec/nodeName: \"node-a\" became absent",
    "Pod. app1 once-ffdhq: Velero's only",
    "Pod. app1 yearly-1-k4pxm: Velero's only",
];

/// Never written, hence never different. The other objects were marked by the golden runs before this one.
const PLAIN_TOLD: &[&str] = &[
    "Velero's only: warning app1 ConfigMap kube-root-ca.crt",
    "Velero's only: warning cluster ClusterRole golden-reader",
    "Velero's only: warning cluster ClusterRoleBinding golden-reader",
    "Velero's only: warning cluster CustomResourceDefinition widgets.example.com",
    "Velero's only: warning cluster PersistentVolume pv-data",
    "Velero's only: warning cluster PriorityClass very-high",
    "ours only: warning velero 1 claim comes back empty, because its data was not saved: app1/shared; describe --details and the volume information file list all",
];
/// The node port, see above. What only managed fields or the binding of a volume tell apart is the same to us.
const MAP_TOLD: &[&str] = &[
    "Velero's only: error app1x Service np",
    "Velero's only: warning app1x ConfigMap kube-root-ca.crt",
    "Velero's only: warning cluster CustomResourceDefinition widgets.example.com",
    "Velero's only: warning cluster PersistentVolume pv-data",
    "ours only: error app1x PersistentVolumeClaim data",
    "ours only: warning velero 1 claim comes back empty, because its data was not saved: app1x/shared; describe --details and the volume information file list all",
];
/// Velero compares managed fields too, so that it warns of nearly everything; we warn of what drifted.
const EXISTING_NONE_TOLD: &[&str] = &[
    "Velero's only: warning app1 ConfigMap frozen",
    "Velero's only: warning app1 ConfigMap kube-root-ca.crt",
    "Velero's only: warning app1 ConfigMap with-finalizer",
    "Velero's only: warning app1 ControllerRevision agent-58d8689df",
    "Velero's only: warning app1 ControllerRevision db-6c9b68f84",
    "Velero's only: warning app1 CronJob yearly",
    "Velero's only: warning app1 DaemonSet agent",
    "Velero's only: warning app1 Endpoints db",
    "Velero's only: warning app1 Endpoints lb",
    "Velero's only: warning app1 Endpoints manual-ep",
    "Velero's only: warning app1 Endpoints np",
    "Velero's only: warning app1 Endpoints web",
    "Velero's only: warning app1 HorizontalPodAutoscaler web",
    "Velero's only: warning app1 Ingress web",
    "Velero's only: warning app1 Job once",
    "Velero's only: warning app1 Job yearly-1",
    "Velero's only: warning app1 Lease l1",
    "Velero's only: warning app1 LimitRange lr",
    "Velero's only: warning app1 NetworkPolicy deny",
    "Velero's only: warning app1 PersistentVolumeClaim data",
    "Velero's only: warning app1 PersistentVolumeClaim pgdata-db-0",
    "Velero's only: warning app1 PersistentVolumeClaim shared",
    "Velero's only: warning app1 Pod db-0",
    "Velero's only: warning app1 Pod lone",
    "Velero's only: warning app1 Pod once-ffdhq",
    "Velero's only: warning app1 Pod yearly-1-k4pxm",
    "Velero's only: warning app1 PodDisruptionBudget web",
    "Velero's only: warning app1 ResourceQuota q",
    "Velero's only: warning app1 Role web",
    "Velero's only: warning app1 RoleBinding web",
    "Velero's only: warning app1 Secret regcred",
    "Velero's only: warning app1 Secret web-token",
    "Velero's only: warning app1 Service db",
    "Velero's only: warning app1 Service lb",
    "Velero's only: warning app1 Service np",
    "Velero's only: warning app1 Service web",
    "Velero's only: warning app1 StatefulSet db",
    "Velero's only: warning app1 Widget w2",
    "Velero's only: warning app1 Widget w3",
    "Velero's only: warning cluster CustomResourceDefinition widgets.example.com",
    "Velero's only: warning cluster PersistentVolume pv-data",
];
/// See `EXISTING_UPDATE`. Velero writes what belongs to the life of a job, and is refused.
const EXISTING_UPDATE_TOLD: &[&str] = &[
    "Velero's only: warning app1 Job once",
    "Velero's only: warning app1 Job yearly-1",
    "Velero's only: warning app1 PersistentVolumeClaim shared",
    "Velero's only: warning app1 Pod db-0",
    "Velero's only: warning app1 Pod lone",
];
