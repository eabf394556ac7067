//! Starts the plugin with all kinds, and speaks with it.

use hyper_util::rt::TokioIo;
use lifeboat_plugin_proto::plugin::Empty;
use lifeboat_plugin_proto::plugin::grpc_controller_client::GrpcControllerClient;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};

/// The longest that anything here takes, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_lifeboat-plugin-all-kinds");

/// The command that starts the program: with the environment of a Velero server, its sockets in a folder of this test.
pub(crate) fn command(folder: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.env_clear().env("VELERO_PLUGIN", "hello").env("PLUGIN_MIN_PORT", "10000").env("PLUGIN_MAX_PORT", "25000");
    command.env("PLUGIN_PROTOCOL_VERSIONS", "2").env("TMPDIR", folder).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a program that ends by itself; gives its output and status.
pub(crate) async fn ended(mut command: Command) -> Output {
    timeout(PATIENCE, command.output()).await.unwrap().unwrap()
}

/// A plugin that serves.
pub(crate) struct Plugin {
    pub(crate) child: Child,
    /// The line that it has printed.
    pub(crate) handshake: String,
    pub(crate) socket: PathBuf,
    output: BufReader<ChildStdout>,
    errors: ChildStderr,
    _folder: TempDir,
}

/// The remains of a plugin that has ended.
pub(crate) struct Left {
    pub(crate) status: ExitStatus,
    /// All that it has printed after the first line.
    pub(crate) output: Vec<u8>,
    /// Its log.
    pub(crate) log: Vec<Value>,
    /// The bytes of its standard error, of which the log is a part.
    pub(crate) errors: usize,
    pub(crate) is_socket_there: bool,
}

impl Plugin {
    /// Starts it with these arguments.
    pub(crate) async fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = command(folder.path());
        command.args(arguments);
        Self::with(command, folder).await
    }

    /// Starts it by this command.
    pub(crate) async fn with(mut command: Command, folder: TempDir) -> Self {
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let errors = child.stderr.take().unwrap();
        let mut handshake = String::new();
        timeout(PATIENCE, output.read_line(&mut handshake)).await.unwrap().unwrap();
        let socket = PathBuf::from(handshake.split('|').nth(3).unwrap_or_default());
        Self { child, handshake, socket, output, errors, _folder: folder }
    }

    /// A connection.
    pub(crate) async fn connect(&self) -> Channel {
        let socket = self.socket.clone();
        let connector = tower::service_fn(move |_| {
            let socket = socket.clone();
            async { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from_static("http://unused").initial_stream_window_size(1 << 20);
        endpoint.connect_with_connector(connector).await.unwrap()
    }

    /// Ends it as a server does.
    pub(crate) async fn shut_down(self) -> Left {
        let channel = self.connect().await;
        GrpcControllerClient::new(channel).shutdown(Empty {}).await.unwrap();
        self.left().await
    }

    /// Waits for the end; gives the remains.
    pub(crate) async fn left(mut self) -> Left {
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let all = async {
            let read = (self.output.read_to_end(&mut output), self.errors.read_to_end(&mut errors));
            let (status, output, errors) = tokio::join!(self.child.wait(), read.0, read.1);
            let (_, _) = (output.unwrap(), errors.unwrap());
            status.unwrap()
        };
        let status = timeout(PATIENCE, all).await.unwrap();
        Left { status, output, log: log(&errors), errors: errors.len(), is_socket_there: self.socket.exists() }
    }
}

/// The lines of a log that are JSON.
pub(crate) fn log(errors: &[u8]) -> Vec<Value> {
    errors.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

/// The messages of a log, each with its level.
pub(crate) fn messages(log: &[Value]) -> Vec<(String, String)> {
    let text = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
    log.iter().map(|line| (text(line, "@level"), text(line, "@message"))).collect()
}
