//! Accepts connections and speaks TLS, HTTP/1 and HTTP/2 on them.

use crate::server::shared::Server;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Connections at once; more wait to be accepted.
pub(crate) const MOST_CONNECTIONS: usize = 1024;
/// Requests at once on one HTTP/2 connection.
const MOST_STREAMS: u32 = 256;
/// Time limit for the TLS handshake of a client.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time limit for a client to send the head of a request.
const HEADERS: Duration = Duration::from_secs(30);
/// Time that open responses have to end when the server stops.
const FAREWELL: Duration = Duration::from_secs(2);

/// Accepts connections until `stop`, then gives open answers a moment to end.
pub(crate) async fn accept(listener: TcpListener, config: Arc<ServerConfig>, server: Arc<Server>) {
    let tls = TlsAcceptor::from(config);
    let mut stop = server.stop.clone();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept(), if connections.len() < MOST_CONNECTIONS => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(connection(stream, tls.clone(), server.clone()));
            }
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection");
                // Out of file descriptors, most likely: wait for one.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    let all_end = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(FAREWELL, all_end).await;
    connections.shutdown().await;
}

async fn connection(stream: TcpStream, tls: TlsAcceptor, server: Arc<Server>) {
    let _ = stream.set_nodelay(true);
    let stream = match timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a connection without TLS as we speak it"),
        Err(_) => return,
    };
    let mut stop: watch::Receiver<bool> = server.stop.clone();
    let service = service_fn(move |request| {
        let server = server.clone();
        async move { Ok::<_, Infallible>(server.respond(request).await) }
    });
    let mut builder = Builder::new(Streams::default());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(MOST_STREAMS);
    let serving = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(serving);
    // The guard that `wait_for` returns must not live through the farewell.
    let stopped = async { drop(stop.wait_for(|stop| *stop).await) };
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = stopped => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error, "a connection broke");
    }
}

/// The requests of one HTTP/2 connection as tasks that end with it.
#[derive(Clone, Default)]
struct Streams(Arc<Mutex<JoinSet<()>>>);

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Streams {
    fn execute(&self, task: F) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}
