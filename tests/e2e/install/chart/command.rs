//! Compares the objects of the chart with those that `lifeboat install` prints.

use super::super::BASE;
use super::{by_name, chart, documents, installed, is_definition, name, rendered};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Values with which names are those of `install`. Left out, they are those of Velero's chart: clouds give rights to
/// accounts by name.
const NAMES: &str = "serviceAccount: {server: {name: velero}}\ncredentials: {name: cloud-credentials}\n";
/// Where an installation by the chart differs from that by the command: kind, or nothing for all; pointer; what is
/// there; why.
type Difference = (&'static str, String, Value, &'static str);

/// Where every installation differs.
fn differences() -> Vec<Difference> {
    let labels = "Velero's chart has them, and selectors of others go by them";
    let port = "probes, monitors and services of people who have Velero's chart name it so";
    let kept = "the selector of a Deployment of Velero's chart cannot be changed";
    let both = json!({"app.kubernetes.io/instance": "velero", "app.kubernetes.io/name": "velero"});
    let (pod, container) = ("/spec/template/metadata/labels", "/spec/template/spec/containers/0");
    let mut all = vec![
        ("Deployment", format!("{pod}/name"), json!("velero"), labels),
        ("Deployment", "/spec/selector/matchLabels".to_owned(), both, kept),
    ];
    for label in ["app.kubernetes.io~1instance", "app.kubernetes.io~1name"] {
        all.push(("", format!("/metadata/labels/{label}"), json!("velero"), labels));
        all.push(("Deployment", format!("{pod}/{label}"), json!("velero"), labels));
    }
    for label in ["app.kubernetes.io~1instance", "app.kubernetes.io~1name"] {
        all.push(("DaemonSet", format!("{pod}/{label}"), json!("velero"), labels));
    }
    all.push(("DaemonSet", format!("{container}/ports/0/name"), json!("http-monitoring"), port));
    let asked = json!({"prometheus.io/scrape": "true", "prometheus.io/port": "8085", "prometheus.io/path": "/metrics"});
    all.push((
        "DaemonSet",
        "/spec/template/metadata/annotations".to_owned(),
        asked,
        "as Velero's chart does for Prometheus",
    ));
    for at in ["ports/0/name", "livenessProbe/httpGet/port", "readinessProbe/httpGet/port"] {
        all.push(("Deployment", format!("{container}/{at}"), json!("http-monitoring"), port));
    }
    all
}

/// Kinds that the chart leaves to others, and why.
const LEFT_OUT: (&str, &str) =
    ("Namespace", "a release lives in a namespace that is there: --create-namespace makes one");
/// The object that the chart adds, and the reason.
const ADDED: (&str, &str) = ("Service velero", "as Velero's chart does for Prometheus, without metrics.enabled: false");

/// Puts a value where a pointer leads, in place of what is there.
fn put(object: &mut Value, pointer: &str, value: Value, why: &str) {
    assert_ne!(object.pointer(pointer), Some(&value), "no difference at {pointer}: {why}");
    let (parent, last) = pointer.rsplit_once('/').expect("a pointer");
    let parent = object.pointer_mut(parent).unwrap_or_else(|| panic!("no {parent}: {why}"));
    parent[last.replace("~1", "/")] = value;
}

/// The order of flags says nothing.
fn sort_flags(object: &mut Value) {
    if let Some(Value::Array(flags)) = object.pointer_mut("/spec/template/spec/containers/0/args") {
        flags.sort_by_key(|flag| flag.as_str().map(|flag| (flag.starts_with('-'), flag.to_owned())));
    }
}

/// An installation, by the chart and by the command.
struct Case {
    title: &'static str,
    values: &'static str,
    flags: String,
    /// Where these two differ besides: kind and name, pointer, what is there in the chart's, and why.
    differ: Vec<(&'static str, &'static str, Value, &'static str)>,
}

fn case(title: &'static str, values: &'static str, flags: &str) -> Case {
    Case { title, values, flags: flags.to_owned(), differ: Vec::new() }
}

fn cases() -> Vec<Case> {
    let bucket = "--provider aws --bucket b --no-secret --use-volume-snapshots=false";
    let less = "velero-least-privilege";
    let apart = "a binding cannot be given another role, so that of the smaller rights is another";
    vec![
        case("nothing is said", "", BASE),
        Case {
            differ: vec![(
                "Deployment velero",
                "/spec/template/metadata/annotations/checksum~1secret",
                json!("the digest of the Secret"),
                "other credentials make other pods",
            )],
            ..case(
                "AWS with a bucket, credentials and a plugin",
                r#"
credentials:
  secretContents: {cloud: "[default]\n"}
initContainers:
  - name: velero-velero-plugin-for-aws
    image: velero/velero-plugin-for-aws:v1.14.3
    imagePullPolicy: IfNotPresent
    resources: {}
    volumeMounts: [{mountPath: /target, name: plugins}]
configuration:
  backupStorageLocation:
    - {provider: aws, bucket: b, prefix: p, caCert: UEVN, default: true, config: {region: eu-west-1, s3ForcePathStyle: true}}
  volumeSnapshotLocation:
    - {provider: aws, config: {region: eu-west-1}}
"#,
                "--provider aws --bucket b --prefix p --cacert ca.pem --secret-file credentials \
                 --backup-location-config region=eu-west-1,s3ForcePathStyle=true --snapshot-location-config region=eu-west-1 \
                 --plugins velero/velero-plugin-for-aws:v1.14.3",
            )
        },
        Case {
            differ: vec![
                (
                    "Deployment velero",
                    "/spec/template/spec/nodeSelector",
                    json!({"pool": "system"}),
                    "the command has no flag",
                ),
                (
                    "Deployment velero",
                    "/spec/template/spec/tolerations",
                    json!([{"key": "system", "operator": "Exists"}]),
                    "the command has no flag",
                ),
            ],
            ..case(
                "which nodes, which labels",
                "
priorityClassName: high
nodeSelector: {pool: system}
tolerations: [{key: system, operator: Exists}]
podAnnotations: {prometheus.io/scrape: 'false', a: b}
podLabels: {c: d, deploy: mine}
",
                &format!(
                    "--server-priority-class-name high --pod-annotations prometheus.io/scrape=false,a=b --pod-labels \
                     c=d,deploy=mine {BASE}"
                ),
            )
        },
        Case {
            differ: vec![
                ("ClusterRole velero", "/metadata/name", json!(less), apart),
                ("ClusterRoleBinding velero", "/metadata/name", json!(less), apart),
                ("ClusterRoleBinding velero", "/roleRef/name", json!(less), apart),
            ],
            ..case("the smaller rights", "leastPrivilege: true", &format!("--least-privilege {BASE}"))
        },
        Case {
            differ: vec![
                ("ClusterRole velero", "/metadata/name", json!(less), apart),
                ("ClusterRoleBinding velero", "/metadata/name", json!(less), apart),
                ("ClusterRoleBinding velero", "/roleRef/name", json!(less), apart),
            ],
            ..case(
                "the smaller rights of a server with a node agent",
                "leastPrivilege: true\ndeployNodeAgent: true\nnodeAgent: {containerSecurityContext: {privileged: true}, priorityClassName: high}",
                &format!(
                    "--least-privilege --use-node-agent --privileged-node-agent --node-agent-priority-class-name high {BASE}"
                ),
            )
        },
        case("backups in the volume of a claim", "directory: {claim: c}", "--directory-claim c"),
        case("backups in a directory of NFS", "directory: {nfs: {server: nas, path: /a}}", "--nfs nas:/a"),
        case(
            "another image, other resources, several servers",
            "
replicas: 3
image: {repository: registry.example.com/lifeboat, tag: v2}
resources: {requests: {cpu: 250m, memory: 1Gi}, limits: {cpu: null, memory: 2Gi}}
",
            &format!(
                "--replicas 3 --image registry.example.com/lifeboat:v2 --velero-pod-cpu-request 250m \
                 --velero-pod-mem-request 1Gi --velero-pod-cpu-limit 0 --velero-pod-mem-limit 2Gi {BASE}"
            ),
        ),
        Case {
            differ: vec![(
                "DaemonSet node-agent",
                "/spec/template/spec/containers/0/env",
                json!([
                    {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    {"name": "VELERO_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                    {"name": "VELERO_SCRATCH_DIR", "value": "/scratch"},
                    {"name": "CSI_SNAPSHOT_EARLY_FREQUENT_POLLING", "value": "true"},
                ]),
                "as in Velero's chart, variables such as those of a proxy reach the node agent too",
            )],
            ..case(
                "settings of the server",
                "
deployNodeAgent: true
configuration:
  backupStorageLocation: {provider: aws, bucket: b, default: true}
  features: EnableCSI
  defaultVolumesToFsBackup: true
  defaultSnapshotMoveData: true
  disableInformerCache: true
  uploaderType: kopia
  restoreOnlyMode: true
  defaultRepoMaintainFrequency: 2h0m0s
  garbageCollectionFrequency: 30m0s
  fsBackupTimeout: 1m30s
  itemBlockWorkerCount: 4
  extraArgs: [--concurrent-backups=5, --schedule-skip-immediately=true]
  extraEnvVars: {CSI_SNAPSHOT_EARLY_FREQUENT_POLLING: true}
",
                &format!(
                    "--features EnableCSI --default-volumes-to-fs-backup --use-node-agent --default-snapshot-move-data --disable-informer-cache \
                 --restore-only --default-repo-maintain-frequency 2h --garbage-collection-frequency 30m \
                 --pod-volume-operation-timeout 90s --item-block-worker-count 4 --concurrent-backups 5 \
                 --schedule-skip-immediately --csi-snapshot-early-frequent-polling {bucket}"
                ),
            )
        },
        case(
            "an account with annotations",
            "serviceAccount: {server: {annotations: {role: backup}}}",
            &format!("--sa-annotations role=backup {BASE}"),
        ),
        case(
            "an account that is there",
            "serviceAccount: {server: {create: false, name: mine}}\nrbac: {create: false}",
            &format!("--service-account-name mine {BASE}"),
        ),
        case("another namespace", "", &format!("-n dr {BASE}")),
    ]
}

#[test]
fn the_chart_makes_what_the_command_makes() {
    for Case { title, values, flags, differ } in cases() {
        let namespace = if flags.starts_with("-n dr") { "dr" } else { "velero" };
        let mut found = rendered(&[NAMES, values], &["-n", namespace]);
        let (added, why) = ADDED;
        assert!(found.remove(added).is_some(), "{title}: {why}");
        let mut expected = installed(&flags);
        let (left_out, why) = LEFT_OUT;
        let before = expected.len();
        expected.retain(|object| object["kind"] != left_out);
        assert_eq!(before, expected.len() + 1, "{title}: {why}");
        expected.retain(|object| !is_definition(object));
        for object in &mut expected {
            let own = name(object);
            for (kind, pointer, value, why) in differences() {
                if kind.is_empty() || object["kind"] == kind {
                    put(object, &pointer, value, why);
                }
            }
            for (_, pointer, value, why) in differ.iter().filter(|(of, ..)| *of == own) {
                put(object, pointer, value.clone(), why);
            }
        }
        let mut expected = by_name(expected);
        let secret = found
            .get_mut("Deployment velero")
            .and_then(|deployment| deployment.pointer_mut("/spec/template/metadata/annotations/checksum~1secret"));
        if let Some(digest) = secret {
            *digest = json!("the digest of the Secret");
        }
        found.values_mut().chain(expected.values_mut()).for_each(sort_flags);
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{title}");
        for (name, object) in &found {
            assert_eq!(object, &expected[name], "{title}: {name}");
        }
    }
}

/// Compares the files that `make deploy` writes, without helm.
#[test]
fn definitions_and_rules_of_the_chart_are_those_of_the_command() {
    let read = |name: &str| std::fs::read_to_string(chart().join(name)).expect("a file of the chart");
    let old = "is old: make deploy writes it anew";
    let definitions = documents(&read("crds/definitions.yaml"));
    assert!(definitions == installed("--crds-only"), "crds/definitions.yaml {old}");
    for (file, flags) in [("least-privilege.json", ""), ("least-privilege-node-agent.json", "--use-node-agent")] {
        let rules: Value = serde_json::from_str(&read(&format!("files/{file}"))).expect("JSON");
        let roles = installed(&format!("--least-privilege {flags} {BASE}"));
        let expected: BTreeMap<&str, &Value> = roles
            .iter()
            .filter(|object| object["rules"].is_array())
            .map(|role| (role["kind"].as_str().expect("a kind"), &role["rules"]))
            .collect();
        assert!(rules == json!(expected), "files/{file} {old}");
    }
}

#[test]
fn the_image_of_the_chart_is_that_of_the_command() {
    let chart = std::fs::read_to_string(chart().join("Chart.yaml")).expect("a file of the chart");
    assert!(chart.contains(&format!("appVersion: v{}\n", env!("CARGO_PKG_VERSION"))), "{chart}");
}
