//! Connections to a port of a pod, through the API server.

use crate::{Cluster, ClusterError, Failure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::Portforwarder;
use lifeboat_object::chain;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;

/// A connection to a port of a pod; it ends when dropped.
pub struct Forwarded {
    stream: Pin<Box<dyn IoStream>>,
    _forwarder: Portforwarder,
}

trait IoStream: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> IoStream for T {}

impl std::fmt::Debug for Forwarded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Forwarded")
    }
}

impl Cluster {
    /// Opens a connection to a port that a pod listens at, also on its loopback address, as `kubectl port-forward` does.
    ///
    /// # Errors
    /// [`ClusterError`] when there is no such pod, when it does not run, or when the user lacks the right to
    /// `create pods/portforward`. Only the first read fails when nothing listens at the port.
    pub async fn port_forward(&self, namespace: &str, pod: &str, port: u16) -> Result<Forwarded, ClusterError> {
        let failed =
            |failure| ClusterError { verb: "forward a port of", what: format!("pods/{namespace}/{pod}"), failure };
        let broken = |e: &kube::Error| failed(Failure::Connection { message: chain(e) });
        let client = kube::Client::try_from((*self.config).clone()).map_err(|e| broken(&e))?;
        let pods: Api<Pod> = Api::namespaced(client, namespace);
        let ports = [port];
        let opened = timeout(self.patience, pods.portforward(pod, &ports)).await;
        let mut forwarder = match opened {
            Ok(opened) => opened.map_err(|e| broken(&e))?,
            Err(_) => return Err(failed(Failure::Timeout(self.patience))),
        };
        let stream = forwarder
            .take_stream(port)
            .ok_or_else(|| failed(Failure::Invalid("there is no stream of the port".to_owned())))?;
        Ok(Forwarded { stream: Box::pin(stream), _forwarder: forwarder })
    }
}

impl AsyncRead for Forwarded {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_read(cx, buf)
    }
}

impl AsyncWrite for Forwarded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.stream.as_mut().poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(cx)
    }
}
