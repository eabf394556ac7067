//! What a server says of itself.

use crate::cluster::Cluster;
use crate::error::ClusterError;
use crate::send::{Call, parse};
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
    /// The server's version.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn version(&self) -> Result<ServerVersion, ClusterError> {
        let body = self.read("get", "the server version", "/version", None).await?;
        parse("get", "the server version", &body)
    }

    /// The server's clock, in whole seconds: what it writes into `creationTimestamp`. `None` when it does not tell.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn time(&self) -> Result<Option<Timestamp>, ClusterError> {
        let call = Call {
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

    /// The UID of the namespace `kube-system`, which names a cluster; empty when we may not read it.
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
