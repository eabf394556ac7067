//! The settings of the server, and the means that it works with.

use crate::extensions::Extensions;
use crate::own_pod::OwnPod;
use async_trait::async_trait;
use jiff::tz::TimeZone;
use lifeboat_api::{BackupStorageLocation, Duration};
use lifeboat_bucket::{BlobStore, StorageAccess};
use lifeboat_cluster::Cluster;
use lifeboat_kopia::Random;
use lifeboat_operation::Clock;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Settings of the server (velero: pkg/cmd/server/config/config.go).
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespace of the resources.
    pub namespace: String,
    /// Our name among the servers of this namespace, for people: that of the pod.
    pub identity: String,
    /// Version shown in the status of `ServerStatusRequest`s.
    pub version: String,
    /// The location of backups that name none, when no location is marked as the default; `None` for none.
    pub default_location: Option<String>,
    /// Names of snapshot locations by provider, for backups that name none where there are several.
    pub default_snapshot_locations: BTreeMap<String, String>,
    /// Default validation period of locations without `validationFrequency`; zero validates once.
    pub validation_frequency: Duration,
    /// Default sync period of locations without `backupSyncPeriod`; zero for each minute.
    pub sync_period: Duration,
    /// After what time a deletion that has failed is asked for again, of a backup whose time is over; an hour when it is zero.
    pub expiry_frequency: Duration,
    /// Default of schedules without `skipImmediately`: true when the run that is due at the first look is left out.
    pub schedules_skip: bool,
    /// The time zone of schedules that name none.
    pub zone: TimeZone,
    /// Interval at which asynchronous operations are looked at.
    pub operation_frequency: Duration,
    /// Backups at once, at least one.
    pub concurrent_backups: usize,
    /// Restores at once, at least one.
    pub concurrent_restores: usize,
    /// Backups and restores found `InProgress` at the start have failed, instead of being taken up again.
    pub fail_in_progress: bool,
    /// Parts of the server that are left out.
    pub disabled: BTreeSet<Controller>,
    /// Settings of the backup engine; the name of the location and the UID are set for each backup.
    pub backup: lifeboat_backup::Settings,
    /// Settings of the restore engine.
    pub restore: lifeboat_restore::Settings,
    /// Settings of repositories.
    pub repository: RepositorySettings,
}

/// Settings of the repositories of volumes.
#[derive(Clone, Debug, Default)]
pub struct RepositorySettings {
    /// Time between two maintenances of a repository that names none; zero for that of its format.
    pub maintenance_frequency: Duration,
    /// The ConfigMap with the configuration of new repositories.
    pub config_map: Option<String>,
    /// Settings of the Jobs that maintain them.
    pub jobs: MaintenanceJobSettings,
}

/// Settings of the Jobs that maintain repositories. Resources and the number of Jobs count where the ConfigMap says nothing.
#[derive(Clone, Debug, Default)]
pub struct MaintenanceJobSettings {
    /// The ConfigMap with the settings.
    pub config_map: Option<String>,
    /// The number of Jobs that stay of each repository; `None` for three.
    pub kept: Option<u32>,
    /// Processors that a pod asks for; empty for none.
    pub cpu_request: String,
    /// Processors that a pod may use; empty for any number.
    pub cpu_limit: String,
    /// Memory that a pod asks for; empty for none.
    pub memory_request: String,
    /// Memory that a pod may use; empty for any amount.
    pub memory_limit: String,
    /// Arguments that say how the pods log.
    pub log_arguments: Vec<String>,
}

/// A part of the server that can be left out, by Velero's names (velero: pkg/cmd/server/config/config.go).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are Velero's")]
pub enum Controller {
    BackupQueue,
    Backup,
    BackupOperations,
    BackupDeletion,
    BackupFinalizer,
    BackupSync,
    DownloadRequest,
    Gc,
    BackupRepo,
    Restore,
    RestoreOperations,
    Schedule,
    ServerStatusRequest,
    RestoreFinalizer,
}

const CONTROLLERS: [(&str, Controller); 14] = [
    ("backup-queue", Controller::BackupQueue),
    ("backup", Controller::Backup),
    ("backup-operations", Controller::BackupOperations),
    ("backup-deletion", Controller::BackupDeletion),
    ("backup-finalizer", Controller::BackupFinalizer),
    ("backup-sync", Controller::BackupSync),
    ("download-request", Controller::DownloadRequest),
    ("gc", Controller::Gc),
    ("backup-repo", Controller::BackupRepo),
    ("restore", Controller::Restore),
    ("restore-operations", Controller::RestoreOperations),
    ("schedule", Controller::Schedule),
    ("server-status-request", Controller::ServerStatusRequest),
    ("restore-finalizer", Controller::RestoreFinalizer),
];

impl Controller {
    /// The controllers that make, end or delete backups. The queue is one of them: without it a backup waits as `New`
    /// instead of being `ReadyToStart` for ever.
    pub const OF_BACKUPS: [Self; 7] = [
        Self::BackupQueue,
        Self::Backup,
        Self::BackupDeletion,
        Self::BackupFinalizer,
        Self::BackupOperations,
        Self::Gc,
        Self::Schedule,
    ];

    /// Velero's name of it.
    #[must_use]
    pub fn name(self) -> &'static str {
        CONTROLLERS.iter().find(|(_, part)| *part == self).map(|(name, _)| *name).unwrap_or_default()
    }
}

impl FromStr for Controller {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        CONTROLLERS.iter().find(|(name, _)| *name == text).map(|(_, controller)| *controller).ok_or_else(|| {
            let names: Vec<&str> = CONTROLLERS.iter().map(|(name, _)| *name).collect();
            format!(
                "Invalid value for --disable-controllers flag provided: {text}. Valid values are: {}",
                names.join(",")
            )
        })
    }
}

/// Opens what storage locations point to.
#[async_trait]
pub trait Providers: Debug + Send + Sync {
    /// The bucket of a location, below its prefix.
    ///
    /// # Errors
    /// A message for people that says why it cannot be used.
    async fn open(&self, location: &BackupStorageLocation, access: StorageAccess)
    -> Result<Arc<dyn BlobStore>, String>;

    /// Returns true if the opened bucket of a location can be used again later. A bucket that is bound to a folder as
    /// it was cannot: the folder may have been replaced, or mounted over.
    fn may_keep(&self, location: &BackupStorageLocation) -> bool;

    /// Returns true if the bucket is a directory. An empty one may be in its place when its file system is not mounted.
    fn is_directory(&self, _: &BackupStorageLocation) -> bool {
        false
    }
}

/// Where the server listens; it answers from the start, also before it leads.
#[derive(Debug, Default)]
pub struct Listeners {
    /// For `/metrics`, `/healthz` and `/readyz`.
    pub status: Option<TcpListener>,
    /// For files behind URLs that the server signs. Should be reached from this machine (or pod) only.
    pub downloads: Option<TcpListener>,
    /// For profiles of the process.
    pub profiles: Option<ProfileListener>,
}

/// Where profiles of the process are served, below `/debug/pprof/`. Should be reached from this machine (or pod) only.
#[derive(Debug)]
pub struct ProfileListener {
    /// Where it listens.
    pub listener: TcpListener,
    /// The program and its arguments, which it tells too.
    pub command_line: Vec<String>,
}

/// Everything the server uses that is not its own.
#[derive(Clone, Debug)]
pub struct Env {
    /// The cluster.
    pub cluster: Cluster,
    /// Storage.
    pub providers: Arc<dyn Providers>,
    /// Actions and snapshotters that are not built into the engines.
    pub extensions: Arc<dyn Extensions>,
    /// The time.
    pub clock: ServerClock,
    /// This process.
    pub process: ServerProcess,
    /// A folder for what memory cannot hold.
    pub scratch: PathBuf,
    /// Random bytes, of the operating system.
    pub random: RandomSource,
    /// Set to stop.
    pub cancel: CancellationToken,
}

/// The process of a server, told from others of its name.
#[derive(Clone, Debug)]
pub struct ServerProcess {
    /// The pod that we are, when our token names it; otherwise a pod with the name of [`Options::identity`] is.
    pub pod: Option<OwnPod>,
    /// Random, and of this process alone.
    pub instance: String,
    /// The key that signs URLs: random, and of this process alone.
    pub signing_key: SigningKey,
}

/// A secret that is not shown.
#[derive(Clone, Copy)]
pub struct SigningKey(pub [u8; 32]);

impl Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningKey")
    }
}

/// Random bytes that can be shown, as what they are.
#[derive(Clone)]
pub struct RandomSource(pub Random);

impl Debug for RandomSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RandomSource")
    }
}

/// A clock that can be shown.
#[derive(Clone)]
pub struct ServerClock(pub Clock);

impl Debug for ServerClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerClock")
    }
}

impl Env {
    pub(crate) fn now(&self) -> jiff::Timestamp {
        (self.clock.0)()
    }
}
