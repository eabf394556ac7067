//! The connection to a process (hashicorp/go-plugin).

use crate::handshake::Address;
use crate::log_pipe::LogPipe;
use hyper_util::rt::TokioIo;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{RwLock, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

/// Bytes that may be under way of one answer, and of all together. The usual 64 KiB make streams of objects slow. So many streams
/// that nobody reads on may be there at once before nothing else gets through.
const WINDOWS: (u32, u32) = (512 << 10, 16 << 20);
/// Time limit for connecting to the socket that a plugin names.
const CONNECT: Duration = Duration::from_secs(10);
/// Time limit for a killed process to be gone.
pub(crate) const KILLED: Duration = Duration::from_secs(5);
/// Largest answer in one message: a listing of very many keys.
pub(crate) const LARGEST_ANSWER: usize = 256 << 20;

/// The state of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProcessLife {
    /// It runs.
    Runs,
    /// It has ended, and what it has printed last is being read.
    Ends,
    /// It is gone; how, as Go writes it, such as `exit status 1`.
    Ended(String),
}

/// The connection to a process. Clones are the same; none keeps the process alive.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// For calls.
    pub(crate) channel: Channel,
    /// The pipe of its log.
    pub(crate) logs: Arc<LogPipe>,
    /// Held for reading by calls, and for writing while a plugin in it is initialised again.
    pub(crate) gate: Arc<RwLock<()>>,
    life: watch::Receiver<ProcessLife>,
    kill: CancellationToken,
    /// Calls that run to their end even when nobody waits for them.
    calls: Arc<Mutex<JoinSet<()>>>,
}

impl Connection {
    /// Connects to where a plugin listens.
    pub(crate) async fn open(
        address: &Address,
        logs: Arc<LogPipe>,
        life: watch::Receiver<ProcessLife>,
        kill: CancellationToken,
    ) -> Result<Self, String> {
        let opening = async {
            let stream = match address {
                Address::Unix(path) => Either::Left(UnixStream::connect(path).await?),
                Address::Tcp(address) => Either::Right(TcpStream::connect(address).await?),
            };
            // The channel would connect anew by itself, without anybody knowing that it is another process.
            let mut once = Some(TokioIo::new(stream));
            let connect = service_fn(move |_| {
                let stream = once.take();
                async move { stream.ok_or_else(|| io::Error::other("the connection to the plugin is gone")) }
            });
            // The name is what Go's hosts send; plugins do not look at it.
            let endpoint = Endpoint::from_static("http://unused")
                .initial_stream_window_size(WINDOWS.0)
                .initial_connection_window_size(WINDOWS.1);
            endpoint.connect_with_connector(connect).await.map_err(io::Error::other)
        };
        let opened = timeout(CONNECT, opening).await;
        let channel = opened.map_err(|_| format!("it takes no connection within {CONNECT:?}"))?;
        let channel = channel.map_err(|e| format!("it takes no connection where it says that it listens: {e}"))?;
        Ok(Self { channel, logs, gate: Arc::default(), life, kill, calls: Arc::default() })
    }

    /// Makes a call that is not cut off when nobody waits for it any more: it has to end by itself then.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (answer, answered) = oneshot::channel();
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        while calls.try_join_next().is_some() {}
        calls.spawn(async move {
            // Who does not wait any more needs no answer.
            let _ = answer.send(call.await);
        });
        answered
    }

    /// Returns true if the process runs, as far as it is known.
    pub(crate) fn is_alive(&self) -> bool {
        *self.life.borrow() == ProcessLife::Runs
    }

    /// Waits until the process is gone, which it may never be, and gives how it has ended.
    pub(crate) async fn exited(&self) -> String {
        exited(&mut self.life.clone()).await
    }

    /// Kills the process and waits until it is gone; `None` when it does not go.
    pub(crate) async fn kill(&self) -> Option<String> {
        self.kill.cancel();
        timeout(KILLED, self.exited()).await.ok()
    }
}

/// Waits until a process is gone, and gives how it has ended.
pub(crate) async fn exited(life: &mut watch::Receiver<ProcessLife>) -> String {
    loop {
        if let ProcessLife::Ended(status) = &*life.borrow_and_update() {
            return status.clone();
        }
        if life.changed().await.is_err() {
            // Whoever had the process has dropped it, which kills it.
            return "signal: killed".to_owned();
        }
    }
}
