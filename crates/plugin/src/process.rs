//! The process of a program (velero: pkg/plugin/clientmgmt/process/client_builder.go; hashicorp/go-plugin).

use crate::audience::Audience;
use crate::connection::{Connection, KILLED, ProcessLife, exited};
use crate::error::PluginError;
use crate::handshake::{self, Address};
use crate::launch::{self, Launch};
use crate::lines::{LONGEST, LineBuffer, LinePiece};
use crate::log_pipe::LogPipe;
use crate::stderr::{Level, StderrLine};
use lifeboat_plugin_proto::plugin::grpc_controller_client::GrpcControllerClient;
use lifeboat_plugin_proto::plugin::grpc_stdio_client::GrpcStdioClient;
use lifeboat_plugin_proto::plugin::{Empty, stdio_data::Channel as Stream};
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

/// Time limit for a program to print where it listens.
const START: Duration = Duration::from_secs(60);
/// Time limit for a process to answer the request to end, and again to end.
const GRACE: Duration = Duration::from_secs(2);
/// Time during which the output of a process that is gone is read: a child of it may hold the output open.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Time for a program without a usable first line to end by itself, so that the message has its exit status.
const ITS_OWN_END: Duration = Duration::from_millis(500);

/// A process with a connection to it. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Process {
    connection: Connection,
    audience: Arc<Audience>,
    /// Tasks that watch the process and read its output.
    tasks: JoinSet<()>,
}

impl Process {
    /// Starts a program and connects to it. What it logs is heard by the audience.
    ///
    /// # Errors
    /// [`PluginError::Start`], with what the program has printed; then there is no process.
    pub(crate) async fn start(launch: &Launch, program: &Path, audience: &Arc<Audience>) -> Result<Self, PluginError> {
        let fail = |why: String| PluginError::Start { program: program.to_owned(), why };
        let mut child = launch.spawn(program).await.map_err(|e| fail(launch::why(&e)))?;
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(fail("its output cannot be read".to_owned()));
        };
        let logs = LogPipe::new(stderr, Arc::clone(audience)).map_err(|e| fail(launch::why(&e)))?;
        let logs = Arc::new(logs);
        let (first, line) = oneshot::channel();
        let (life, life_seen) = watch::channel(ProcessLife::Runs);
        let (kill, socket) = (CancellationToken::new(), Arc::new(Socket::default()));
        let mut tasks = JoinSet::new();
        let watched = Watched {
            child,
            stdout,
            logs: Arc::clone(&logs),
            audience: Arc::clone(audience),
            socket: Arc::clone(&socket),
        };
        tasks.spawn(watched.run(first, kill.clone(), life));

        let connecting = async {
            let line = timeout(START, line).await;
            let line =
                line.map_err(|_| format!("timeout while waiting for plugin to start: no line within {START:?}"))?;
            let line = line.ok().filter(|line| !line.is_empty());
            let line = line.ok_or("plugin exited before we could connect")?;
            let address = handshake::parse(&line)?;
            if let Address::Unix(path) = &address {
                socket.is_at(path);
            }
            Connection::open(&address, Arc::clone(&logs), life_seen.clone(), kill.clone()).await
        };
        let connection = match connecting.await {
            Ok(connection) => connection,
            Err(why) => {
                let status = end(&kill, life_seen).await;
                return Err(fail(format!("{why} ({status}){}", logs.last_words())));
            }
        };
        logs.has_started();
        tasks.spawn(overhear(connection.channel.clone(), Arc::clone(audience)));
        Ok(Self { connection, audience: Arc::clone(audience), tasks })
    }

    /// The connection to it.
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Ends the process: asks it, waits, kills it when it stays, and waits until it is gone.
    pub(crate) async fn stop(mut self) {
        let mut controller = GrpcControllerClient::new(self.connection.channel.clone());
        // It ends its connection while it answers, so any answer will do.
        let asked = async {
            tokio::select! {
                _ = controller.shutdown(Empty {}) => {}
                _ = self.connection.exited() => {}
            }
        };
        let ended = match timeout(GRACE, asked).await {
            Ok(()) => timeout(GRACE, self.connection.exited()).await.is_ok(),
            Err(_) => false,
        };
        if !ended {
            self.audience.hear(StderrLine::new(Level::Warn, "plugin failed to exit gracefully"));
            self.connection.kill().await;
        }
        self.tasks.shutdown().await;
    }
}

/// Kills a process that has not started, and says how it has ended: by itself, when it has.
async fn end(kill: &CancellationToken, mut life: watch::Receiver<ProcessLife>) -> String {
    // A program that ends has closed its output a moment before.
    if let Ok(status) = timeout(ITS_OWN_END, exited(&mut life)).await {
        return status;
    }
    kill.cancel();
    let ended = timeout(KILLED, exited(&mut life)).await;
    ended.unwrap_or_else(|_| "it does not end".to_owned())
}

/// The process and its output, watched by one task.
struct Watched {
    child: Child,
    stdout: ChildStdout,
    logs: Arc<LogPipe>,
    audience: Arc<Audience>,
    socket: Arc<Socket>,
}

impl Watched {
    /// Reads the output of the process and waits for its end, which is said when it is gone and its output was read.
    async fn run(self, first: oneshot::Sender<Vec<u8>>, kill: CancellationToken, life: watch::Sender<ProcessLife>) {
        let Self { mut child, stdout, logs, audience, socket } = self;
        let id = child.id().unwrap_or_default().to_string();
        let status = {
            let mut reading = pin!(async { tokio::join!(read(stdout, first, &audience), logs.pump()) });
            let mut waiting = pin!(async {
                tokio::select! {
                    status = child.wait() => status,
                    () = kill.cancelled() => {
                        // One that cannot be killed is gone.
                        let _ = child.start_kill();
                        child.wait().await
                    }
                }
            });
            tokio::select! {
                status = &mut waiting => {
                    life.send_replace(ProcessLife::Ends);
                    let _ = timeout(LAST_WORDS, reading).await;
                    status
                }
                _ = &mut reading => waiting.await,
            }
        };
        socket.remove();
        let (status, is_success) = match status {
            Ok(status) => (launch::ended(status), status.success()),
            Err(e) => (e.to_string(), false),
        };
        let line = match is_success {
            true => StderrLine::new(Level::Info, "plugin process exited"),
            false => StderrLine::new(Level::Error, "plugin process exited").with("error", &*status),
        };
        audience.hear(line.with("plugin", audience.command()).with("id", id));
        life.send_replace(ProcessLife::Ended(status));
    }
}

/// Gives the first line that a process prints, an empty one when there is none, and drains what follows.
async fn read(stdout: ChildStdout, first: oneshot::Sender<Vec<u8>>, audience: &Audience) {
    let mut stdout = BufReader::new(stdout).take(LONGEST as u64);
    let mut line = Vec::new();
    // What cannot be read is no handshake.
    let _ = stdout.read_until(b'\n', &mut line).await;
    let _ = first.send(line);
    let (mut stdout, mut lines, mut buffer) = (stdout.into_inner(), LineBuffer::default(), vec![0; 16 << 10]);
    while let Ok(length @ 1..) = stdout.read(&mut buffer).await {
        lines.feed(&buffer[..length], |piece| say(audience, "stdout", piece));
    }
    lines.end(|piece| say(audience, "stdout", piece));
}

/// Drains what a plugin prints after its start, which would hold it up otherwise (hashicorp/go-plugin).
async fn overhear(channel: Channel, audience: Arc<Audience>) {
    // An old plugin has no such stream; one that prints nothing answers when it ends.
    let Ok(answer) = GrpcStdioClient::new(channel).stream_stdio(()).await else { return };
    let mut stream = answer.into_inner();
    let (mut stdout, mut stderr) = (LineBuffer::default(), LineBuffer::default());
    while let Ok(Some(data)) = stream.message().await {
        let (lines, name) = match data.channel() {
            Stream::Stderr => (&mut stderr, "stderr"),
            Stream::Stdout | Stream::Invalid => (&mut stdout, "stdout"),
        };
        lines.feed(&data.data, |piece| say(&audience, name, piece));
    }
    for (mut lines, name) in [(stdout, "stdout"), (stderr, "stderr")] {
        lines.end(|piece| say(&audience, name, piece));
    }
}

fn say(audience: &Audience, stream: &str, piece: LinePiece<'_>) {
    match piece {
        LinePiece::Line(text) | LinePiece::Fragment(text) => audience.overhear(stream, text),
    }
}

/// The socket of a process, which one that is killed leaves behind.
#[derive(Debug, Default)]
struct Socket(OnceLock<PathBuf>);

impl Socket {
    fn is_at(&self, path: &Path) {
        self.0.get_or_init(|| path.to_owned());
    }

    /// Removes it. What is no socket is left alone, whatever the plugin said.
    fn remove(&self) {
        let Some(path) = self.0.get() else { return };
        if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
            // The plugin may remove it at the same moment.
            let _ = fs::remove_file(path);
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.remove();
    }
}
