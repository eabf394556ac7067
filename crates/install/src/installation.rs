//! An installation as a user wants it.

use lifeboat_api::Duration;
use std::collections::BTreeMap;
use std::fmt;

/// An installation, before there is anything of it in a cluster. The defaults are those of Velero.
///
/// Any value makes objects; [`check`](crate::check) tells which ones make an installation that works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The namespace of the server.
    pub namespace: String,
    /// The image of the server.
    pub image: String,
    /// The credentials for the provider, which a Secret holds; `None` for no Secret.
    pub secret: Option<Credentials>,
    /// True when there is no Secret on purpose, because the server gets its credentials in another way.
    pub no_secret: bool,
    /// The provider of the storage of backups and of the snapshots of volumes; empty for none.
    pub provider: String,
    /// True when a storage location named `default` is made.
    pub storage_location: bool,
    /// The bucket of the storage location; empty for none.
    pub bucket: String,
    /// The prefix of all keys in the bucket.
    pub prefix: Option<String>,
    /// Certificates (PEM) to trust when speaking to the storage.
    pub authority: Option<Vec<u8>>,
    /// Settings of the storage location.
    pub storage_config: BTreeMap<String, String>,
    /// The volume that holds the buckets, for an installation without object storage; `None` with one.
    pub directory: Option<DirectoryVolume>,
    /// True when a location for snapshots of volumes named `default` is made.
    pub snapshot_location: bool,
    /// Settings of the snapshot location.
    pub snapshot_config: BTreeMap<String, String>,
    /// Images of plugins.
    pub plugins: Vec<String>,
    /// Annotations for the server's pods.
    pub pod_annotations: BTreeMap<String, String>,
    /// Labels for the server's pods.
    pub pod_labels: BTreeMap<String, String>,
    /// Annotations for the service account that is made.
    pub service_account_annotations: BTreeMap<String, String>,
    /// A service account that is there already and has all rights; when it is given, none is made.
    pub service_account: Option<String>,
    /// True when the server gets only the rights that backups and restores of objects need, instead of all rights.
    pub least_privilege: bool,
    /// Servers to run, of which one leads.
    pub replicas: u32,
    /// Resources for the server's pod.
    pub server_resources: PodResources,
    /// The priority class of the server's pod.
    pub server_priority_class: Option<String>,
    /// Settings that the server gets with its command line.
    pub server: ServerSettings,
    /// True when a node agent on Linux nodes is wanted.
    pub node_agent: bool,
    /// True when a node agent on Windows nodes is wanted.
    pub node_agent_windows: bool,
    /// Resources for the node agent's pods.
    pub node_agent_resources: PodResources,
    /// A ConfigMap with settings of the node agent.
    pub node_agent_config_map: Option<String>,
    /// True when the node agent's containers on Linux nodes are privileged.
    pub privileged_node_agent: bool,
    /// True when the node agent sees the folders of its node in which the kubelet mounts volumes. Without them it backs up no volumes
    /// by their files.
    pub node_agent_host_paths: bool,
    /// The kubelet's folder on the nodes.
    pub kubelet_root: String,
    /// The priority class of the node agent's pods.
    pub node_agent_priority_class: Option<String>,
    /// True when the server polls more often at first until a snapshot is ready.
    pub frequent_snapshot_polling: bool,
}

/// A volume whose folders are buckets: it is mounted into the server's pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryVolume {
    /// A PersistentVolumeClaim in the namespace of the server.
    Claim(String),
    /// A directory that a server exports by NFS.
    Nfs {
        /// The server's name or address.
        server: String,
        /// The directory, from the root of its file system.
        path: String,
    },
}

/// The contents of a file with credentials. They are not shown when an installation is printed for debugging.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials(pub Vec<u8>);

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

/// Settings that a server gets with its command line. A duration of zero or an absent value leaves the server its default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// Features, separated by commas.
    pub features: String,
    /// True when the server only restores.
    pub restore_only: bool,
    /// True when volumes are backed up by their files unless a backup says otherwise.
    pub volumes_by_files: bool,
    /// True when the data of snapshots is moved unless a backup says otherwise.
    pub move_snapshot_data: bool,
    /// Velero's switch for its informer cache. The server accepts it and has no such cache.
    pub no_informer_cache: bool,
    /// True when a run that is due when a schedule is seen first is left out, unless the schedule says otherwise.
    pub schedules_wait: bool,
    /// The program that moves the files of volumes.
    pub uploader: String,
    /// The time between two maintenances of a repository.
    pub maintenance_frequency: Duration,
    /// The time after which a deletion that has failed is asked for again, of a backup whose time is over.
    pub garbage_collection_frequency: Duration,
    /// The longest time for the file system backups of one backup or restore.
    pub pod_volume_timeout: Duration,
    /// Obsolete settings of maintenance jobs.
    pub maintenance_jobs: MaintenanceJobs,
    /// A ConfigMap with settings of repositories.
    pub repository_config_map: Option<String>,
    /// A ConfigMap with settings of maintenance jobs.
    pub maintenance_config_map: Option<String>,
    /// A ConfigMap with resource modifiers for restores that name none.
    pub modifier_config_map: Option<String>,
    /// Item blocks of one backup at once; 0 for the server's default.
    pub item_block_workers: u32,
    /// Backups at once; 0 for the server's default.
    pub concurrent_backups: u32,
}

/// Resources for a pod: quantities of Kubernetes, with `0` for no bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodResources {
    /// Processors that it asks for.
    pub cpu_request: String,
    /// Memory that it asks for.
    pub memory_request: String,
    /// Processors that it may use at most.
    pub cpu_limit: String,
    /// Memory that it may use at most.
    pub memory_limit: String,
}

/// Settings of maintenance jobs. They are obsolete: a ConfigMap holds them
/// ([`ServerSettings::maintenance_config_map`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaintenanceJobs {
    /// Jobs to keep; 0 for the server's default.
    pub keep_latest: u32,
    /// Processors that a job asks for.
    pub cpu_request: Option<String>,
    /// Memory that a job asks for.
    pub memory_request: Option<String>,
    /// Processors that a job may use at most.
    pub cpu_limit: Option<String>,
    /// Memory that a job may use at most.
    pub memory_limit: Option<String>,
}

impl Default for Installation {
    fn default() -> Self {
        Self {
            namespace: "velero".to_owned(),
            // No registry's host: that is the cluster's choice.
            image: format!("lifeboat/lifeboat:v{}", env!("CARGO_PKG_VERSION")),
            secret: None,
            no_secret: false,
            provider: String::new(),
            storage_location: true,
            bucket: String::new(),
            prefix: None,
            authority: None,
            storage_config: BTreeMap::new(),
            directory: None,
            snapshot_location: true,
            snapshot_config: BTreeMap::new(),
            plugins: Vec::new(),
            pod_annotations: BTreeMap::new(),
            pod_labels: BTreeMap::new(),
            service_account_annotations: BTreeMap::new(),
            service_account: None,
            least_privilege: false,
            replicas: 1,
            server_resources: PodResources::of(["500m", "128Mi"], ["1000m", "512Mi"]),
            server_priority_class: None,
            server: ServerSettings::default(),
            node_agent: false,
            node_agent_windows: false,
            node_agent_resources: PodResources::of(["0", "0"], ["0", "0"]),
            node_agent_config_map: None,
            privileged_node_agent: false,
            node_agent_host_paths: true,
            kubelet_root: "/var/lib/kubelet".to_owned(),
            node_agent_priority_class: None,
            frequent_snapshot_polling: false,
        }
    }
}

impl Installation {
    /// Returns true if the namespace is held to the restricted profile of pods. It is not when a node agent is asked for: it
    /// and the pods that move data run as root, and see folders of their node.
    pub(crate) fn is_restricted(&self) -> bool {
        self.least_privilege && !self.has_node_agent()
    }

    /// Returns true if a node agent is asked for, of any system.
    pub(crate) fn has_node_agent(&self) -> bool {
        self.node_agent || self.node_agent_windows
    }
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            features: String::new(),
            restore_only: false,
            volumes_by_files: false,
            move_snapshot_data: false,
            no_informer_cache: false,
            schedules_wait: false,
            uploader: "kopia".to_owned(),
            maintenance_frequency: Duration::ZERO,
            garbage_collection_frequency: Duration::ZERO,
            pod_volume_timeout: Duration::ZERO,
            maintenance_jobs: MaintenanceJobs::default(),
            repository_config_map: None,
            maintenance_config_map: None,
            modifier_config_map: None,
            item_block_workers: 0,
            concurrent_backups: 0,
        }
    }
}

impl PodResources {
    /// Processors and memory, asked for and at most.
    fn of([cpu_request, memory_request]: [&str; 2], [cpu_limit, memory_limit]: [&str; 2]) -> Self {
        Self {
            cpu_request: cpu_request.to_owned(),
            memory_request: memory_request.to_owned(),
            cpu_limit: cpu_limit.to_owned(),
            memory_limit: memory_limit.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_not_shown() {
        let installation = Installation { secret: Some(Credentials(b"key".to_vec())), ..Installation::default() };
        let shown = format!("{installation:?}");
        assert!(shown.contains("secret: Some(Credentials(…))"), "{shown}");
    }
}
