//! A server that gives fixed answers, for the actions that ask the cluster.

use lifeboat_cluster::{Cluster, ConnectOptions};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Answer to requests whose path begins with this.
pub(crate) struct FixedResponse {
    path: String,
    code: u16,
    body: String,
}

impl FixedResponse {
    pub(crate) fn object(path: impl Into<String>, body: &Value) -> Self {
        Self { path: path.into(), code: 200, body: body.to_string() }
    }

    pub(crate) fn list(path: impl Into<String>, items: &[Value]) -> Self {
        Self::object(path, &json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}))
    }

    pub(crate) fn status(path: impl Into<String>, code: u16, reason: &str, message: &str) -> Self {
        let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code});
        Self { path: path.into(), code, body: body.to_string() }
    }
}

/// Answers until it is dropped; what it does not know is 404.
pub(crate) struct TestServer {
    pub(crate) cluster: Cluster,
    requests: Arc<Mutex<Vec<String>>>,
    _task: JoinSet<()>,
}

impl TestServer {
    pub(crate) async fn start(answers: Vec<FixedResponse>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let mut task = JoinSet::new();
        let answers = Arc::new(answers);
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (answers, seen) = (Arc::clone(&answers), Arc::clone(&seen));
                connections.spawn(async move { answer(stream, &answers, &seen).await });
            }
        });
        Self { cluster: connect(&url).await, requests, _task: task }
    }

    /// The paths that were asked for, in order.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// A client of the API server at this address.
pub(crate) async fn connect(url: &str) -> Cluster {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "t",
        "clusters": [{"name": "t", "cluster": {"server": url}}], "users": [{"name": "t", "user": {}}],
        "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t"}}],
    });
    std::fs::write(&path, config.to_string()).unwrap();
    let options = ConnectOptions { kubeconfig: Some(path), user_agent: "test".to_owned(), ..ConnectOptions::default() };
    Cluster::connect(&options).await.unwrap()
}

/// Answers a single request of each connection; requests here have no body.
async fn answer(stream: TcpStream, answers: &[FixedResponse], seen: &Mutex<Vec<String>>) {
    let mut stream = BufReader::new(stream);
    let mut first = String::new();
    stream.read_line(&mut first).await.unwrap();
    let mut line = String::new();
    while stream.read_line(&mut line).await.unwrap() > 2 {
        line.clear();
    }
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let absent = FixedResponse::status(&*path, 404, "NotFound", "not found");
    let answer = answers.iter().find(|a| path.starts_with(&a.path)).unwrap_or(&absent);
    seen.lock().unwrap().push(path.clone());
    let head = format!("HTTP/1.1 {} x\r\ncontent-type: application/json\r\nconnection: close\r\n", answer.code);
    let all = format!("{head}content-length: {}\r\n\r\n{}", answer.body.len(), answer.body);
    stream.write_all(all.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
}
