//! Answers commands in containers, where there is no node that runs any.

use super::body::{Stream, full};
use super::lock::lock;
use anyhow::{Context, Result};
use base64::Engine;
use bytes::Bytes;
use futures::SinkExt;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use sha1::{Digest, Sha1};
use std::sync::{Arc, Mutex};
use tokio::task::JoinSet;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Message, Role};

/// A command that was to run in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerCommand {
    /// The pod, as `namespace/name`.
    pub pod: String,
    /// The container.
    pub container: String,
    /// Program and arguments.
    pub words: Vec<String>,
}

/// The outcome of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Its exit code.
    pub code: i32,
}

/// Runs commands, in a thread of its own: it may wait.
pub type Containers = Arc<dyn Fn(&ContainerCommand) -> Ran + Send + Sync>;

/// The command of a request for the exec subresource of a pod; `None` for any other request.
pub(super) fn command(path: &str) -> Option<ContainerCommand> {
    let (path, query) = path.split_once('?')?;
    let mut parts = path.strip_prefix("/api/v1/namespaces/")?.split('/');
    let (namespace, pods, name, exec) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    if pods != "pods" || exec != "exec" || parts.next().is_some() {
        return None;
    }
    let mut command = ContainerCommand { pod: format!("{namespace}/{name}"), ..ContainerCommand::default() };
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let spaced = value.replace('+', " ");
        let value = percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned();
        match key {
            "container" => command.container = value,
            "command" => command.words.push(value),
            _ => {}
        }
    }
    Some(command)
}

/// Runs a command, and switches to the protocol of commands (Kubernetes' `v5.channel.k8s.io`) to say what became of it. A
/// request that does not ask to switch is refused as an API server does.
pub(super) async fn answer(
    request: Request<Incoming>,
    command: ContainerCommand,
    containers: Containers,
    tasks: &Mutex<JoinSet<()>>,
) -> Result<Response<Stream>> {
    let Some(key) = request.headers().get("sec-websocket-key").cloned() else {
        let mut response = Response::new(full(Bytes::from_static(b"Upgrade request required")));
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return Ok(response);
    };
    let offered = request.headers().get("sec-websocket-protocol").and_then(|v| v.to_str().ok()).unwrap_or_default();
    let protocol = offered.split(',').map(str::trim).next().context("a protocol")?.to_owned();
    let mut hash = Sha1::new();
    hash.update(key.as_bytes());
    hash.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let accept = base64::engine::general_purpose::STANDARD.encode(hash.finalize());
    let switched = hyper::upgrade::on(request);
    lock(tasks).spawn(async move {
        // The client may be gone before it is told.
        let _ = serve(switched, command, containers).await;
    });
    let response = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-accept", accept)
        .header("sec-websocket-protocol", protocol);
    Ok(response.body(full(Bytes::new()))?)
}

async fn serve(switched: hyper::upgrade::OnUpgrade, command: ContainerCommand, containers: Containers) -> Result<()> {
    let io = TokioIo::new(switched.await?);
    let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, None).await;
    let ran = tokio::task::spawn_blocking(move || containers(&command)).await?;
    for (channel, bytes) in [(1, ran.stdout.as_bytes()), (2, ran.stderr.as_bytes())] {
        if !bytes.is_empty() {
            socket.send(message(channel, bytes)).await?;
        }
    }
    socket.send(message(3, status(ran.code).as_bytes())).await?;
    socket.close(None).await?;
    Ok(())
}

/// A message begins with the number of its channel: 1 is what was printed, 2 what was printed as errors, 3 the status.
fn message(channel: u8, bytes: &[u8]) -> Message {
    let mut all = vec![channel];
    all.extend_from_slice(bytes);
    Message::Binary(all.into())
}

fn status(code: i32) -> String {
    if code == 0 {
        return r#"{"metadata":{},"status":"Success"}"#.to_owned();
    }
    format!(
        r#"{{"metadata":{{}},"status":"Failure","message":"command terminated with non-zero exit code: exit status {code}","reason":"NonZeroExitCode","details":{{"causes":[{{"reason":"ExitCode","message":"{code}"}}]}}}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_for_exec_are_commands() {
        let found = command(
            "/api/v1/namespaces/shop/pods/db-0/exec?command=sh&command=-c&command=a%20b+c&container=db&stdout=true",
        );
        let words = ["sh", "-c", "a b c"].map(str::to_owned).to_vec();
        assert_eq!(found, Some(ContainerCommand { pod: "shop/db-0".to_owned(), container: "db".to_owned(), words }));
        assert_eq!(command("/api/v1/namespaces/shop/pods/db-0/log?container=db"), None);
        assert_eq!(command("/api/v1/namespaces/shop/pods"), None);
    }
}
