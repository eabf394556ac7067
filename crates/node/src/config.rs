//! The ConfigMap of the node agent: JSON under one key. Pure.

mod raw;
mod security;

use lifeboat_api::{LabelSelector, UnsupportedPart};
use lifeboat_object::{ResourceTexts, container_resources};
use lifeboat_select::Selector;
use raw::{RawConfig, RawResources};
pub(crate) use security::MoverSecurity;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Settings of a node agent. The default is that of an agent without ConfigMap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeAgentConfig {
    /// Transfers at once on a node that no rule matches; at least 1.
    pub(crate) concurrency: Option<u32>,
    /// Rules for nodes with certain labels; the smallest number counts.
    pub(crate) concurrency_per_node: Vec<NodeConcurrency>,
    /// The most transfers of the cluster that are prepared at once; `None` for any number.
    pub(crate) prepare_queue_length: Option<u32>,
    /// Nodes for pods, by storage class.
    pub(crate) affinity: Vec<LoadAffinity>,
    /// Settings of the claims from which snapshots are read, by the storage class of the source.
    pub(crate) backup_claims: BTreeMap<String, BackupClaim>,
    /// Settings of the claims into which volumes are restored.
    pub(crate) restore_claim: RestoreClaim,
    /// The `resources` of the containers; `None` for none.
    pub(crate) resources: Option<Value>,
    /// The priority class of the pods; empty for none.
    pub(crate) priority_class: String,
    /// Pods of file system backups and their restores are privileged.
    pub(crate) is_privileged: bool,
    /// A volume for the cache of restores.
    pub(crate) cache: Option<CacheClaim>,
    /// Labels of the pods, instead of those that they inherit.
    pub(crate) pod_labels: Option<BTreeMap<String, String>>,
    /// Annotations of the pods, instead of those that they inherit.
    pub(crate) pod_annotations: Option<BTreeMap<String, String>>,
    /// The rights of the pods.
    pub(crate) security: MoverSecurity,
}

/// The number of transfers at once on nodes with these labels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeConcurrency {
    pub(crate) selector: Selector,
    pub(crate) number: u32,
}

/// Nodes for the pods of volumes of a storage class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadAffinity {
    pub(crate) selector: LabelSelector,
    /// Empty for every class that no other entry names.
    pub(crate) storage_class: String,
}

/// Settings of a claim from which a snapshot is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BackupClaim {
    pub(crate) storage_class: String,
    pub(crate) is_read_only: bool,
    pub(crate) without_relabeling: bool,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) secrets: Vec<String>,
    pub(crate) config_maps: Vec<String>,
}

impl BackupClaim {
    /// The storage class of the claim, by that of the source.
    pub(crate) fn final_class<'a>(&'a self, source: &'a str) -> &'a str {
        match self.storage_class.as_str() {
            "" => source,
            class => class,
        }
    }
}

/// Settings of a claim into which a volume is restored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RestoreClaim {
    /// A claim whose class binds late is not waited for.
    pub(crate) ignores_delayed_binding: bool,
    pub(crate) secrets: Vec<String>,
    pub(crate) config_maps: Vec<String>,
}

/// A volume for the cache of restores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheClaim {
    pub(crate) storage_class: String,
    /// Restores that are known to be smaller than so many megabytes have none.
    pub(crate) threshold_mb: i64,
}

/// A configuration, and the warnings about what is in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedConfig {
    /// The configuration.
    pub config: NodeAgentConfig,
    /// Warnings for the log.
    pub warnings: Vec<String>,
}

/// The reason why a ConfigMap cannot be used: the node agent does not start with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It has no data.
    #[error("data is not available in config map {0}: give it one key whose value is JSON")]
    NoData(String),
    /// It has more than one key.
    #[error("more than one keys are found in config map {name}: {keys}; leave one whose value is JSON")]
    ManyKeys {
        /// The ConfigMap.
        name: String,
        /// Its keys.
        keys: String,
    },
    /// The JSON is not what is expected.
    #[error("error to unmarshall configs from {name}: {why}")]
    Json {
        /// The ConfigMap.
        name: String,
        /// The reason.
        why: String,
    },
}

impl NodeAgentConfig {
    /// Parses the data of the ConfigMap of this name.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn parse(name: &str, data: &BTreeMap<String, String>) -> Result<ParsedConfig, ConfigError> {
        let text = match data.len() {
            0 => return Err(ConfigError::NoData(name.to_owned())),
            1 => data.values().next().map_or("", String::as_str),
            _ => {
                let keys = data.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                return Err(ConfigError::ManyKeys { name: name.to_owned(), keys });
            }
        };
        let json_error = |e: serde_json::Error| ConfigError::Json { name: name.to_owned(), why: e.to_string() };
        let value: Value = serde_json::from_str(text).map_err(json_error)?;
        let mut warnings = unknown_keys(&value);
        let mut raw: RawConfig = serde_json::from_value(value).map_err(json_error)?;
        let security = std::mem::take(&mut raw.movers).read();
        let security = security.map_err(|why| ConfigError::Json { name: name.to_owned(), why })?;
        let config = NodeAgentConfig { security, ..from_raw(raw, &mut warnings) };
        if config.security.is_restricted && config.is_privileged {
            warnings.push("privilegedFsBackup has no effect with movers.podSecurity \"restricted\"".to_owned());
        }
        Ok(ParsedConfig { config, warnings })
    }

    /// The number of transfers at once on a node with these labels; `None` when its labels are not known.
    pub(crate) fn concurrency_of(&self, labels: Option<&BTreeMap<String, String>>) -> usize {
        let of_rules = labels.and_then(|labels| {
            self.concurrency_per_node.iter().filter(|rule| rule.selector.matches(labels)).map(|rule| rule.number).min()
        });
        of_rules.or(self.concurrency).unwrap_or(1).max(1) as usize
    }

    /// The nodes for the pods of a volume of this storage class: the first entry of the class, else the first without class.
    pub(crate) fn affinity_of(&self, storage_class: &str) -> Option<&LabelSelector> {
        let of = |class: &str| self.affinity.iter().find(|entry| entry.storage_class == class);
        of(storage_class).or_else(|| of("")).map(|entry| &entry.selector)
    }
}

/// The keys that are read.
const KEYS: [&str; 13] = [
    "loadConcurrency",
    "prepareQueueLength",
    "loadAffinity",
    "backupPVC",
    "restorePVC",
    "podResources",
    "priorityClassName",
    "privilegedFsBackup",
    "cachePVC",
    "podLabels",
    "podAnnotations",
    "csiSnapshotMetadataServiceConfigs",
    "movers",
];

fn unknown_keys(value: &Value) -> Vec<String> {
    let keys = value.as_object().into_iter().flat_map(Map::keys).filter(|key| !KEYS.contains(&key.as_str()));
    let unknown = keys.map(|key| format!("the key {key} is not known and has no effect"));
    unknown.chain(security::unknown_keys(value)).collect()
}

fn from_raw(raw: RawConfig, warnings: &mut Vec<String>) -> NodeAgentConfig {
    let load = raw.load_concurrency.unwrap_or_default();
    let concurrency = match load.global_config {
        None => None,
        Some(number) => match u32::try_from(number) {
            Ok(number) if number > 0 => Some(number),
            _ => {
                warnings.push(format!("loadConcurrency.globalConfig {number} is not positive: 1 is used"));
                Some(1)
            }
        },
    };
    let mut concurrency_per_node = Vec::new();
    for rule in load.per_node_config.unwrap_or_default() {
        match (u32::try_from(rule.number).ok().filter(|number| *number > 0), Selector::compile(&rule.node_selector)) {
            (Some(number), Ok(selector)) => concurrency_per_node.push(NodeConcurrency { selector, number }),
            (None, _) => warnings
                .push(format!("a rule of loadConcurrency.perNodeConfig has the number {}: it is skipped", rule.number)),
            (_, Err(e)) => {
                warnings
                    .push(format!("a rule of loadConcurrency.perNodeConfig has a bad selector: {e}; it is skipped"));
            }
        }
    }
    // compat: documents name a key at the top that Velero's code does not read.
    let queue = load.prepare_queue_length.or(raw.prepare_queue_length);
    let cache = raw.cache_pvc.map(|cache| CacheClaim {
        storage_class: cache.storage_class,
        // compat: documents name the key `thresholdInGB`, which Velero's code does not read.
        threshold_mb: cache
            .resident_threshold_in_mb
            .or_else(|| cache.threshold_in_gb.map(|gigabytes| gigabytes.saturating_mul(1024)))
            .unwrap_or_default(),
    });
    let cache = cache.filter(|cache| {
        if cache.storage_class.is_empty() {
            warnings.push("cachePVC has no storageClass: it is ignored".to_owned());
        }
        !cache.storage_class.is_empty()
    });
    if raw.csi_snapshot_metadata_service_configs.is_some_and(|configs| !configs.sa_name.is_empty()) {
        let why = UnsupportedPart::ChangedBlockTracking.why();
        warnings.push(format!("csiSnapshotMetadataServiceConfigs has no effect: it is for {why}"));
    }
    let restore = raw.restore_pvc.unwrap_or_default();
    let resources = raw.pod_resources.and_then(|resources| match resources_of(&resources) {
        Ok(resources) => resources,
        Err(why) => {
            warnings.push(format!("podResources is ignored as a whole: {why}"));
            None
        }
    });
    NodeAgentConfig {
        concurrency,
        concurrency_per_node,
        prepare_queue_length: queue.and_then(|length| u32::try_from(length).ok()).filter(|length| *length > 0),
        affinity: raw.load_affinity.unwrap_or_default().into_iter().map(affinity).collect(),
        backup_claims: backup_claims(raw.backup_pvc.unwrap_or_default(), warnings),
        restore_claim: RestoreClaim {
            ignores_delayed_binding: restore.ignore_delay_binding,
            secrets: restore.secret_names.unwrap_or_default(),
            config_maps: restore.config_map_names.unwrap_or_default(),
        },
        resources,
        priority_class: raw.priority_class_name,
        is_privileged: raw.privileged_fs_backup,
        cache,
        pod_labels: raw.pod_labels.filter(|labels| !labels.is_empty()),
        pod_annotations: raw.pod_annotations.filter(|annotations| !annotations.is_empty()),
        security: MoverSecurity::default(),
    }
}

fn affinity(raw: raw::RawAffinity) -> LoadAffinity {
    LoadAffinity { selector: raw.node_selector, storage_class: raw.storage_class }
}

fn backup_claims(
    raw: BTreeMap<String, raw::RawBackupClaim>,
    warnings: &mut Vec<String>,
) -> BTreeMap<String, BackupClaim> {
    let claim = |(class, raw): (String, raw::RawBackupClaim)| {
        if raw.spc_no_relabeling && !raw.read_only {
            warnings.push(format!("backupPVC of {class}: spcNoRelabeling is ignored without readOnly"));
        }
        let claim = BackupClaim {
            storage_class: raw.storage_class,
            is_read_only: raw.read_only,
            without_relabeling: raw.spc_no_relabeling && raw.read_only,
            annotations: raw.annotations.unwrap_or_default(),
            secrets: raw.secret_names.unwrap_or_default(),
            config_maps: raw.config_map_names.unwrap_or_default(),
        };
        (class, claim)
    };
    raw.into_iter().map(claim).collect()
}

/// The `resources` of a container; `None` where every value is zero. compat: one wrong value is an error of all, and an empty value
/// for processors or memory is a wrong one.
fn resources_of(raw: &RawResources) -> Result<Option<Value>, String> {
    let or_zero = |text| if str::is_empty(text) { "0" } else { text };
    container_resources(&[
        ResourceTexts { name: "cpu", request: &raw.cpu_request, limit: &raw.cpu_limit },
        ResourceTexts { name: "memory", request: &raw.memory_request, limit: &raw.memory_limit },
        ResourceTexts {
            name: "ephemeral-storage",
            request: or_zero(&raw.ephemeral_storage_request),
            limit: or_zero(&raw.ephemeral_storage_limit),
        },
    ])
}

#[cfg(test)]
mod tests;
