//! Requests the plan of a restore at the server's own port, with the user's token, and prints it like a plan that is
//! made on this machine.

use anyhow::{Context, Result, bail};
use bytes::{Bytes, BytesMut};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt, Collected, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use lifeboat_api::Restore;
use lifeboat_api::well_known::PLAN_PATH;
use lifeboat_client::Client;
use lifeboat_restore::{PreviewEnd, PreviewItem};
use lifeboat_terminal::flags::dry_run::PlanFiles;
use lifeboat_view::preview::{RestorePrinter, ShownParts};
use serde_json::Value;
use std::process::ExitCode;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The default port of the server.
const PORT: u16 = 8086;
/// For a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Until the answer begins, and between two pieces of it: the server reads the archive before the first object.
const PATIENCE: Duration = Duration::from_secs(600);
/// Bytes of one line: an object has 1.5 MiB at the most, and may differ everywhere.
const LONGEST_LINE: usize = 32 << 20;

/// Asks the server for the plan of a restore, and prints it. `address` is where the server listens; without one its port is reached
/// through the API server.
///
/// # Errors
/// When the server cannot be reached or refuses; when the plan breaks off; when standard output is closed.
pub async fn print_plan(
    restore: &Restore,
    client: &Client,
    address: &str,
    show: ShownParts,
    files: &PlanFiles,
) -> Result<ExitCode> {
    let token = client.cluster.token().await.context("read the token of the kubeconfig")?;
    let Some(token) = token else {
        bail!(
            "--by-server needs a user with a token, by which the server acts: this kubeconfig has none of its own (it has a certificate, \
             or a program makes the token, or it acts as somebody else); leave --by-server out, and the plan is made here"
        );
    };
    let body = serde_json::to_vec(restore)?;
    let request = Request::post(PLAN_PATH)
        .header(HOST, HeaderValue::from_static("lifeboat"))
        .header(AUTHORIZATION, format!("Bearer {token}"))
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))?;
    let mut connections = JoinSet::new();
    let answer = if address.is_empty() {
        let pod = client.leading_pod().await?;
        let pod = pod.with_context(|| format!("no server leads in the namespace {}", client.namespace))?;
        let forwarded = client.cluster.port_forward(&client.namespace, &pod, PORT).await?;
        send(forwarded, request, &mut connections).await?
    } else {
        let stream = timeout(CONNECT, TcpStream::connect(address)).await;
        let stream = stream.with_context(|| format!("{address} does not answer"))?;
        send(stream.with_context(|| format!("connect to {address}"))?, request, &mut connections).await?
    };
    let mut printer = RestorePrinter::new(show, files, &restore.spec)?;
    let mut lines = JsonLines { body: answer, waiting: BytesMut::new() };
    while let Some(line) = lines.next().await? {
        if let Some(why) = line["error"].as_str() {
            bail!("the server could not make the plan: {why}");
        }
        if line["end"].is_object() {
            let end = PreviewEnd::from_json(&line["end"]).context("the end of the plan cannot be understood")?;
            return printer.end(&end);
        }
        printer.item(
            PreviewItem::from_json(&line)
                .with_context(|| format!("the server sent {line}, which is no item of a plan"))?,
        )?;
    }
    bail!("the plan broke off before its end: ask for it again")
}

/// The body of the answer.
async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
    connections: &mut JoinSet<()>,
) -> Result<Incoming> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.context("speak to the server")?;
    connections.spawn(async move {
        // The reader of the answer sees an error of the connection too.
        let _ = connection.await;
    });
    let answer = timeout(PATIENCE, sender.send_request(request)).await.context("the server does not answer")?;
    let answer = answer.context("ask the server for the plan")?;
    let status = answer.status();
    let body = answer.into_body();
    if status == StatusCode::OK {
        return Ok(body);
    }
    let why = timeout(CONNECT, Limited::new(body, 4 << 10).collect()).await;
    let why = why.ok().and_then(Result::ok).map(Collected::to_bytes).unwrap_or_default();
    bail!("the server makes no plan: {} (status {})", String::from_utf8_lossy(&why).trim(), status.as_u16())
}

/// Lines of JSON as they come.
struct JsonLines {
    body: Incoming,
    waiting: BytesMut,
}

impl JsonLines {
    /// The next line; `None` when the server closes the connection.
    async fn next(&mut self) -> Result<Option<Value>> {
        loop {
            if let Some(end) = self.waiting.iter().position(|byte| *byte == b'\n') {
                let line = self.waiting.split_to(end + 1);
                return Ok(Some(serde_json::from_slice(&line).context("the server sent something else than a plan")?));
            }
            if self.waiting.len() > LONGEST_LINE {
                bail!("the server sent a line of more than {LONGEST_LINE} bytes");
            }
            let frame = timeout(PATIENCE, self.body.frame()).await.context("the server sends nothing more")?;
            match frame {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(piece) = frame.context("read the plan")?.into_data() {
                        self.waiting.extend_from_slice(&piece);
                    }
                }
            }
        }
    }
}
