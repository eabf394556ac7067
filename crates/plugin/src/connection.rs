//! The connection to a process (plugin-protocol.md 2.3).

use crate::handshake::Address;
use crate::log_pipe::LogPipe;
use hyper_util::rt::TokioIo;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{RwLock, watch};
use tokio::time::timeout;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

/// Bytes that may be under way of one answer, and of all together. The usual 64 KiB make streams of objects slow.
const WINDOWS: (u32, u32) = (1 << 20, 4 << 20);
/// How long a socket may take that a plugin says it listens on.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a killed process may take to be gone.
pub(crate) const KILLED: Duration = Duration::from_secs(5);
/// Largest answer in one message: a listing of very many keys.
pub(crate) const LARGEST_ANSWER: usize = 256 << 20;

/// How a process has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    /// As Go writes it, such as `exit status 1`.
    pub(crate) status: String,
    /// Whether it ended well.
    pub(crate) is_success: bool,
}

/// The connection to a process. Clones are the same; none keeps the process alive.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// For calls.
    pub(crate) channel: Channel,
    /// What it logs.
    pub(crate) logs: Arc<LogPipe>,
    /// Held for reading by calls, and for writing while a plugin in it is initialised again.
    pub(crate) gate: Arc<RwLock<()>>,
    exit: watch::Receiver<Option<Exit>>,
    kill: CancellationToken,
}

impl Connection {
    /// Connects to where a plugin listens.
    pub(crate) async fn open(
        address: &Address,
        logs: Arc<LogPipe>,
        exit: watch::Receiver<Option<Exit>>,
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
        Ok(Self { channel, logs, gate: Arc::default(), exit, kill })
    }

    /// How the process has ended, if it has.
    pub(crate) fn exit(&self) -> Option<Exit> {
        self.exit.borrow().clone()
    }

    /// Waits until the process is gone; it may never be.
    pub(crate) async fn exited(&self) -> Exit {
        let mut exit = self.exit.clone();
        let ended = exit.wait_for(Option::is_some).await.ok().and_then(|exit| exit.clone());
        // Whoever had the process has dropped it, which kills it.
        ended.unwrap_or_else(|| Exit { status: "signal: killed".to_owned(), is_success: false })
    }

    /// Kills the process and waits until it is gone; `None` when it does not go.
    pub(crate) async fn kill(&self) -> Option<Exit> {
        self.kill.cancel();
        timeout(KILLED, self.exited()).await.ok()
    }
}
