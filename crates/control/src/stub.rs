//! Fixtures for tests of the server: an API server that answers as it is told, options, and a context.

use crate::buckets::Buckets;
use crate::extensions::{Extensions, NoPlugins};
use crate::metrics::Metrics;
use crate::options::{Env, Options, Providers, RandomSource, ServerClock, ServerProcess, SigningKey};
use crate::work::Context;
use async_trait::async_trait;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use lifeboat_action::{Actions, VolumeSnapshotter};
use lifeboat_api::NamespacedName;
use lifeboat_api::{BackupStorageLocation, Duration, PluginInfo, VolumeSnapshotLocation};
use lifeboat_bucket::{BlobStore, StorageAccess};
use lifeboat_client::Client;
use lifeboat_cluster::{Cluster, ConnectOptions};
use lifeboat_operation::Journal;
use lifeboat_reconcile::Leadership;
use lifeboat_sandbox::{Sandbox, SandboxOptions};
use lifeboat_testbed::scripted_api_server;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A cluster whose API server answers with these codes and bodies, one after the other, and with the last one again and
/// again.
pub(crate) async fn api_server(tasks: &mut JoinSet<()>, answers: Vec<(u16, Value)>) -> Cluster {
    let answers = answers.into_iter().map(|(code, body)| (code, body.to_string())).collect();
    let kubeconfig = scripted_api_server(tasks, answers).await.unwrap();
    let options = ConnectOptions { kubeconfig: Some(kubeconfig.path().to_owned()), ..ConnectOptions::default() };
    Cluster::connect(&options).await.unwrap()
}

/// An empty API server in memory that serves our resources and has the namespace `velero`, and the cluster that it is.
pub(crate) async fn sandbox() -> (Sandbox, Cluster) {
    let sandbox = Sandbox::start(SandboxOptions::for_tests()).await.unwrap();
    let namespaces = ["kube-system", "velero"]
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    sandbox.apply(namespaces.into_iter().chain(lifeboat_api::crds()).collect()).await.unwrap();
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&kubeconfig, sandbox.kubeconfig()).unwrap();
    let options = ConnectOptions { kubeconfig: Some(kubeconfig.path().into()), ..ConnectOptions::default() };
    let cluster = Cluster::connect(&options).await.unwrap();
    (sandbox, cluster)
}

/// The key of an object with no namespace, as most tests make them.
pub(crate) fn named(name: &str) -> NamespacedName {
    NamespacedName { namespace: String::new(), name: name.to_owned() }
}

/// Options of a server that runs this many backups at once, and as many restores.
pub(crate) fn options(concurrent: usize) -> Options {
    let minute = Duration::from_secs(60);
    Options {
        namespace: "velero".into(),
        identity: "one".into(),
        version: "v1".into(),
        default_location: Some("l0".into()),
        default_snapshot_locations: Default::default(),
        validation_frequency: minute,
        sync_period: minute,
        expiry_frequency: minute,
        schedules_skip: false,
        zone: TimeZone::UTC,
        operation_frequency: minute,
        concurrent_backups: concurrent,
        concurrent_restores: concurrent,
        fail_in_progress: false,
        disabled: Default::default(),
        backup: Default::default(),
        restore: Default::default(),
        repository: Default::default(),
    }
}

/// Each location is this bucket.
#[derive(Debug)]
pub(crate) struct OneBucket(pub(crate) Arc<dyn BlobStore>);

#[async_trait]
impl Providers for OneBucket {
    async fn open(&self, _: &BackupStorageLocation, _: StorageAccess) -> Result<Arc<dyn BlobStore>, String> {
        Ok(Arc::clone(&self.0))
    }

    fn may_keep(&self, _: &BackupStorageLocation) -> bool {
        false
    }
}

/// Gives each operation these actions.
#[derive(Debug)]
pub(crate) struct FixedActions(pub(crate) Actions);

#[async_trait]
impl Extensions for FixedActions {
    async fn actions(&self, _: &Journal) -> Result<Actions, String> {
        Ok(self.0.clone())
    }

    async fn volume_snapshotter(
        &self,
        location: &VolumeSnapshotLocation,
        _: Option<Vec<u8>>,
        _: &Journal,
    ) -> Result<Arc<dyn VolumeSnapshotter>, String> {
        let mut located = self.0.volume_snapshotters.iter().filter(|l| l.location == location.metadata.name);
        located.next().map(|located| Arc::clone(&located.snapshotter)).ok_or_else(|| "there is none".to_owned())
    }

    fn plugins(&self) -> Vec<PluginInfo> {
        Vec::new()
    }
}

/// The context of a server that leads for ever.
pub(crate) fn context(cluster: Cluster, providers: Arc<dyn Providers>) -> Context {
    let env = Env {
        cluster: cluster.clone(),
        providers,
        extensions: Arc::new(NoPlugins),
        clock: ServerClock(Arc::new(|| Timestamp::UNIX_EPOCH)),
        process: ServerProcess { pod: None, instance: "i".into(), signing_key: SigningKey([0; 32]) },
        scratch: std::env::temp_dir(),
        random: RandomSource(Arc::new(|bytes: &mut [u8]| bytes.fill(7))),
        cancel: CancellationToken::new(),
    };
    Context {
        client: Client { cluster, namespace: "velero".into() },
        env,
        options: options(1),
        leadership: Leadership::for_ever(),
        metrics: Arc::new(Metrics::new().unwrap()),
        buckets: Arc::new(Buckets::default()),
        signer: None,
        notes: Arc::default(),
    }
}
