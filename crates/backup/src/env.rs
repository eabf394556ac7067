//! The environment of a backup: everything it uses that is not its own.

use lifeboat_action::Actions;
use lifeboat_cluster::Cluster;
use lifeboat_operation::Operation;
use lifeboat_store::Store;

/// Everything the engine uses that is not its own: no clock, environment or randomness comes from elsewhere.
#[derive(Clone)]
pub struct Env {
    /// The cluster to save.
    pub cluster: Cluster,
    /// The bucket to save to.
    pub store: Store,
    /// Actions that are not the engine's own, which come before them.
    pub actions: Actions,
    /// This backup: its clock, its log, what stops it. Objects that the memory budget cannot hold wait in its scratch folder.
    pub operation: Operation,
}

/// Everything in memory, and a cluster that takes connections and never answers.
#[cfg(test)]
pub(crate) async fn test_env() -> Env {
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
    test_env_of(kubeconfig.path()).await
}

/// Everything in memory, and the cluster of this file.
#[cfg(test)]
pub(crate) async fn test_env_of(kubeconfig: &std::path::Path) -> Env {
    use lifeboat_cluster::ConnectOptions;
    let options = ConnectOptions {
        kubeconfig: Some(kubeconfig.to_owned()),
        user_agent: "test".to_owned(),
        ..ConnectOptions::default()
    };
    let clock = std::sync::Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
    Env {
        cluster: Cluster::connect(&options).await.unwrap(),
        store: Store::in_memory(),
        actions: Actions::default(),
        operation: Operation::new(clock, "backup=velero/b", std::env::temp_dir()),
    }
}
