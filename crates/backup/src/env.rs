//! What a backup is given.

use lifeboat_action::Progress;
use lifeboat_archive::journal::{Clock, Journal};
use lifeboat_cluster::Cluster;
use lifeboat_store::Store;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Everything the engine uses that is not its own: no clock, environment or randomness comes from elsewhere.
#[derive(Clone)]
pub struct Env {
    /// The cluster to save.
    pub cluster: Cluster,
    /// Where to.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// The log of this backup.
    pub journal: Journal,
    /// How far it is, for who watches.
    pub progress: Arc<Progress>,
    /// A folder for objects that the memory budget cannot hold.
    pub scratch: PathBuf,
    /// Set to stop: seen between steps and in every wait.
    pub cancel: CancellationToken,
}

/// Everything in memory, and a cluster that takes connections and never answers.
#[cfg(test)]
pub(crate) async fn test_env() -> Env {
    use lifeboat_cluster::ConnectOptions;
    use std::net::TcpListener;
    use std::sync::OnceLock;
    static SILENT: OnceLock<TcpListener> = OnceLock::new();
    let silent = SILENT.get_or_init(|| TcpListener::bind("127.0.0.1:0").unwrap());
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: c, users: [], contexts: [{{name: c, context: {{cluster: c, \
         user: ''}}}}], clusters: [{{name: c, cluster: {{server: 'http://{}'}}}}]}}",
        silent.local_addr().unwrap()
    );
    std::fs::write(kubeconfig.path(), text).unwrap();
    let options = ConnectOptions {
        kubeconfig: Some(kubeconfig.path().to_owned()),
        user_agent: "test".to_owned(),
        ..ConnectOptions::default()
    };
    let clock: Clock = Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
    Env {
        cluster: Cluster::connect(&options).await.unwrap(),
        store: Store::in_memory(),
        journal: Journal::new(Arc::clone(&clock), "backup=velero/b"),
        clock,
        progress: Arc::default(),
        scratch: std::env::temp_dir(),
        cancel: CancellationToken::new(),
    }
}
