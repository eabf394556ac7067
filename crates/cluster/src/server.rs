//! Facts about an API server: its version, its time, and the UID of its cluster.

use crate::cluster::Cluster;
use crate::error::ClusterError;
use crate::send::{ApiCall, parse};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use lifeboat_object::Head;
use serde::Deserialize;

/// The version of an API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerVersion {
    /// Major version.
    pub major: String,
    /// Minor version.
    pub minor: String,
    /// Full version, such as `v1.34.4`.
    pub git_version: String,
}

impl Cluster {
    /// Asks the server for its version.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn version(&self) -> Result<ServerVersion, ClusterError> {
        let body = self.read("get", "the server version", "/version", None).await?;
        parse("get", "the server version", &body)
    }

    /// Asks the server for its time, in whole seconds: the time that it writes into `creationTimestamp`. `None` when its answer
    /// holds none.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn time(&self) -> Result<Option<Timestamp>, ClusterError> {
        let call = ApiCall {
            verb: "get",
            what: "the server's clock".to_owned(),
            method: http::Method::GET,
            path: "/version".to_owned(),
            accept: None,
            body: None,
        };
        let response = self.open(&call).await?;
        let date = response.headers().get(http::header::DATE).and_then(|date| date.to_str().ok());
        Ok(date.and_then(|date| rfc2822::parse(date).ok()).map(|date| date.timestamp()))
    }

    /// Gives this time or the server's own, whichever is earlier: what goes when its time is over does not come back, and one of both
    /// clocks may be wrong. This time counts where the server's answer holds none, or the client may not ask.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn earlier_time(&self, now: Timestamp) -> Result<Timestamp, ClusterError> {
        match self.time().await {
            Ok(there) => Ok(there.map_or(now, |there| there.min(now))),
            Err(e) if e.is_denied() || e.is_not_found() => Ok(now),
            Err(e) => Err(e),
        }
    }

    /// Asks for the UID of the namespace `kube-system`, which stands for the cluster; empty when the client may not read it.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn uid(&self) -> Result<String, ClusterError> {
        match self.read("get", "namespaces/kube-system", "/api/v1/namespaces/kube-system", None).await {
            Ok(body) => Ok(Head::parse(&body).map(|head| head.uid).unwrap_or_default()),
            Err(e) if e.is_denied() || e.is_not_found() => Ok(String::new()),
            Err(e) => Err(e),
        }
    }
}
