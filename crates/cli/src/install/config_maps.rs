//! ConfigMaps that an installation names must be there and be readable by the server (cli-and-install.md 3.2, 4.2, 4.7
//! and 4.8): a server that starts and ignores its settings would be worse than no server.

use super::flags::InstallArgs;
use anyhow::{Result, bail};
use lifeboat_cluster::Cluster;
use lifeboat_object::ApiResource;
use serde_json::Value;

/// The form of a value. Null is an absent value everywhere, as in Go; unknown fields are of no interest.
enum Shape {
    Any,
    Text,
    Flag,
    Number,
    Map(&'static Shape),
    Many(&'static Shape),
    Object(&'static [(&'static str, Shape)]),
}

const SELECTOR: Shape = Shape::Object(&[
    ("matchLabels", Shape::Map(&Shape::Text)),
    (
        "matchExpressions",
        Shape::Many(&Shape::Object(&[
            ("key", Shape::Text),
            ("operator", Shape::Text),
            ("values", Shape::Many(&Shape::Text)),
        ])),
    ),
]);
const AFFINITY: Shape = Shape::Many(&Shape::Object(&[("nodeSelector", SELECTOR), ("storageClass", Shape::Text)]));
const POD_RESOURCES: Shape = Shape::Object(&[
    ("cpuRequest", Shape::Text),
    ("cpuLimit", Shape::Text),
    ("memoryRequest", Shape::Text),
    ("memoryLimit", Shape::Text),
    ("ephemeralStorageRequest", Shape::Text),
    ("ephemeralStorageLimit", Shape::Text),
]);
const TEXTS: Shape = Shape::Map(&Shape::Text);
const NODE_AGENT: Shape = Shape::Object(&[
    (
        "loadConcurrency",
        Shape::Object(&[
            ("globalConfig", Shape::Number),
            ("perNodeConfig", Shape::Many(&Shape::Object(&[("nodeSelector", SELECTOR), ("number", Shape::Number)]))),
            ("prepareQueueLength", Shape::Number),
        ]),
    ),
    ("loadAffinity", AFFINITY),
    (
        "backupPVC",
        Shape::Map(&Shape::Object(&[
            ("storageClass", Shape::Text),
            ("readOnly", Shape::Flag),
            ("spcNoRelabeling", Shape::Flag),
            ("annotations", TEXTS),
            ("secretNames", Shape::Many(&Shape::Text)),
            ("configMapNames", Shape::Many(&Shape::Text)),
        ])),
    ),
    (
        "restorePVC",
        Shape::Object(&[
            ("ignoreDelayBinding", Shape::Flag),
            ("secretNames", Shape::Many(&Shape::Text)),
            ("configMapNames", Shape::Many(&Shape::Text)),
        ]),
    ),
    ("podResources", POD_RESOURCES),
    ("priorityClassName", Shape::Text),
    ("privilegedFsBackup", Shape::Flag),
    ("cachePVC", Shape::Object(&[("storageClass", Shape::Text), ("residentThresholdInMB", Shape::Number)])),
    ("podLabels", TEXTS),
    ("podAnnotations", TEXTS),
    ("csiSnapshotMetadataServiceConfigs", Shape::Object(&[("saName", Shape::Text)])),
]);
const MAINTENANCE: Shape = Shape::Object(&[
    ("loadAffinity", AFFINITY),
    ("podResources", POD_RESOURCES),
    ("keepLatestMaintenanceJobs", Shape::Number),
    ("priorityClassName", Shape::Text),
    ("podLabels", TEXTS),
    ("podAnnotations", TEXTS),
]);
const REPOSITORY: Shape = Shape::Map(&Shape::Any);

/// The ConfigMaps that are looked at, and the form of their values.
fn named(args: &InstallArgs) -> Vec<(&'static str, &str, &'static Shape)> {
    let all: [(&str, &str, &Shape); 3] = [
        ("--node-agent-configmap", &args.node_agent_configmap, &NODE_AGENT),
        ("--repo-maintenance-job-configmap", &args.repo_maintenance_job_configmap, &MAINTENANCE),
        ("--backup-repository-configmap", &args.backup_repository_configmap, &REPOSITORY),
    ];
    all.into_iter().filter(|(_, name, _)| !name.is_empty()).collect()
}

/// Whether the cluster must be asked.
pub(super) fn any(args: &InstallArgs) -> bool {
    !named(args).is_empty()
}

/// Refuses an installation whose ConfigMaps are missing or cannot be read.
pub(super) async fn check(cluster: &Cluster, namespace: &str, args: &InstallArgs) -> Result<()> {
    let maps = ApiResource::new("", "v1", "configmaps", "ConfigMap");
    for (flag, name, shape) in named(args) {
        let Some(bytes) = cluster.get(&maps, Some(namespace), name).await? else {
            bail!("{flag} {name}: there is no such ConfigMap in the namespace {namespace}; make it first");
        };
        let map: Value = serde_json::from_slice(&bytes)?;
        if let Err(why) = check_data(&map, shape) {
            bail!("{flag} {name}: {why}");
        }
    }
    Ok(())
}

fn check_data(map: &Value, shape: &Shape) -> Result<(), String> {
    let data = map["data"].as_object().filter(|data| !data.is_empty()).ok_or("the ConfigMap has no data")?;
    for (key, text) in data {
        let text = text.as_str().unwrap_or_default();
        let value: Value = serde_json::from_str(text).map_err(|e| format!("key {key} is no JSON: {e}"))?;
        fits(shape, &value, key)?;
    }
    Ok(())
}

fn fits(shape: &Shape, value: &Value, path: &str) -> Result<(), String> {
    let wrong = |expected: &str| Err(format!("{path} is not {expected}"));
    match shape {
        _ if value.is_null() => Ok(()),
        Shape::Any => Ok(()),
        Shape::Text if value.is_string() => Ok(()),
        Shape::Text => wrong("a text"),
        Shape::Flag if value.is_boolean() => Ok(()),
        Shape::Flag => wrong("true or false"),
        Shape::Number if value.is_i64() => Ok(()),
        Shape::Number => wrong("a whole number"),
        Shape::Many(each) => match value.as_array() {
            Some(all) => all.iter().enumerate().try_for_each(|(at, one)| fits(each, one, &format!("{path}[{at}]"))),
            None => wrong("a list"),
        },
        Shape::Map(each) => match value.as_object() {
            Some(all) => all.iter().try_for_each(|(key, one)| fits(each, one, &format!("{path}.{key}"))),
            None => wrong("an object"),
        },
        Shape::Object(fields) => match value.as_object() {
            Some(all) => fields.iter().try_for_each(|(name, each)| match all.get(*name) {
                Some(one) => fits(each, one, &format!("{path}.{name}")),
                None => Ok(()),
            }),
            None => wrong("an object"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node_agent(data: &str) -> Result<(), String> {
        check_data(&json!({"data": {"config": data}}), &NODE_AGENT)
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (data, why) in [
            ("{", "key config is no JSON: EOF while parsing an object at line 1 column 1"),
            ("[]", "config is not an object"),
            (
                r#"{"loadConcurrency": {"globalConfig": "2"}}"#,
                "config.loadConcurrency.globalConfig is not a whole number",
            ),
            (
                r#"{"loadConcurrency": {"perNodeConfig": [{"number": 1}, {"nodeSelector": {"matchLabels": 1}}]}}"#,
                "config.loadConcurrency.perNodeConfig[1].nodeSelector.matchLabels is not an object",
            ),
            (r#"{"backupPVC": {"fast": {"readOnly": "yes"}}}"#, "config.backupPVC.fast.readOnly is not true or false"),
            (r#"{"loadAffinity": {}}"#, "config.loadAffinity is not a list"),
            (r#"{"podLabels": {"a": 1}}"#, "config.podLabels.a is not a text"),
        ] {
            assert_eq!(node_agent(data).unwrap_err(), why, "{data}");
        }
        assert_eq!(check_data(&json!({}), &NODE_AGENT).unwrap_err(), "the ConfigMap has no data");
        assert_eq!(check_data(&json!({"data": {}}), &NODE_AGENT).unwrap_err(), "the ConfigMap has no data");
    }

    #[test]
    fn what_can_be_read_is_taken() {
        node_agent(r#"{"loadConcurrency": {"globalConfig": 2}, "podResources": null, "later": [1]}"#).unwrap();
        let maintenance = json!({"data": {"global": r#"{"keepLatestMaintenanceJobs": 1}"#, "app-default-kopia": "{}"}});
        check_data(&maintenance, &MAINTENANCE).unwrap();
        check_data(&json!({"data": {"kopia": r#"{"cacheLimitMB": 1, "own": "x"}"#}}), &REPOSITORY).unwrap();
    }
}
