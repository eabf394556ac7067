//! What tests of the server stand on: an API server that answers as it is told, options, and a context.

use crate::buckets::Buckets;
use crate::client::Client;
use crate::lead::Leadership;
use crate::metrics::Metrics;
use crate::options::{Env, Options, Providers, ServerClock, SigningKey};
use crate::work::Context;
use jiff::Timestamp;
use lifeboat_api::Duration;
use lifeboat_cluster::{Cluster, ConnectOptions};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Answers requests with these codes and bodies, one after the other, and with the last one again and again.
pub(crate) async fn api_server(tasks: &mut JoinSet<()>, answers: Vec<(u16, Value)>) -> Cluster {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tasks.spawn(async move {
        let mut answers = answers.into_iter().peekable();
        while let Ok((mut connection, _)) = listener.accept().await {
            let Some((code, body)) = answers.peek().cloned() else { return };
            if answers.len() > 1 {
                answers.next();
            }
            let mut request = [0; 4096];
            let _ = connection.read(&mut request).await;
            let (head, body) = (format!("HTTP/1.1 {code} x\r\ncontent-type: application/json"), body.to_string());
            let length = format!("connection: close\r\ncontent-length: {}", body.len());
            let _ = connection.write_all(format!("{head}\r\n{length}\r\n\r\n{body}").as_bytes()).await;
        }
    });
    let kubeconfig = std::env::temp_dir().join(format!("lifeboat-stub-{}", address.port()));
    let config = json!({
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}], "current-context": "c"
    });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let options = ConnectOptions { kubeconfig: Some(kubeconfig.clone()), ..ConnectOptions::default() };
    let cluster = Cluster::connect(&options).await.unwrap();
    std::fs::remove_file(kubeconfig).unwrap();
    cluster
}

/// Options of a server that runs this many backups at once, and as many restores.
pub(crate) fn options(concurrent: usize) -> Options {
    let minute = Duration::from_secs(60);
    Options {
        namespace: "velero".into(),
        identity: "one".into(),
        version: "v1".into(),
        default_location: "l0".into(),
        default_snapshot_locations: Default::default(),
        validation_frequency: minute,
        sync_period: minute,
        operation_frequency: minute,
        concurrent_backups: concurrent,
        concurrent_restores: concurrent,
        fail_in_progress: false,
        disabled: Default::default(),
        backup: Default::default(),
        restore: Default::default(),
    }
}

/// The context of a server that leads for ever.
pub(crate) fn context(cluster: Cluster, providers: Arc<dyn Providers>) -> Context {
    let env = Env {
        cluster: cluster.clone(),
        providers,
        clock: ServerClock(Arc::new(|| Timestamp::UNIX_EPOCH)),
        pod: None,
        scratch: std::env::temp_dir(),
        instance: "i".into(),
        signing_key: SigningKey([0; 32]),
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
    }
}
