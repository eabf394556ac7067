//! ConfigMaps that an installation names must be there and be readable by the server (velero:
//! pkg/cmd/cli/install): a server that starts and ignores its settings would be worse than no server.

use crate::installation::Installation;
use crate::read::get;
use lifeboat_cluster::{Cluster, ClusterError};
use lifeboat_object::ApiResource;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

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
    ("prepareQueueLength", Shape::Number),
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
    (
        "cachePVC",
        Shape::Object(&[
            ("storageClass", Shape::Text),
            ("residentThresholdInMB", Shape::Number),
            ("thresholdInGB", Shape::Number),
        ]),
    ),
    ("podLabels", TEXTS),
    ("podAnnotations", TEXTS),
    ("csiSnapshotMetadataServiceConfigs", Shape::Object(&[("saName", Shape::Text)])),
    (
        "movers",
        Shape::Object(&[
            ("podSecurity", Shape::Text),
            ("runAsUser", Shape::Number),
            ("runAsGroup", Shape::Number),
            ("hostUsers", Shape::Flag),
        ]),
    ),
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

/// The reason for which a ConfigMap that an installation names cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigMapError {
    /// There is no such ConfigMap.
    #[error("{flag} {name}: there is no such ConfigMap in the namespace {namespace}; make it first")]
    Missing {
        /// The flag that names it.
        flag: &'static str,
        /// Its name.
        name: String,
        /// The namespace where it should be.
        namespace: String,
    },
    /// The server could not read it.
    #[error("{flag} {name}: {why}")]
    Unreadable {
        /// The flag that names it.
        flag: &'static str,
        /// Its name.
        name: String,
        /// The place in it that is not of the right form.
        why: String,
    },
    /// The cluster could not be asked.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// Reads the data of the node agent's ConfigMap of this name as the agent does. Gives what the agent would warn of, or the reason
/// for which it would not start.
pub type ReadNodeAgentConfig = fn(&str, &BTreeMap<String, String>) -> Result<Vec<String>, String>;

const NODE_AGENT_FLAG: &str = "--node-agent-configmap";

/// The ConfigMaps that an installation names, by flag and name, and the form of their values.
fn named(installation: &Installation) -> Vec<NamedConfigMap<'_>> {
    let settings = &installation.server;
    let all: [(&str, &Option<String>, DataForm); 3] = [
        (NODE_AGENT_FLAG, &installation.node_agent_config_map, NODE_AGENT_FORM),
        ("--repo-maintenance-job-configmap", &settings.maintenance_config_map, MAINTENANCE_FORM),
        ("--backup-repository-configmap", &settings.repository_config_map, REPOSITORY_FORM),
    ];
    all.into_iter()
        .filter_map(|(flag, name, form)| Some(NamedConfigMap { flag, name: name.as_deref()?, form }))
        .collect()
}

/// A ConfigMap that an installation names.
struct NamedConfigMap<'a> {
    flag: &'static str,
    name: &'a str,
    form: DataForm,
}

/// The form that the data of a ConfigMap must have.
#[derive(Clone, Copy)]
struct DataForm {
    keys: Keys,
    values: &'static Shape,
}

const NODE_AGENT_FORM: DataForm = DataForm { keys: Keys::One, values: &NODE_AGENT };
const MAINTENANCE_FORM: DataForm = DataForm { keys: Keys::Repositories, values: &MAINTENANCE };
const REPOSITORY_FORM: DataForm = DataForm { keys: Keys::Uploaders, values: &REPOSITORY };

/// Returns true if an installation names ConfigMaps, so that there is something for [`check_config_maps`] to ask the
/// cluster.
#[must_use]
pub fn names_config_maps(installation: &Installation) -> bool {
    !named(installation).is_empty()
}

/// Refuses an installation whose ConfigMaps are missing or cannot be read. It only reads, and may be dropped at any time. Gives
/// warnings about what has no effect.
///
/// # Errors
/// [`ConfigMapError`] for the first ConfigMap that cannot be used, or when the cluster cannot be asked.
pub async fn check_config_maps(
    cluster: &Cluster,
    installation: &Installation,
    read_node_agent: ReadNodeAgentConfig,
) -> Result<Vec<String>, ConfigMapError> {
    let maps = ApiResource::new("", "v1", "configmaps", "ConfigMap");
    let namespace = &installation.namespace;
    let mut warnings = Vec::new();
    for NamedConfigMap { flag, name, form } in named(installation) {
        let Some(map) = get(cluster, &maps, Some(namespace), name).await? else {
            return Err(ConfigMapError::Missing { flag, name: name.to_owned(), namespace: namespace.clone() });
        };
        let unreadable = |why| ConfigMapError::Unreadable { flag, name: name.to_owned(), why };
        check_data(&map, form).map_err(unreadable)?;
        if flag == NODE_AGENT_FLAG {
            let told = read_node_agent(name, &texts(&map)).map_err(unreadable)?;
            warnings.extend(told.into_iter().map(|warning| format!("{flag} {name}: {warning}")));
        }
    }
    Ok(warnings)
}

/// The data of a ConfigMap.
fn texts(map: &Value) -> BTreeMap<String, String> {
    let data = map["data"].as_object().into_iter().flatten();
    data.map(|(key, text)| (key.clone(), text.as_str().unwrap_or_default().to_owned())).collect()
}

/// The keys of a ConfigMap that count.
#[derive(Clone, Copy, Debug)]
enum Keys {
    /// A single key, of any name: of several, some would have no effect.
    One,
    /// `global`, and one for each repository: NAMESPACE-LOCATION-UPLOADER.
    Repositories,
    /// A key for each program that moves data.
    Uploaders,
}

/// The programs that move data.
const UPLOADERS: [&str; 2] = ["kopia", "restic"];

impl Keys {
    fn counts(self, key: &str) -> bool {
        match self {
            Self::One => true,
            Self::Repositories => key == "global" || UPLOADERS.iter().any(|name| key.ends_with(&format!("-{name}"))),
            Self::Uploaders => UPLOADERS.contains(&key),
        }
    }

    /// Refuses keys of which some would have no effect, with the reason.
    fn check(self, data: &Map<String, Value>) -> Result<(), String> {
        let names: Vec<&str> = data.keys().map(String::as_str).collect();
        if matches!(self, Self::One) && names.len() > 1 {
            return Err(format!(
                "the ConfigMap has {} keys, {}, of which one would be read: leave one",
                names.len(),
                names.join(", ")
            ));
        }
        let Some(key) = names.into_iter().find(|key| !self.counts(key)) else { return Ok(()) };
        let value: Value = data[key].as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let inner = value.as_object().into_iter().flat_map(Map::keys).find(|inner| self.counts(inner));
        let expected = match self {
            Self::Uploaders => "kopia",
            _ => "global, or NAMESPACE-LOCATION-kopia for one repository",
        };
        Err(match inner {
            Some(inner) => format!(
                "key {key} would have no effect: {inner} stands in its value, and must be a key of the ConfigMap itself \
                 (kubectl create configmap NAME --from-file={inner}=FILE)"
            ),
            None => format!("key {key} would have no effect: keys are {expected}"),
        })
    }
}

fn check_data(map: &Value, DataForm { keys, values }: DataForm) -> Result<(), String> {
    let data = map["data"].as_object().filter(|data| !data.is_empty()).ok_or("the ConfigMap has no data")?;
    for (key, text) in data {
        let text = text.as_str().unwrap_or_default();
        let value: Value = serde_json::from_str(text).map_err(|e| format!("key {key} is no JSON: {e}"))?;
        fits(values, &value, key)?;
    }
    keys.check(data)
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
        check_data(&json!({"data": {"config": data}}), NODE_AGENT_FORM)
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
            (r#"{"movers": {"runAsUser": "1000"}}"#, "config.movers.runAsUser is not a whole number"),
            (r#"{"movers": {"hostUsers": "false"}}"#, "config.movers.hostUsers is not true or false"),
        ] {
            assert_eq!(node_agent(data).unwrap_err(), why, "{data}");
        }
        assert_eq!(check_data(&json!({}), NODE_AGENT_FORM).unwrap_err(), "the ConfigMap has no data");
        assert_eq!(check_data(&json!({"data": {}}), NODE_AGENT_FORM).unwrap_err(), "the ConfigMap has no data");
    }

    #[test]
    fn what_can_be_read_is_taken() {
        node_agent(r#"{"loadConcurrency": {"globalConfig": 2}, "podResources": null, "later": [1]}"#).unwrap();
        let maintenance = json!({"data": {"global": r#"{"keepLatestMaintenanceJobs": 1}"#, "app-default-kopia": "{}"}});
        check_data(&maintenance, MAINTENANCE_FORM).unwrap();
        check_data(&json!({"data": {"kopia": r#"{"cacheLimitMB": 1, "own": "x"}"#}}), REPOSITORY_FORM).unwrap();
    }

    /// The form on Velero's page of installation, and a form with a key too many.
    #[test]
    fn what_would_have_no_effect_is_refused() {
        let nested = json!({"data": {"config.json": r#"{"global": {"keepLatestMaintenanceJobs": 1}}"#}});
        assert_eq!(
            check_data(&nested, MAINTENANCE_FORM).unwrap_err(),
            "key config.json would have no effect: global stands in its value, and must be a key of the ConfigMap itself \
             (kubectl create configmap NAME --from-file=global=FILE)"
        );
        let misspelled = json!({"data": {"globl": "{}"}});
        assert_eq!(
            check_data(&misspelled, MAINTENANCE_FORM).unwrap_err(),
            "key globl would have no effect: keys are global, or NAMESPACE-LOCATION-kopia for one repository"
        );
        let of_repository = json!({"data": {"kopia.json": "{}"}});
        assert_eq!(
            check_data(&of_repository, REPOSITORY_FORM).unwrap_err(),
            "key kopia.json would have no effect: keys are kopia"
        );
        let two = json!({"data": {"a.json": "{}", "b.json": "{}"}});
        assert_eq!(
            check_data(&two, NODE_AGENT_FORM).unwrap_err(),
            "the ConfigMap has 2 keys, a.json, b.json, of which one would be read: leave one"
        );
    }
}
