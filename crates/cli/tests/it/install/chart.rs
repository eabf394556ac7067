//! The Helm chart: what helm renders beside what `lifeboat install` prints.

use crate::support::{Run, run};
use lifeboat_testbed::helm;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use tempfile::TempDir;

/// Helm, built once however many tests ask for it.
static HELM: LazyLock<PathBuf> = LazyLock::new(|| helm().expect("helm"));

/// Values with which names are those of `install`. Left out, they are those of Velero's chart: clouds give rights to accounts by name.
const NAMES: &str = "serviceAccount: {server: {name: velero}}\ncredentials: {name: cloud-credentials}\n";
/// The flags of an installation that has nothing to back up to.
const NOTHING: &str = "--no-default-backup-location --use-volume-snapshots=false --no-secret";

pub(super) fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm/lifeboat")
}

/// A file beside this one.
pub(super) fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/install").join(name)
}

/// Helm with a home of its own.
pub(super) fn command(home: &Path) -> Command {
    let mut command = Command::new(&*HELM);
    command.current_dir(home);
    for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(name, home);
    }
    command
}

/// A folder with the files that values and flags name.
fn folder(values: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let mut files = vec![("credentials".to_owned(), "[default]\n".to_owned()), ("ca.pem".to_owned(), "PEM".to_owned())];
    files.extend(values.iter().enumerate().map(|(n, values)| (format!("values-{n}.yaml"), (*values).to_owned())));
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).expect("write");
    }
    folder
}

/// What helm makes of the chart and values, each put over those before, for a release `velero`, with more flags.
fn template(values: &[&str], flags: &[&str]) -> Run {
    template_as("velero", values, flags)
}

fn template_as(release: &str, values: &[&str], flags: &[&str]) -> Run {
    let folder = folder(values);
    let mut command = command(folder.path());
    command.args(["template", release]).arg(chart()).args(["--kube-version", "1.34.0"]);
    for n in 0..values.len() {
        command.args(["--values", &format!("values-{n}.yaml")]);
    }
    run(command.args(flags))
}

fn documents(text: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
    documents.into_iter().filter(|document| !document.is_null()).collect()
}

fn name(object: &Value) -> String {
    format!("{} {}", object["kind"], object["metadata"]["name"]).replace('"', "")
}

fn is_hook(object: &Value) -> bool {
    object["metadata"]["annotations"]["helm.sh/hook"].is_string()
}

fn is_definition(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
}

fn by_name(objects: impl IntoIterator<Item = Value>) -> BTreeMap<String, Value> {
    objects.into_iter().map(|object| (name(&object), object)).collect()
}

/// What helm installs, by kind and name; its hooks are another test's.
fn rendered(values: &[&str], flags: &[&str]) -> BTreeMap<String, Value> {
    let run = template(values, flags);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{values:?}");
    by_name(documents(&run.out).into_iter().filter(|object| !is_hook(object)))
}

pub(super) fn hooks(values: &[&str]) -> Vec<Value> {
    documents(&template(values, &["-n", "velero"]).out).into_iter().filter(is_hook).collect()
}

/// What the command prints, with no cluster to be found.
fn installed(flags: &str) -> Vec<Value> {
    let folder = folder(&[]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_lifeboat"));
    command.arg("install").args(flags.split_whitespace()).args(["--dry-run", "-o", "json"]);
    let run = run(command.current_dir(folder.path()).env("KUBECONFIG", folder.path().join("none")));
    assert_eq!(run.code, 0, "{flags}: {run:?}");
    let list: Value = serde_json::from_str(&run.out).expect("JSON");
    list["items"].as_array().expect("a list").clone()
}

/// Where an installation by the chart differs from that by the command: kind, or nothing for all; pointer; what is there; why.
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
    for at in ["ports/0/name", "livenessProbe/httpGet/port", "readinessProbe/httpGet/port"] {
        all.push(("Deployment", format!("{container}/{at}"), json!("http-monitoring"), port));
    }
    all
}

/// Kinds that the chart leaves to others, and why.
const LEFT_OUT: (&str, &str) =
    ("Namespace", "a release lives in a namespace that is there: --create-namespace makes one");
/// What the chart adds, and why.
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

/// One installation, by the chart and by the command.
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
        case("nothing is said", "", NOTHING),
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
                     c=d,deploy=mine {NOTHING}"
                ),
            )
        },
        Case {
            differ: vec![
                ("ClusterRole velero", "/metadata/name", json!(less), apart),
                ("ClusterRoleBinding velero", "/metadata/name", json!(less), apart),
                ("ClusterRoleBinding velero", "/roleRef/name", json!(less), apart),
            ],
            ..case("the smaller rights", "leastPrivilege: true", &format!("--least-privilege {NOTHING}"))
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
                 --velero-pod-mem-request 1Gi --velero-pod-cpu-limit 0 --velero-pod-mem-limit 2Gi {NOTHING}"
            ),
        ),
        case(
            "settings of the server",
            "
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
        ),
        case(
            "an account with annotations",
            "serviceAccount: {server: {annotations: {role: backup}}}",
            &format!("--sa-annotations role=backup {NOTHING}"),
        ),
        case(
            "an account that is there",
            "serviceAccount: {server: {create: false, name: mine}}\nrbac: {create: false}",
            &format!("--service-account-name mine {NOTHING}"),
        ),
        case("another namespace", "", &format!("-n dr {NOTHING}")),
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

/// What `make deploy` writes, without helm.
#[test]
fn definitions_and_rules_of_the_chart_are_those_of_the_command() {
    let read = |name: &str| std::fs::read_to_string(chart().join(name)).expect("a file of the chart");
    let old = "is old: make deploy writes it anew";
    let definitions = documents(&read("crds/definitions.yaml"));
    assert!(definitions == installed("--crds-only"), "crds/definitions.yaml {old}");
    let rules: Value = serde_json::from_str(&read("files/least-privilege.json")).expect("JSON");
    let roles = installed(&format!("--least-privilege {NOTHING}"));
    let expected: BTreeMap<&str, &Value> = roles
        .iter()
        .filter(|object| object["rules"].is_array())
        .map(|role| (role["kind"].as_str().expect("a kind"), &role["rules"]))
        .collect();
    assert!(rules == json!(expected), "files/least-privilege.json {old}");
    let version = format!("appVersion: v{}\n", env!("CARGO_PKG_VERSION"));
    assert!(read("Chart.yaml").contains(&version), "the image of the chart is that of the command");
}

/// A key that files/keys.yaml says is read, and no template reads, would be dropped in silence.
#[test]
fn every_key_that_counts_is_in_a_template() {
    let keys = std::fs::read_to_string(chart().join("files/keys.yaml")).expect("the keys");
    let keys: Value = serde_saphyr::from_str(&keys).expect("YAML");
    let mut words = BTreeSet::new();
    for file in std::fs::read_dir(chart().join("templates")).expect("the templates") {
        let text = std::fs::read_to_string(file.expect("a file").path()).expect("a template");
        words.extend(text.split(|c: char| !c.is_alphanumeric()).map(str::to_owned));
    }
    let mut read = Vec::new();
    leaves(&keys, &mut read);
    assert!(read.len() > 100, "{read:?}");
    // `global` is what helm adds, and the node agent's keys are listed with the one that asks for it.
    let unread = |name: &&String| !words.contains(*name) && !["global", "nodeAgent", "*"].contains(&name.as_str());
    assert_eq!(read.iter().filter(unread).collect::<Vec<_>>(), [""; 0]);
}

/// The names of all keys that count.
fn leaves(keys: &Value, out: &mut Vec<String>) {
    for (name, below) in keys.as_object().into_iter().flatten() {
        match below {
            Value::Bool(true) => out.push(name.clone()),
            below => leaves(below, out),
        }
    }
}

/// What of the values in velero-values.yaml changes nothing.
const IGNORED: &str =
    "cleanUpCRDs: `lifeboat uninstall` alone deletes definitions, and with them all backups that the cluster knows
configuration.backupStorageLocation.0.storageClass: the chart does not know this key
configuration.defaultVolumesToRestic: the chart does not know this key
configuration.repositoryMaintenanceJob: this version maintains no repositories
deployNodeAgent: this version has no node agent, so nothing of nodeAgent counts
deployRestic: the chart does not know this key
kubectl.image: no Job of this chart runs kubectl
metrics.nodeAgentPodMonitor.enabled: this version has no node agent
metrics.serviceMonitor.honorLabels: the chart does not know this key
namespace.labels: Helm makes the namespace before the chart is asked; label it yourself
securityContext: the chart does not know this key
image.repository, image.tag, image.digest: velero/velero is the server of Velero; that of the chart is taken
livenessProbe: metrics are served by a server that hangs, too; it is asked at a path of its own
configuration.namespace: the server runs in the namespace of the release
configuration.backupStorageLocation.1: it names no bucket";

pub(super) fn ignored() -> &'static str {
    IGNORED
}

/// Velero's values as they are: names stay, what counts is there, and what does not is named.
#[test]
fn values_of_veleros_chart_are_understood() {
    let values = std::fs::read_to_string(beside("velero-values.yaml")).expect("the values");
    let all = rendered(&[&values], &["-n", "velero"]);
    assert_eq!(
        all.keys().map(String::as_str).collect::<Vec<_>>(),
        [
            "BackupStorageLocation default",
            "ClusterRoleBinding velero",
            "ConfigMap velero-pod-volume-restore-config",
            "Deployment velero",
            "Schedule velero-nightly",
            "Secret velero",
            "Service velero",
            "ServiceAccount velero-server",
            "ServiceMonitor velero",
            "VolumeSnapshotLocation default",
        ]
    );
    let deployment = &all["Deployment velero"];
    assert_eq!(
        deployment["metadata"]["annotations"],
        json!({"reloader.stakater.com/auto": "true", "lifeboat.io/ignored-values": IGNORED})
    );
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["image"], format!("lifeboat/lifeboat:v{}", env!("CARGO_PKG_VERSION")));
    assert_eq!(
        container["args"],
        json!([
            "server",
            "--features=EnableCSI",
            "--uploader-type=kopia",
            "--client-burst=1000000",
            "--client-qps=75.5",
            "--default-backup-ttl=720h",
            "--disable-controllers=schedule,gc",
            "--log-format=json",
            "--concurrent-backups=2",
        ])
    );
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/healthz");
    assert_eq!(container["readinessProbe"], json!({"exec": {"command": ["/velero", "version", "--client-only"]}}));
    let env = container["env"].as_array().expect("variables");
    assert_eq!(
        env[env.len() - 2..],
        [
            json!({"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "velero", "key": "TOKEN"}}}),
            json!({"name": "AWS_CLUSTER_NAME", "value": "cluster-1"}),
        ]
    );
    assert_eq!(pod["volumes"][3]["secret"]["secretName"], "velero");
    assert_eq!(
        (&pod["securityContext"], &pod["serviceAccountName"]),
        (&json!({"fsGroup": 1337}), &json!("velero-server"))
    );
    assert_eq!(
        all["BackupStorageLocation default"]["spec"],
        json!({
            "provider": "aws", "default": true, "accessMode": "ReadWrite", "validationFrequency": "5m",
            "objectStorage": {"bucket": "backups", "prefix": "cluster-1"},
            "config": {"region": "eu-west-1", "s3ForcePathStyle": "true", "kmsKeyId": "123456789012"},
        })
    );
    assert_eq!(
        all["Schedule velero-nightly"]["spec"],
        json!({
            "schedule": "0 3 * * *", "useOwnerReferencesInBackup": false,
            "template": {"ttl": "240h", "storageLocation": "default", "includedNamespaces": ["shop"]},
        })
    );

    let refused = template(&[&values, "strict: true"], &[]);
    assert_eq!(refused.code, 1, "{refused:?}");
    let said = format!("these values change nothing, which strict: true forbids:\n{IGNORED}\n");
    assert!(refused.err.contains(&said), "{}", refused.err);
    assert_eq!(template(&["strict: true"], &[]).code, 0, "the chart's own values are fine");
}

/// Each of its keys counts.
#[test]
fn the_values_of_the_page_are_taken_as_they_stand() {
    let page = include_str!("../../../../../docs/install.md");
    let (_, rest) = page.split_once("```yaml\n# values.yaml\n").expect("values");
    let (values, _) = rest.split_once("```").expect("their end");
    let all = rendered(&[values, "strict: true"], &[]);
    let made: BTreeSet<&str> = all.keys().filter_map(|name| name.split(' ').next()).collect();
    assert!(["BackupStorageLocation", "Deployment", "Schedule"].iter().all(|kind| made.contains(kind)), "{made:?}");
}

/// Wherever a key is, and whatever it holds.
#[test]
fn keys_that_the_chart_does_not_know_are_listed() {
    let values = "
replica: 2
disabled: false
empty: {}
image: {tags: v1}
serviceAccount: {server: {named: a}, client: {create: true}}
configuration: {backupStorageLocation: {provider: aws, bucket: b, region: x}, volumeSnapshotLocation: [{config: {a: b}}]}
schedules: {daily: {schedule: '@daily', ttl: 1h, template: {anything: goes}}}
configMaps: {a: {data: {b: c}, binaryData: {d: ZQ==}}}
credentials: {secretContents: {cloud: x}, key: y}
leastPrivilege: true
rbac: {clusterAdministratorName: mine}
";
    let expected = "configMaps.a.binaryData: the chart does not know this key
configuration.backupStorageLocation.region: the chart does not know this key
credentials.key: the chart does not know this key
disabled: the chart does not know this key
image.tags: the chart does not know this key
replica: the chart does not know this key
schedules.daily.ttl: the chart does not know this key
serviceAccount.client: the chart does not know this key
serviceAccount.server.named: the chart does not know this key
rbac.clusterAdministratorName: leastPrivilege gives no role of an administrator
configuration.volumeSnapshotLocation.0: it names no provider";
    let all = rendered(&[values], &[]);
    assert_eq!(all["Deployment velero"]["metadata"]["annotations"]["lifeboat.io/ignored-values"], expected);
}

/// As `helm upgrade --reuse-values` over Velero's chart leaves it: its values have none of our own keys.
#[test]
fn keys_of_our_own_may_be_missing() {
    let none = "{replicas: null, leastPrivilege: null, strict: null, directory: null, podDisruptionBudget: null, upgradeCRDsJob: null, \
                kubectl: null}";
    assert_eq!(rendered(&[none], &[]), rendered(&[], &[]));
    assert_eq!(hooks(&[none]), hooks(&[]));
}

#[test]
fn names_are_those_of_veleros_chart() {
    for (values, release, deployment, account) in [
        ("", "velero", "velero", "velero-server"),
        ("", "my-velero-2", "my-velero-2", "my-velero-2-server"),
        ("", "backup", "backup-velero", "backup-velero-server"),
        ("nameOverride: saver", "backup", "backup-saver", "backup-saver-server"),
        ("fullnameOverride: it", "backup", "it", "it-server"),
        ("serviceAccount: {server: {create: false}}", "velero", "velero", "default"),
    ] {
        let run = template_as(release, &[values], &["--show-only", "templates/deployment.yaml"]);
        let all = by_name(documents(&run.out));
        let (name, object) = all.first_key_value().expect("a Deployment");
        assert_eq!(name, &format!("Deployment {deployment}"), "{values} {release}");
        assert_eq!(object["spec"]["template"]["spec"]["serviceAccountName"], account, "{values} {release}");
    }
}

/// Prometheus asks by annotations, or by a monitor and a service.
#[test]
fn metrics_are_found_in_one_way() {
    let operator = ["-n", "velero", "--api-versions", "monitoring.coreos.com/v1"];
    let monitor = "metrics: {scrapeInterval: 1m, serviceMonitor: {enabled: true, namespace: monitoring, scheme: https, relabelings: [{action: keep}]}}";
    let rule = "metrics: {service: {type: NodePort, nodePort: 30085}, prometheusRule: {enabled: true, spec: [{alert: A, expr: up}]}}";
    let annotations = |all: &BTreeMap<String, Value>| {
        all["Deployment velero"]["spec"]["template"]["metadata"]["annotations"]["prometheus.io/scrape"] == "true"
    };
    let all = rendered(&[monitor, rule], &operator);
    assert!(!annotations(&all));
    let labels = json!({"app.kubernetes.io/instance": "velero", "app.kubernetes.io/name": "velero"});
    assert_eq!(
        all["ServiceMonitor velero"]["spec"],
        json!({
            "namespaceSelector": {"matchNames": ["velero"]}, "selector": {"matchLabels": labels},
            "endpoints": [{"port": "http-monitoring", "interval": "1m", "scrapeTimeout": "10s", "scheme": "https",
                "relabelings": [{"action": "keep"}]}],
        })
    );
    assert_eq!(all["ServiceMonitor velero"]["metadata"]["namespace"], "monitoring");
    assert_eq!(
        all["PrometheusRule velero"]["spec"],
        json!({"groups": [{"name": "velero", "rules": [{"alert": "A", "expr": "up"}]}]})
    );
    assert_eq!(
        all["Service velero"]["spec"],
        json!({
            "type": "NodePort", "selector": {"deploy": "velero"},
            "ports": [{"name": "http-monitoring", "port": 8085, "targetPort": "http-monitoring", "nodePort": 30085}],
        })
    );
    // Where the cluster has no such types, none is made, unless they are not looked for.
    let found = |values: &[&str]| rendered(values, &[]).keys().filter(|name| name.ends_with("Monitor velero")).count();
    assert_eq!((found(&[monitor]), found(&[monitor, "metrics: {serviceMonitor: {autodetect: false}}"])), (0, 1));
    let none = rendered(&["metrics: {enabled: false}"], &[]);
    assert!(!annotations(&none) && !none.contains_key("Service velero"));
}

/// The Job that brings definitions up to date runs before all else.
#[test]
fn definitions_are_brought_up_to_date_first() {
    let values = "
image: {imagePullSecrets: [a, {name: b}]}
nodeSelector: {pool: system}
kubectl: {annotations: {c: d}, labels: {e: f}}
upgradeJobResources: {limits: {memory: 64Mi}}
upgradeCRDsJob: {extraEnvVars: [{name: g, value: h}]}
";
    let all = hooks(&[values]);
    let order: Vec<_> =
        all.iter().map(|hook| (name(hook), &hook["metadata"]["annotations"]["helm.sh/hook-weight"])).collect();
    assert_eq!(
        order,
        [
            ("ServiceAccount velero-upgrade-crds".to_owned(), &json!("0")),
            ("ClusterRole velero-upgrade-crds".to_owned(), &json!("0")),
            ("ClusterRoleBinding velero-upgrade-crds".to_owned(), &json!("0")),
            ("Job velero-upgrade-crds".to_owned(), &json!("1")),
        ]
    );
    assert!(all.iter().all(|hook| hook["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"));
    let pod = &all[3]["spec"]["template"];
    assert_eq!(pod["metadata"], json!({"annotations": {"c": "d"}, "labels": {"component": "velero", "e": "f"}}));
    assert_eq!(pod["spec"]["imagePullSecrets"], json!([{"name": "a"}, {"name": "b"}]));
    assert_eq!(pod["spec"]["nodeSelector"], json!({"pool": "system"}));
    let container = &pod["spec"]["containers"][0];
    assert_eq!(
        (&container["args"], &container["env"], &container["resources"]),
        (
            &json!(["install", "--crds-only", "--apply"]),
            &json!([{"name": "g", "value": "h"}]),
            &json!({"limits": {"memory": "64Mi"}})
        )
    );
    assert_eq!(hooks(&["upgradeCRDs: false"]), [Value::Null; 0]);
}
