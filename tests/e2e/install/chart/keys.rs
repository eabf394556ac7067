//! Each key that files/keys.yaml says is read changes what is made: one that no template reads would be dropped in
//! silence.

use super::{chart, template};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Keys that are read and change nothing that is made: what helm adds, and what decides whether a list of ignored
/// values is a failure, of which another test is.
const WITHOUT_OBJECTS: [&str; 2] = ["global", "strict"];

/// Values that are no text, by their keys: another one than the chart has, of the kind that the key wants. Any other
/// key gets a text.
fn samples() -> BTreeMap<&'static str, Value> {
    let (map, list) = (json!({"other": "x"}), json!(["other"]));
    let mut all = BTreeMap::from([
        ("replicas", json!(2)),
        ("deployNodeAgent", json!(true)),
        ("nodeAgent.disableHostPath", json!(true)),
        ("nodeAgent.extraEnvVars", json!({"OTHER": "x"})),
        ("leastPrivilege", json!(true)),
        ("directory.nfs", json!({"server": "nas", "path": "/a"})),
        ("revisionHistoryLimit", json!(3)),
        ("terminationGracePeriodSeconds", json!(5)),
        ("extraObjects", json!([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}])),
        ("podDisruptionBudget.enabled", json!(true)),
        ("podDisruptionBudget.minAvailable", json!(2)),
        ("podDisruptionBudget.maxUnavailable", json!(2)),
        ("metrics.service.nodePort", json!(30085)),
        ("configuration.extraEnvVars", json!({"OTHER": "x"})),
        ("upgradeCRDsJob.extraEnvVars", json!([{"name": "OTHER", "value": "x"}])),
        ("schedules.*.retention", json!({"last": 1})),
        ("schedules.*.template", json!({"ttl": "1h"})),
    ]);
    for key in [
        "annotations",
        "secretAnnotations",
        "labels",
        "podAnnotations",
        "podLabels",
        "resources",
        "dnsConfig",
        "podSecurityContext",
        "containerSecurityContext",
        "lifecycle",
        "livenessProbe",
        "readinessProbe",
        "affinity",
        "nodeSelector",
        "podDisruptionBudget.annotations",
        "podDisruptionBudget.labels",
        "metrics.service.annotations",
        "metrics.service.labels",
        "metrics.podAnnotations",
        "metrics.serviceMonitor.annotations",
        "metrics.serviceMonitor.additionalLabels",
        "metrics.serviceMonitor.tlsConfig",
        "metrics.nodeAgentPodMonitor.annotations",
        "metrics.nodeAgentPodMonitor.additionalLabels",
        "metrics.nodeAgentPodMonitor.tlsConfig",
        "configuration.repositoryMaintenanceJob.repositoryConfigData.global",
        "configuration.repositoryMaintenanceJob.repositoryConfigData.repositories",
        "nodeAgent.resources",
        "nodeAgent.annotations",
        "nodeAgent.labels",
        "nodeAgent.podLabels",
        "nodeAgent.podSecurityContext",
        "nodeAgent.containerSecurityContext",
        "nodeAgent.securityContext",
        "nodeAgent.lifecycle",
        "nodeAgent.nodeSelector",
        "nodeAgent.affinity",
        "nodeAgent.dnsConfig",
        "nodeAgent.updateStrategy",
        "metrics.prometheusRule.annotations",
        "metrics.prometheusRule.additionalLabels",
        "upgradeJobResources",
        "kubectl.annotations",
        "kubectl.labels",
        "configuration.backupStorageLocation.*.config",
        "configuration.backupStorageLocation.*.annotations",
        "configuration.volumeSnapshotLocation.*.config",
        "configuration.volumeSnapshotLocation.*.annotations",
        "serviceAccount.server.annotations",
        "serviceAccount.server.labels",
        "credentials.secretContents",
        "credentials.extraEnvVars",
        "schedules.*.labels",
        "schedules.*.annotations",
        "configMaps.*.labels",
        "configMaps.*.annotations",
        "configMaps.*.data",
    ] {
        all.insert(key, map.clone());
    }
    for key in [
        "image.imagePullSecrets",
        "resizePolicy",
        "hostAliases",
        "initContainers",
        "tolerations",
        "nodeAgent.resizePolicy",
        "nodeAgent.tolerations",
        "nodeAgent.hostAliases",
        "nodeAgent.extraVolumes",
        "nodeAgent.extraVolumeMounts",
        "nodeAgent.extraArgs",
        "extraVolumes",
        "extraVolumeMounts",
        "metrics.service.ipFamilies",
        "metrics.serviceMonitor.relabelings",
        "metrics.serviceMonitor.metricRelabelings",
        "metrics.prometheusRule.spec",
        "upgradeCRDsJob.extraVolumes",
        "upgradeCRDsJob.extraVolumeMounts",
        "configuration.extraArgs",
        "serviceAccount.server.imagePullSecrets",
    ] {
        all.insert(key, list.clone());
    }
    // Switches that are on, in the chart or by what is beside them.
    for key in [
        "metrics.enabled",
        "metrics.serviceMonitor.enabled",
        "metrics.nodeAgentPodMonitor.enabled",
        "nodeAgent.useScratchEmptyDir",
        "metrics.prometheusRule.enabled",
        "upgradeCRDs",
        "upgradeCRDsJob.automountServiceAccountToken",
        "rbac.create",
        "rbac.clusterAdministrator",
        "serviceAccount.server.create",
        "serviceAccount.server.automountServiceAccountToken",
        "credentials.useSecret",
        "backupsEnabled",
        "snapshotsEnabled",
    ] {
        all.insert(key, json!(false));
    }
    all
}

/// Values that keys with this beginning need beside them to have any effect.
fn beside(key: &str) -> Value {
    let monitored = || {
        json!({"metrics": {"serviceMonitor": {"enabled": true, "autodetect": false},
        "prometheusRule": {"enabled": true, "autodetect": false}}})
    };
    let agent = |monitor: bool| json!({"deployNodeAgent": true, "metrics": {"nodeAgentPodMonitor": {"enabled": monitor, "autodetect": false}}});
    let location = |more: Value| {
        let mut location = json!({"name": "a", "bucket": "b", "credential": {"name": "c", "key": "d"}});
        location.as_object_mut().expect("a map").extend(more.as_object().cloned().unwrap_or_default());
        json!([location])
    };
    let with_provider = || location(json!({"provider": "aws"}));
    let secret = || json!({"credentials": {"secretContents": {"cloud": "x"}}});
    match key {
        "secretAnnotations" | "credentials.useSecret" | "credentials.name" => secret(),
        "backupsEnabled" => json!({"configuration": {"backupStorageLocation": with_provider()}}),
        "snapshotsEnabled" => json!({"configuration": {"volumeSnapshotLocation": with_provider()}}),
        "configuration.provider" => json!({"configuration": {"backupStorageLocation": location(json!({}))}}),
        "metrics.scrapeInterval" | "metrics.scrapeTimeout" => monitored(),
        key if key.starts_with("metrics.serviceMonitor.") || key.starts_with("metrics.prometheusRule.") => monitored(),
        "configuration.repositoryMaintenanceJob.repositoryConfigData.name" => {
            json!({"configuration": {"repositoryMaintenanceJob": {"repositoryConfigData": {"global": {"other": "x"}}}}})
        }
        "configuration.dataMoverPrepareTimeout" => agent(false),
        key if key.starts_with("nodeAgent.") => agent(false),
        key if key.starts_with("metrics.nodeAgentPodMonitor.") => agent(true),
        "podDisruptionBudget.enabled" => json!({}),
        key if key.starts_with("podDisruptionBudget.") => json!({"podDisruptionBudget": {"enabled": true}}),
        key if key.starts_with("configuration.backupStorageLocation.") => {
            json!({"configuration": {"backupStorageLocation": with_provider()}})
        }
        key if key.starts_with("configuration.volumeSnapshotLocation.") => {
            json!({"configuration": {"volumeSnapshotLocation": with_provider()}})
        }
        key if key.starts_with("schedules.") => json!({"schedules": {"a": {"schedule": "@daily"}}}),
        key if key.starts_with("configMaps.") => json!({"configMaps": {"a": {"data": {"b": "c"}}}}),
        _ => json!({}),
    }
}

/// Puts a value where a key leads; `*` is the first element of a list, or the only one of a map.
fn put(values: &mut Value, key: &str, value: Value) {
    let (first, rest) = key.split_once('.').map_or((key, None), |(first, rest)| (first, Some(rest)));
    let at = match (first, &mut *values) {
        ("*", Value::Array(all)) => &mut all[0],
        ("*", Value::Object(all)) => all.values_mut().next().expect("an element"),
        (name, values) => {
            let map = values.as_object_mut().expect("a map");
            map.entry(name).or_insert_with(|| Value::Object(Map::new()))
        }
    };
    match rest {
        Some(rest) => put(at, rest, value),
        None => *at = value,
    }
}

/// The keys that count, all of them.
fn keys_that_count(keys: &Value, path: &str, out: &mut Vec<String>) {
    for (name, below) in keys.as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match below {
            Value::Bool(true) => out.push(path),
            below => keys_that_count(below, &path, out),
        }
    }
}

/// The output of helm for these values, with no look-up of types.
fn made(values: &Value) -> String {
    let run = template(&[&values.to_string()], &["-n", "velero"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{values}");
    run.out
}

#[test]
fn every_key_that_counts_changes_what_is_made() {
    let keys = std::fs::read_to_string(chart().join("files/keys.yaml")).expect("the keys");
    let keys: Value = serde_saphyr::from_str(&keys).expect("YAML");
    let mut counting = Vec::new();
    keys_that_count(&keys, "", &mut counting);
    let (mut samples, mut without) = (samples(), BTreeMap::new());
    for key in counting.iter().filter(|key| !WITHOUT_OBJECTS.contains(&key.as_str())) {
        let beside = beside(key);
        let before = without.entry(beside.to_string()).or_insert_with(|| made(&beside)).clone();
        let mut values = beside;
        put(&mut values, key, samples.remove(key.as_str()).unwrap_or_else(|| json!("other")));
        assert_ne!(made(&values), before, "{key}: no template reads it");
    }
    assert_eq!(samples, BTreeMap::new(), "samples of keys that do not count");
    let unknown = WITHOUT_OBJECTS.iter().filter(|key| !counting.iter().any(|counts| counts == *key));
    assert_eq!(unknown.collect::<Vec<_>>(), [&""; 0]);
}
