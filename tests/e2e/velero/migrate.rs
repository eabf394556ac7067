//! From Velero to Lifeboat and back.

use crate::ground::{BUCKET, Ground};
use crate::support::{Run, eventually, program, run, until_types_are_served, with_object};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn lifeboat(ground: &Ground, args: &[&str]) -> Run {
    let mut command = Command::new(program());
    run(command.args(args).env("KUBECONFIG", ground.bed.plane.kubeconfig()).env("TZ", "UTC"))
}

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates").join(path)
}

/// Velero 1.18.2 as its installer leaves it with many flags, on a cluster that was never anyone else's.
pub(crate) fn with_velero() -> Ground {
    let ground = Ground::start();
    velero_definitions(&ground);
    for name in ["high", "low"] {
        ground.bed.kubectl(&["create", "priorityclass", name, "--value=1"]);
    }
    let file = fixture("testbed/fixtures/velero/install/full.yaml").display().to_string();
    ground.bed.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &file]);
    ground
}

/// Makes the location of Velero's installation one in our S3 server.
pub(crate) fn point_at_bucket(ground: &Ground, prefix: &str) {
    let location = json!([{"op": "replace", "path": "/spec", "value": {"provider": "aws", "default": true,
        "objectStorage": {"bucket": BUCKET, "prefix": prefix}, "credential": {"name": "cloud", "key": "cloud"},
        "config": {"region": ground.s3.region(), "s3ForcePathStyle": "true", "s3Url": ground.s3.endpoint()}}}]);
    let patch = ["patch", "backupstoragelocation", "default", "-n", "velero", "--type=json", "-p"];
    ground.bed.kubectl(&[&patch[..], &[&location.to_string()]].concat());
}

fn velero_definitions(ground: &Ground) {
    let folder = fixture("api/tests/golden/crds").display().to_string();
    ground.bed.kubectl(&["replace", "-f", &folder]);
    until_types_are_served(&ground.bed.plane, &[]);
}

/// The findings of `migrate check`, a line each.
fn findings(report: &Value) -> Vec<String> {
    let all = report["findings"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    all.map(|one| format!("{} {}: {}", text(&one["verdict"]), text(&one["subject"]), text(&one["what"]))).collect()
}

/// The resources of Velero that there are.
fn resources(ground: &Ground) -> Vec<Value> {
    let mut all = Vec::new();
    for kind in [
        "backups",
        "restores",
        "schedules",
        "backupstoragelocations",
        "volumesnapshotlocations",
        "deletebackuprequests",
    ] {
        let list = ground.bed.kubectl(&["get", &format!("{kind}.velero.io"), "-n", "velero", "--output=json"]);
        let list: Value = serde_json::from_str(&list).expect("JSON");
        all.extend(list["items"].as_array().expect("a list").clone());
    }
    all
}

#[test]
fn an_installation_of_velero_is_looked_at_taken_over_and_given_back() {
    let ground = with_velero();
    ground.many("shop", 3);
    let policies = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "policies", "namespace": "velero"},
        "data": {"p": "version: v1\nvolumePolicies:\n- conditions: {}\n  action: {type: fly}\n"}});
    ground.create(&policies);
    let of_schedule = |template: Value| json!({"schedule": "0 3 * * *", "template": template});
    ground.velero(
        "Schedule",
        "nightly",
        &of_schedule(json!({"includedNamespaces": ["shop"], "snapshotVolumes": false,
        "defaultVolumesToFsBackup": false, "snapshotMoveData": false})),
    );
    let with_policies = json!({"resourcePolicy": {"kind": "configmap", "name": "policies"}});
    ground.velero("Schedule", "ruled", &of_schedule(with_policies));
    ground.create(
        &json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": "old", "namespace": "velero"},
        "spec": {}, "status": {"phase": "InProgress"}}),
    );
    let hooks = json!({"pre.hook.backup.velero.io/command": "[\"true\"]"});
    ground.create(&json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "db", "namespace": "shop", "annotations": hooks},
        "spec": {"automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i"}]}}));

    let before = resources(&ground);
    let check = lifeboat(&ground, &["migrate", "check", "--output", "json"]);
    assert_eq!((check.code, check.err.as_str()), (2, ""), "{check:?}");
    let report: Value = serde_json::from_str(&check.out).expect("JSON");
    assert_eq!(
        findings(&report),
        [
            "mend schedule ruled: its backups would be refused: the resource policies in ConfigMap policies are wrong",
            "mend ConfigMap policies: fail to validate ResourcePolicies in ConfigMap velero/policies with error volumePolicies[0]: invalid \
             action type fly (line 3)",
            "mend in progress: backup old: Lifeboat would begin it again, or end it as failed where Velero had moved data",
            "differs volume snapshot location default: its provider aws is a plugin's, and no image of an init container has its name",
            "works deployment velero: is of velero/velero:v1.18.2, whose behaviour Lifeboat follows",
            "works plugins of example/plugin:1: run as they are",
            "works daemonset node-agent: saves and restores files of volumes for Lifeboat too; it is Velero's until `install \
             --use-node-agent`",
            "works backup storage location default: is built in",
            "works schedule nightly: 0 3 * * * goes on",
            "works backups: the cluster keeps 1 backup, to be restored from as before",
            "works annotations with backup hooks: of 1 pod, which count as before",
        ]
    );
    assert_eq!(resources(&ground), before, "it changes nothing");
    let text = lifeboat(&ground, &["migrate", "check", "--differences"]);
    assert!(
        text.out.contains("\nTo switch, run:\n  lifeboat --namespace velero install --crds-only --apply\n"),
        "{}",
        text.out
    );
    let differences = report["differences"].as_array().expect("a list");
    assert!(differences.iter().all(|one| text.out.contains(one["topic"].as_str().expect("text"))), "{}", text.out);

    // There.
    point_at_bucket(&ground, "there");
    let patch = |kind: &str, name: &str, patch: &Value| {
        ground.bed.kubectl(&["patch", kind, name, "-n", "velero", "--type=json", "-p", &patch.to_string()]);
    };
    patch("backup", "old", &json!([{"op": "replace", "path": "/status/phase", "value": "Failed"}]));
    ground.bed.kubectl(&["delete", "schedule", "ruled", "-n", "velero"]);
    ground.bed.kubectl(&["delete", "configmap", "policies", "-n", "velero"]);
    for step in report["steps"].as_array().expect("a list") {
        let words: Vec<&str> = step.as_str().expect("text").split(' ').collect();
        match words[0] {
            "lifeboat" if words.contains(&"install") => {
                let run = lifeboat(&ground, &words[1..]);
                assert_eq!(run.code, 0, "{run:?}");
            }
            "kubectl" => drop(ground.bed.kubectl(&words[1..])),
            // Nothing serves yet.
            "lifeboat" if words.contains(&"status") => {}
            other => panic!("{other}"),
        }
    }
    // Nothing runs pods here, so that the one of Velero would be waited for, and the hook of the other one fail.
    ground.bed.kubectl(&["delete", "pod", "db", "-n", "shop", "--grace-period=0", "--force"]);
    ground.bed.kubectl(&["scale", "deployment", "velero", "-n", "velero", "--replicas=0"]);
    let check = lifeboat(&ground, &["migrate", "check"]);
    assert!(
        check.out.contains("  deployment velero: is Lifeboat's already, of the image lifeboat/lifeboat:v"),
        "{}",
        check.out
    );
    let server = ground.server("one");
    ground.until("backupstoragelocation", "default", "Available");
    assert_eq!(lifeboat(&ground, &["backup", "create", "b", "--from-schedule", "nightly", "--wait"]).code, 0);
    ground.until("backup", "b", "Completed");
    ground.lose("shop");
    assert_eq!(lifeboat(&ground, &["restore", "create", "r", "--from-backup", "b", "--wait"]).code, 0);
    assert_eq!(ground.maps("shop").len(), 3);
    assert_eq!(lifeboat(&ground, &["backup", "hold", "b"]).code, 0);
    eventually("the hold in the record", || {
        ground.get("backup", "b")["metadata"]["annotations"]["lifeboat.io/hold-recorded"].is_string()
    });
    assert_eq!(server.stop(), Some(0));

    // And back: each object is one that Velero's definitions take, and nobody but Velero holds it.
    velero_definitions(&ground);
    let mut finalizers = BTreeSet::new();
    for object in resources(&ground) {
        let name = format!("{} {}", object["kind"], object["metadata"]["name"]);
        let own = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        finalizers.extend(own.iter().map(ToString::to_string));
        with_object(&ground.kubectl(), &["replace", "--dry-run=server"], &object)
            .unwrap_or_else(|e| panic!("{name}: {e:#}"));
    }
    assert_eq!(finalizers, BTreeSet::from(["\"restores.velero.io/external-resources-finalizer\"".to_owned()]));
    let back = lifeboat(&ground, &["migrate", "check"]);
    assert!(
        back.out.contains("  backups: the cluster keeps 2 backups, to be restored from as before\n"),
        "{}",
        back.out
    );
}

/// As Velero's chart names it for a release `backup`.
#[test]
fn a_server_is_found_whatever_it_is_called() {
    let ground = Ground::start();
    let none = lifeboat(&ground, &["migrate", "check", "--output", "json"]);
    assert_eq!(none.code, 2, "{none:?}");
    let report: Value = serde_json::from_str(&none.out).expect("JSON");
    let said = "mend server: no Deployment in namespace velero has the label component=velero and a container velero";
    assert_eq!((findings(&report), &report["steps"]), (vec![said.to_owned()], &json!([])));

    let selected = json!({"app.kubernetes.io/name": "velero", "app.kubernetes.io/instance": "backup"});
    let deployment = |name: &str, container: &str| {
        let mut labels = selected.clone();
        (labels["component"], labels["helm.sh/chart"]) = (json!("velero"), json!("velero-12.0.0"));
        let containers = json!([{"name": container, "image": "velero/velero:v1.18.2", "args": ["server"]}]);
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": "velero", "labels": labels},
            "spec": {"replicas": 0, "selector": {"matchLabels": selected},
                "template": {"metadata": {"labels": selected}, "spec": {"containers": containers}}}})
    };
    ground.create(&deployment("another", "ui"));
    ground.create(&deployment("backup-velero", "velero"));
    let check = lifeboat(&ground, &["migrate", "check", "--output", "json"]);
    assert_eq!((check.code, check.err.as_str()), (0, ""), "{check:?}");
    let report: Value = serde_json::from_str(&check.out).expect("JSON");
    let said = "works deployment backup-velero: is of velero/velero:v1.18.2, whose behaviour Lifeboat follows";
    assert_eq!(findings(&report), [said]);
    assert_eq!(
        report["steps"],
        json!([
            "helm get values backup --namespace velero > values.yaml",
            "helm upgrade backup deploy/helm/lifeboat --namespace velero --values values.yaml",
            "lifeboat --namespace velero status",
        ])
    );
}
