//! The flags of `lifeboat install` (velero: pkg/cmd/cli/install).

use clap::builder::EnumValueParser;
use clap::{Args, ValueEnum};
use lifeboat_api::Duration;
use lifeboat_install::{DirectoryVolume, Installation};
use lifeboat_terminal::flags::{self, KeyValuePairs, List, Optional};
use lifeboat_terminal::output::Output;
use std::path::PathBuf;

/// Every flag of `velero install`, and a few of ours.
#[derive(Clone, Debug, Args)]
pub(crate) struct InstallArgs {
    /// Provider of the storage of backups and of the snapshots of volumes, such as aws
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub(super) provider: String,
    /// The bucket that backups go to
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME", allow_hyphen_values = true)]
    pub(super) bucket: String,
    /// Prefix of all keys in the bucket
    #[arg(long, default_value = "", hide_default_value = true, value_name = "PREFIX")]
    pub(super) prefix: String,
    /// A file with the credentials for the provider
    #[arg(long, default_value = "", value_name = "FILE")]
    pub(super) secret_file: Optional<PathBuf>,
    /// There are no credentials: the server gets them in another way
    #[arg(long)]
    pub(super) no_secret: bool,
    /// Make no storage location
    #[arg(long)]
    pub(super) no_default_backup_location: bool,
    /// Make a location for snapshots of volumes
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub(super) use_volume_snapshots: bool,
    /// Settings of the storage location
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    pub(super) backup_location_config: Vec<KeyValuePairs>,
    /// Settings of the snapshot location
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    pub(super) snapshot_location_config: Vec<KeyValuePairs>,
    /// A file with certificates (PEM) to trust when speaking to the storage
    #[arg(long, default_value = "", value_name = "FILE")]
    pub(super) cacert: Optional<PathBuf>,
    /// Keep backups in the volume of this PersistentVolumeClaim, of the namespace of the server, instead of object storage
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub(super) directory_claim: String,
    /// Keep backups in a directory that a server exports by NFS, instead of object storage
    #[arg(long, value_parser = flags::optional(nfs), default_value = "", value_name = "SERVER:/PATH")]
    pub(super) nfs: Optional<DirectoryVolume>,
    /// The image of the server and the node agent
    #[arg(long, default_value_t = default_image(), value_name = "IMAGE")]
    pub(super) image: String,
    /// Images of plugins; not needed for what is built in
    #[arg(long, value_parser = flags::list, default_value = "", hide_default_value = true, value_name = "IMAGE,…")]
    pub(super) plugins: List,
    /// Annotations for the pods
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    pub(super) pod_annotations: Vec<KeyValuePairs>,
    /// Labels for the pods
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    pub(super) pod_labels: Vec<KeyValuePairs>,
    /// Annotations for the service account
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    pub(super) sa_annotations: Vec<KeyValuePairs>,
    /// A service account that is there already and has all rights; none is made
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub(super) service_account_name: String,
    #[command(flatten)]
    pub(super) server_resources: ServerResources,
    #[command(flatten)]
    pub(super) node_agent_resources: NodeAgentResources,
    /// The kubelet's folder on the nodes, in which the node agent sees the volumes of pods
    #[arg(long, default_value = "/var/lib/kubelet", value_name = "DIRECTORY")]
    pub(super) kubelet_root_dir: String,
    /// The server only restores
    #[arg(long)]
    pub(super) restore_only: bool,
    /// Send nothing; with -o, see what would be sent
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Change what is there already, by server-side apply
    #[arg(long)]
    pub(super) apply: bool,
    /// Only the CustomResourceDefinitions
    #[arg(long)]
    pub(super) crds_only: bool,
    /// Wait until the pods are ready
    #[arg(long)]
    pub(super) wait: bool,
    /// Run the node agent on Linux nodes, which moves the data of volumes
    #[arg(long)]
    pub(super) use_node_agent: bool,
    /// Run the node agent on Windows nodes; their image is yours to make
    #[arg(long)]
    pub(super) use_node_agent_windows: bool,
    /// Run the node agent privileged, for volumes of block mode
    #[arg(long)]
    pub(super) privileged_node_agent: bool,
    /// The node agent sees no folders of the nodes, and backs up no volumes by their files
    #[arg(long)]
    pub(super) node_agent_disable_host_path: bool,
    /// Interval at which repositories are maintained; 0 for the default of their format
    #[arg(long, value_parser = flags::duration, default_value = "0s", value_name = "DURATION", allow_hyphen_values = true)]
    pub(super) default_repo_maintain_frequency: Duration,
    /// After what time a deletion that has failed is asked for again, of a backup whose time is over; 0 for an hour
    #[arg(long, value_parser = flags::duration, default_value = "0s", value_name = "DURATION", allow_hyphen_values = true)]
    pub(super) garbage_collection_frequency: Duration,
    /// Longest time for file system backups of one backup or restore; 0 for four hours
    #[arg(long, value_parser = flags::duration, default_value = "0s", value_name = "DURATION", allow_hyphen_values = true)]
    pub(super) pod_volume_operation_timeout: Duration,
    /// Features of the server
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME,…")]
    pub(super) features: String,
    /// Back up volumes by their files when backups do not say
    #[arg(long)]
    pub(super) default_volumes_to_fs_backup: bool,
    /// Move the data of snapshots when backups do not say
    #[arg(long)]
    pub(super) default_snapshot_move_data: bool,
    /// Accepted: there is no such cache
    #[arg(long)]
    pub(super) disable_informer_cache: bool,
    /// A run that is due when a schedule is seen first is left out, for schedules that do not say
    #[arg(long)]
    pub(super) schedule_skip_immediately: bool,
    /// Look more often whether a snapshot is ready
    #[arg(long)]
    pub(super) csi_snapshot_early_frequent_polling: bool,
    /// Mover of the files of volumes
    #[arg(long, default_value = "kopia", value_name = "NAME")]
    pub(super) uploader_type: String,
    #[command(flatten)]
    pub(super) maintenance: MaintenanceJobs,
    /// A ConfigMap with settings of repositories
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub(super) backup_repository_configmap: String,
    /// A ConfigMap with settings of maintenance jobs
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub(super) repo_maintenance_job_configmap: String,
    /// A ConfigMap with resource modifiers for restores that name none
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub(super) default_resource_modifier_configmap: String,
    /// A ConfigMap with settings of the node agent
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub(super) node_agent_configmap: String,
    /// Item blocks of one backup at once; 0 for one for each processor, and at least 4
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(super) item_block_worker_count: u32,
    /// Backups at once; 0 for one
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(super) concurrent_backups: u32,
    /// The priority class of the server's pod
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub(super) server_priority_class_name: String,
    /// The priority class of the node agent's pods
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub(super) node_agent_priority_class_name: String,
    /// Servers to run, of which one leads
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) replicas: u32,
    /// Instead of all rights, only those that backups and restores of objects need
    #[arg(long)]
    pub(super) least_privilege: bool,
    /// Print the resources in this form, too
    #[arg(long, short, value_parser = flags::optional(EnumValueParser::<PrintFormat>::new()), default_value = "")]
    pub(super) output: Optional<PrintFormat>,
    /// Accepted as of all commands that print resources; a list has no columns
    #[arg(short = 'L', long, value_name = "LABELS")]
    label_columns: Option<String>,
    /// Accepted as of all commands that print resources; a list has no columns
    #[arg(long)]
    show_labels: bool,
}

fn nfs(text: &str) -> Result<DirectoryVolume, String> {
    // An address of IPv6 has colons too, the path begins with a slash.
    match text.split_once(":/") {
        Some((server, path)) if !server.is_empty() => {
            Ok(DirectoryVolume::Nfs { server: server.to_owned(), path: format!("/{path}") })
        }
        _ => Err("it is SERVER:/PATH, such as nas.example.com:/exports/backups".to_owned()),
    }
}

/// Requests and limits of the server's pod; 0 for none.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServerResources {
    /// Processors that the server asks for
    #[arg(long = "velero-pod-cpu-request", default_value = "500m", value_name = "QUANTITY")]
    pub(super) velero_pod_cpu_request: String,
    /// Memory that the server asks for
    #[arg(long = "velero-pod-mem-request", default_value = "128Mi", value_name = "QUANTITY")]
    pub(super) velero_pod_mem_request: String,
    /// Processors that the server may use at most; 0 for all
    #[arg(long = "velero-pod-cpu-limit", default_value = "1000m", value_name = "QUANTITY")]
    pub(super) velero_pod_cpu_limit: String,
    /// Memory that the server may use at most; 0 for all
    #[arg(long = "velero-pod-mem-limit", default_value = "512Mi", value_name = "QUANTITY")]
    pub(super) velero_pod_mem_limit: String,
}

/// Requests and limits of the node agent's pods; 0 for none.
#[derive(Clone, Debug, Args)]
pub(crate) struct NodeAgentResources {
    /// Processors that the node agent asks for; 0 for none
    #[arg(long = "node-agent-pod-cpu-request", default_value = "0", value_name = "QUANTITY")]
    pub(super) node_agent_pod_cpu_request: String,
    /// Memory that the node agent asks for; 0 for none
    #[arg(long = "node-agent-pod-mem-request", default_value = "0", value_name = "QUANTITY")]
    pub(super) node_agent_pod_mem_request: String,
    /// Processors that the node agent may use at most; 0 for all
    #[arg(long = "node-agent-pod-cpu-limit", default_value = "0", value_name = "QUANTITY")]
    pub(super) node_agent_pod_cpu_limit: String,
    /// Memory that the node agent may use at most; 0 for all
    #[arg(long = "node-agent-pod-mem-limit", default_value = "0", value_name = "QUANTITY")]
    pub(super) node_agent_pod_mem_limit: String,
}

/// Obsolete: the ConfigMap of maintenance jobs says this.
#[derive(Clone, Debug, Args)]
pub(crate) struct MaintenanceJobs {
    /// Obsolete: maintenance jobs to keep
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(super) keep_latest_maintenance_jobs: u32,
    /// Obsolete: processors that maintenance jobs ask for
    #[arg(long, default_value = "", hide_default_value = true, value_name = "QUANTITY")]
    pub(super) maintenance_job_cpu_request: String,
    /// Obsolete: memory that maintenance jobs ask for
    #[arg(long, default_value = "", hide_default_value = true, value_name = "QUANTITY")]
    pub(super) maintenance_job_mem_request: String,
    /// Obsolete: processors that maintenance jobs may use
    #[arg(long, default_value = "", hide_default_value = true, value_name = "QUANTITY")]
    pub(super) maintenance_job_cpu_limit: String,
    /// Obsolete: memory that maintenance jobs may use
    #[arg(long, default_value = "", hide_default_value = true, value_name = "QUANTITY")]
    pub(super) maintenance_job_mem_limit: String,
}

/// `-o`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PrintFormat {
    /// Refused: a list of such different objects has no columns.
    Table,
    Json,
    Yaml,
}

impl PrintFormat {
    pub(super) fn machine(self) -> Option<Output> {
        match self {
            Self::Table => None,
            Self::Json => Some(Output::Json),
            Self::Yaml => Some(Output::Yaml),
        }
    }
}

pub(crate) fn default_image() -> String {
    Installation::default().image
}
