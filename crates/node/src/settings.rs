//! The settings of this process.

use std::path::PathBuf;
use std::time::Duration;

/// Settings of this process.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// The name of the agent's node.
    pub node: String,
    /// The namespace of the resources, and of the pods and claims that are made.
    pub namespace: String,
    /// The longest wait for a single resource.
    pub resource_timeout: Duration,
    /// The longest time of preparations.
    pub prepare_timeout: Duration,
    /// The directory with the pods' directories of the node.
    pub host_root: PathBuf,
    /// Megabytes of the cache of a repository.
    pub cache_limit_mb: i64,
}
