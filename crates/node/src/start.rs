//! The checks and look-ups of a node agent that starts.

use crate::agent::Agent;
use crate::config::{ConfigError, NodeAgentConfig, ParsedConfig};
use crate::exposer::claim::CACHE_LIMIT_MB;
use crate::health::Health;
use crate::kube::{Kube, ObjectName, text};
use crate::resources;
use crate::settings::AgentSettings;
use lifeboat_cluster::{Cluster, ClusterError};
use lifeboat_operation::Clock;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The annotation of a pod of a static file: the kubelet's name of its directory.
const MIRROR_POD: &str = "kubernetes.io/config.mirror";

/// The ConfigMaps of a node agent; empty names for none.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Its configuration.
    pub config: String,
    /// The configuration of repositories.
    pub repository_config: String,
}

/// The reason why a node agent does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A ConfigMap is missing.
    #[error("the ConfigMap {namespace}/{name} of {flag} does not exist; make it, or leave the flag out")]
    NoConfigMap {
        /// The flag.
        flag: &'static str,
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
    },
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration of repositories has no data.
    #[error("the ConfigMap {0} of --backup-repository-configmap has no data")]
    NoRepositoryConfig(String),
    /// The pods' directories are those of something else.
    #[error(
        "unexpected directory structure for host-pods volume, ensure that the host-pods volume corresponds to the pods subdirectory of the kubelet root directory (no directory for pod {pod} in {root})"
    )]
    HostPath {
        /// The pod without directory.
        pod: String,
        /// The root.
        root: String,
    },
    /// The cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// Reads the configuration, checks what it names, and gives an agent that can run.
///
/// # Errors
/// [`StartError`].
pub async fn prepare(
    cluster: Cluster,
    mut settings: AgentSettings,
    names: &Names,
    clock: Clock,
) -> Result<Agent, StartError> {
    let kube = Kube(cluster.clone());
    let mut config = match names.config.as_str() {
        "" => NodeAgentConfig::default(),
        name => {
            let data = config_map(&kube, &settings.namespace, name, "--node-agent-configmap").await?;
            let ParsedConfig { config, warnings } = NodeAgentConfig::parse(name, &data)?;
            for warning in warnings {
                tracing::warn!(config_map = name, "{warning}");
            }
            config
        }
    };
    check_classes(&kube, &mut config).await?;
    settings.cache_limit_mb = match names.repository_config.as_str() {
        "" => CACHE_LIMIT_MB,
        name => {
            let data = config_map(&kube, &settings.namespace, name, "--backup-repository-configmap").await?;
            if data.is_empty() {
                return Err(StartError::NoRepositoryConfig(name.to_owned()));
            }
            cache_limit(&data)
        }
    };
    check_host_path(&kube.0, &settings).await?;
    let resource = resources::nodes();
    let labels = match kube.get(ObjectName { resource: &resource, namespace: None, name: &settings.node }).await {
        Ok(node) => node.and_then(|node| serde_json::from_value(node["metadata"]["labels"].clone()).ok()),
        Err(e) => {
            tracing::warn!(node = settings.node, error = %e, "the labels of the node cannot be read: loadConcurrency.globalConfig holds");
            None
        }
    };
    let concurrency = config.concurrency_of(labels.as_ref());
    let health = Arc::new(Health::new(settings.node.clone()));
    Ok(Agent { cluster, settings, config, concurrency, clock, health })
}

async fn config_map(
    kube: &Kube,
    namespace: &str,
    name: &str,
    flag: &'static str,
) -> Result<BTreeMap<String, String>, StartError> {
    let resource = resources::config_maps();
    let found = kube.get(ObjectName { resource: &resource, namespace: Some(namespace), name }).await?;
    let found =
        found.ok_or_else(|| StartError::NoConfigMap { flag, namespace: namespace.into(), name: name.into() })?;
    Ok(serde_json::from_value(found["data"].clone()).unwrap_or_default())
}

/// The megabytes of the cache, of the configuration of kopia.
fn cache_limit(data: &BTreeMap<String, String>) -> i64 {
    let kopia = data.get("kopia").and_then(|text| serde_json::from_str::<Value>(text).ok()).unwrap_or_default();
    let limit = &kopia["cacheLimitMB"];
    let limit = limit.as_i64().or_else(|| limit.as_str().and_then(|text| text.parse().ok()));
    limit.filter(|limit| *limit > 0).unwrap_or(CACHE_LIMIT_MB)
}

/// Leaves out classes that do not exist, or do not fit, with a warning.
async fn check_classes(kube: &Kube, config: &mut NodeAgentConfig) -> Result<(), ClusterError> {
    if !config.priority_class.is_empty() {
        let resource = resources::priority_classes();
        let of = ObjectName { resource: &resource, namespace: None, name: &config.priority_class };
        if kube.get(of).await?.is_none() {
            tracing::warn!(
                priority_class = config.priority_class,
                "the priority class does not exist: pods have the default priority"
            );
            config.priority_class.clear();
        }
    }
    if let Some(cache) = &config.cache {
        let resource = resources::storage_classes();
        let of = ObjectName { resource: &resource, namespace: None, name: &cache.storage_class };
        let found = kube.get(of).await?;
        let why = match &found {
            None => Some("does not exist"),
            // The default of a class that sets none.
            Some(class) if matches!(text(class, &["reclaimPolicy"]), "" | "Delete") => None,
            Some(_) => Some("does not have the reclaim policy Delete"),
        };
        if let Some(why) = why {
            tracing::warn!(storage_class = cache.storage_class, "cachePVC is ignored: its storage class {why}");
            config.cache = None;
        }
    }
    Ok(())
}

/// Checks that the pods' directories of this node are there. Without them volumes of pods cannot be reached, and all else can be
/// done.
///
/// # Errors
/// [`StartError::HostPath`] when they are those of something else.
pub async fn check_host_path(cluster: &Cluster, settings: &AgentSettings) -> Result<(), StartError> {
    let root: &Path = &settings.host_root;
    if !root.is_dir() {
        tracing::warn!(root = %root.display(), "there are no directories of pods: volumes of pods can be neither saved nor restored here, downloads can");
        return Ok(());
    }
    let fields = format!("spec.nodeName={},status.phase=Running", settings.node);
    for pod in Kube(cluster.clone()).list(resources::pods(), None, "", &fields).await? {
        let directory = match pod["metadata"]["annotations"][MIRROR_POD].as_str() {
            Some(hash) => hash,
            None => text(&pod, &["metadata", "uid"]),
        };
        if !root.join(directory).exists() {
            let pod = format!("{}/{}", text(&pod, &["metadata", "namespace"]), text(&pod, &["metadata", "name"]));
            return Err(StartError::HostPath { pod, root: root.display().to_string() });
        }
    }
    Ok(())
}
