//! An API server that answers as it is told.

use lifeboat_cluster::{Cluster, ConnectOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

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
