//! The values of the chart: each counts, or is listed.

use super::{beside, by_name, documents, hooks, name, rendered, template, template_as};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Warnings about the values in velero-values.yaml that change nothing.
pub(in crate::install) const IGNORED: &str =
    "cleanUpCRDs: `lifeboat uninstall` alone deletes definitions, and with them all backups that the cluster knows
configuration.backupStorageLocation.0.storageClass: the chart does not know this key
configuration.defaultVolumesToRestic: the chart does not know this key
deployRestic: the chart does not know this key
kubectl.image: no Job of this chart runs kubectl
metrics.serviceMonitor.honorLabels: the chart does not know this key
namespace.labels: Helm makes the namespace before the chart is asked; label it yourself
securityContext: the chart does not know this key
image.repository, image.tag, image.digest: velero/velero is the server of Velero; that of the chart is taken
livenessProbe: metrics are served by a server that hangs, too; it is asked at a path of its own
configuration.namespace: the server runs in the namespace of the release
configuration.backupStorageLocation.1: it names no bucket";

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
            "ConfigMap velero-repo-maintenance",
            "DaemonSet node-agent",
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
            "--repo-maintenance-job-configmap=velero-repo-maintenance",
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
    let jobs = json!({"global": "{\"keepLatestMaintenanceJobs\":3}"});
    assert_eq!(all["ConfigMap velero-repo-maintenance"]["data"], jobs);
    let agent = &all["DaemonSet node-agent"]["spec"]["template"]["spec"];
    assert_eq!(
        (
            &agent["containers"][0]["args"],
            &agent["containers"][0]["env"][7]["name"],
            &agent["volumes"][3]["secret"]["secretName"]
        ),
        (
            &json!(["node-agent", "server", "--features=EnableCSI", "--log-format=json"]),
            &json!("TOKEN"),
            &json!("velero")
        )
    );
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
    let page = include_str!("../../../../docs/install.md");
    let (_, rest) = page.split_once("```yaml\n# values.yaml\n").expect("values");
    let (values, _) = rest.split_once("```").expect("their end");
    let all = rendered(&[values, "strict: true"], &[]);
    let made: BTreeSet<&str> = all.keys().filter_map(|name| name.split(' ').next()).collect();
    assert!(["BackupStorageLocation", "Deployment", "Schedule"].iter().all(|kind| made.contains(kind)), "{made:?}");
}

/// Keys that the chart does not know, wherever they are and whatever they hold, and values that count only beside
/// others.
#[test]
fn values_that_change_nothing_are_listed() {
    let values = "
replica: 2
disabled: false
empty: {}
image: {tags: v1}
serviceAccount: {server: {named: a}, client: {create: true}}
configuration: {backupStorageLocation: {provider: aws, bucket: b, region: x}, volumeSnapshotLocation: [{config: {a: b}}]}
schedules: {daily: {schedule: '@daily', ttl: 1h, template: {anything: goes}}}
configMaps: {a: {data: {b: c}, binaryData: {d: ZQ==}}}
credentials: {secretContents: {cloud: x}, key: y, existingSecret: there, name: mine}
secretAnnotations: {a: b}
leastPrivilege: true
rbac: {create: false, clusterAdministratorName: mine}
replicas: 2
podDisruptionBudget: {minAvailable: 1}
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
rbac.clusterAdministratorName: no account gets the role of an administrator
leastPrivilege: without rbac.create no rights are given
credentials.name: the Secret of existingSecret is taken
credentials.secretContents: the Secret of existingSecret is taken
secretAnnotations: no Secret is made
podDisruptionBudget.minAvailable: without enabled one server is evicted at a time
configuration.volumeSnapshotLocation.0: it names no provider";
    let listed = |values: &str| {
        let all = rendered(&[values], &[]);
        all["Deployment velero"]["metadata"]["annotations"]["lifeboat.io/ignored-values"].clone()
    };
    assert_eq!(listed(values), expected);
    for (values, expected) in [
        (
            "credentials: {secretContents: {cloud: x}, useSecret: false}",
            "credentials.secretContents: without useSecret no Secret is made",
        ),
        (
            "podDisruptionBudget: {enabled: true, minAvailable: 1, maxUnavailable: 1}",
            "podDisruptionBudget.maxUnavailable: minAvailable is taken",
        ),
        (
            "metrics: {nodeAgentPodMonitor: {enabled: true}}",
            "metrics.nodeAgentPodMonitor.enabled: without deployNodeAgent there is no node agent",
        ),
        (
            "rbac: {clusterAdministrator: false, clusterAdministratorName: mine}",
            "rbac.clusterAdministratorName: no account gets the role of an administrator",
        ),
    ] {
        assert_eq!(listed(values), expected, "{values}");
    }
    assert_eq!(listed("rbac: {clusterAdministratorName: mine}"), Value::Null);
    let both = template(&["directory: {claim: a, nfs: {server: nas, path: /b}}"], &[]);
    let said = "directory: claim and nfs cannot both be given, because backups lie in one of them";
    assert!(both.code == 1 && both.err.contains(said), "{both:?}");
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
fn a_server_that_stands_by_has_no_replica() {
    for (values, replicas) in
        [("", Value::Null), ("replicas: 1", Value::Null), ("replicas: 0", 0.into()), ("replicas: 3", 3.into())]
    {
        let all = rendered(&[values], &[]);
        assert_eq!(all["Deployment velero"]["spec"]["replicas"], replicas, "{values}");
    }
}

#[test]
fn probes_and_whoever_scrapes_go_to_the_port_of_the_metrics() {
    for (values, port) in [("", 8085), ("configuration: {metricsAddress: ':9090'}", 9090)] {
        let all = rendered(&[values], &[]);
        let template = &all["Deployment velero"]["spec"]["template"];
        let container = &template["spec"]["containers"][0];
        assert_eq!(container["ports"], json!([{"name": "http-monitoring", "containerPort": port}]), "{values}");
        assert_eq!(container["livenessProbe"]["httpGet"]["port"], "http-monitoring");
        assert_eq!(template["metadata"]["annotations"]["prometheus.io/port"], port.to_string());
    }
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
