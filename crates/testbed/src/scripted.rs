//! A server on loopback that answers as a test says, and keeps the requests that it got.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A request as the server got it.
#[derive(Clone, Debug, Default)]
pub struct ScriptedRequest {
    /// The method, such as `GET`.
    pub method: String,
    /// The path, with the query.
    pub path: String,
    /// The body; empty where there was none.
    pub body: Vec<u8>,
}

impl ScriptedRequest {
    /// The body as JSON; null where it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A response that is sent as it stands here.
#[derive(Clone, Debug)]
pub struct ScriptedResponse {
    /// The status code.
    pub code: u16,
    /// The body, which is JSON unless a test of another protocol says otherwise.
    pub body: String,
    /// The headers beside those of the body.
    pub headers: Vec<(&'static str, &'static str)>,
}

impl ScriptedResponse {
    /// A response with this body.
    pub fn new(code: u16, body: impl Into<String>) -> Self {
        Self { code, body: body.into(), headers: Vec::new() }
    }

    /// A response of the API server.
    #[must_use]
    pub fn json(code: u16, body: &Value) -> Self {
        Self::new(code, body.to_string())
    }

    /// A list of these objects.
    #[must_use]
    pub fn list(items: &[Value]) -> Self {
        Self::json(200, &json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}))
    }

    /// A refusal by the API server.
    #[must_use]
    pub fn status(code: u16, reason: &str, message: &str) -> Self {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message,
            "code": code});
        Self::json(code, &status)
    }

    /// The same with this header.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }
}

/// A server that serves until it is dropped. Each connection has one request.
pub struct ScriptedServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<ScriptedRequest>>>,
    _serving: JoinSet<()>,
}

impl ScriptedServer {
    /// Starts one that answers each request with what the function makes of it.
    ///
    /// # Errors
    /// When it cannot listen on loopback.
    pub async fn start<F>(respond: impl Fn(ScriptedRequest) -> F + Send + Sync + 'static) -> Result<Self>
    where
        F: Future<Output = ScriptedResponse> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listen on loopback")?;
        let address = listener.local_addr().context("its address")?;
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (respond, seen) = (Arc::new(respond), Arc::clone(&requests));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (respond, seen) = (Arc::clone(&respond), Arc::clone(&seen));
                // A client that hangs up is one that was stopped.
                connections.spawn(async move { drop(serve(stream, &*respond, &seen).await) });
            }
        });
        Ok(Self { address, requests, _serving: serving })
    }

    /// Its URL, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A kubeconfig for it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn kubeconfig(&self) -> Result<NamedTempFile> {
        kubeconfig(&self.url())
    }

    /// The requests so far, in the order in which they came.
    #[must_use]
    pub fn requests(&self) -> Vec<ScriptedRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve<F>(
    stream: TcpStream,
    respond: &(impl Fn(ScriptedRequest) -> F + Send + Sync),
    seen: &Mutex<Vec<ScriptedRequest>>,
) -> std::io::Result<()>
where
    F: Future<Output = ScriptedResponse> + Send,
{
    let mut stream = BufReader::new(stream);
    let request = read(&mut stream).await?;
    seen.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
    let ScriptedResponse { code, body, headers } = respond(request).await;
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("HTTP/1.1 {code} X\r\ncontent-type: application/json\r\nconnection: close\r\n{headers}");
    let text = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}

/// Reads a whole request: one that is answered before it was read may reach its client as a broken connection.
async fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<ScriptedRequest> {
    let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
    stream.read_line(&mut first).await?;
    while stream.read_line(&mut line).await? > 2 {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or_default();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    Ok(ScriptedRequest { method, path, body })
}

/// Answers requests with these codes and bodies (JSON), one after the other, and with the last one again and again; without
/// any, it closes each connection. It runs as a task of this set; the file is a kubeconfig for it.
///
/// # Errors
/// When it cannot listen on loopback, or write the file.
pub async fn scripted_api_server(tasks: &mut JoinSet<()>, answers: Vec<(u16, String)>) -> Result<NamedTempFile> {
    if answers.is_empty() {
        return closing_server(tasks).await;
    }
    let next = Mutex::new(answers.into_iter().peekable());
    let server = ScriptedServer::start(move |_| {
        let mut answers = next.lock().unwrap_or_else(PoisonError::into_inner);
        let (code, body) = answers.peek().cloned().unwrap_or_default();
        if answers.len() > 1 {
            answers.next();
        }
        std::future::ready(ScriptedResponse::new(code, body))
    });
    let server = server.await?;
    let kubeconfig = server.kubeconfig();
    tasks.spawn(async move {
        let _serving = server;
        std::future::pending::<()>().await;
    });
    kubeconfig
}

/// A server that closes each connection. Its port is not given back, since another test could get it.
async fn closing_server(tasks: &mut JoinSet<()>) -> Result<NamedTempFile> {
    let listener = TcpListener::bind("127.0.0.1:0").await.context("listen on loopback")?;
    let address = listener.local_addr().context("its address")?;
    tasks.spawn(async move { while listener.accept().await.is_ok() {} });
    kubeconfig(&format!("http://{address}"))
}

fn kubeconfig(url: &str) -> Result<NamedTempFile> {
    let mut kubeconfig = NamedTempFile::new()?;
    let content = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
    });
    write!(kubeconfig, "{content}")?;
    Ok(kubeconfig)
}
