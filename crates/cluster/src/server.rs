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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::ScriptedResponse;

    fn at(date: &'static str) -> ScriptedResponse {
        ScriptedResponse::new(200, "{}").with_header("date", date)
    }

    #[tokio::test]
    async fn the_time_of_the_server_stands_in_its_answers() {
        for (response, expected) in [
            (at("Sat, 28 Nov 2026 09:00:00 GMT"), Some("2026-11-28T09:00:00Z")),
            (at("yesterday"), None),
            (ScriptedResponse::new(200, "{}"), None),
        ] {
            let (cluster, _) = Cluster::scripted(vec![response]);
            assert_eq!(cluster.time().await.unwrap(), expected.map(|time| time.parse().unwrap()));
        }
    }

    #[tokio::test]
    async fn the_earlier_of_both_clocks_counts_and_ours_where_the_server_tells_none() {
        let ours: Timestamp = "2026-11-28T10:00:00Z".parse().unwrap();
        for (response, expected) in [
            (at("Sat, 28 Nov 2026 09:00:00 GMT"), Some("2026-11-28T09:00:00Z")),
            (at("Sat, 28 Nov 2026 11:00:00 GMT"), Some("2026-11-28T10:00:00Z")),
            (ScriptedResponse::new(200, "{}"), Some("2026-11-28T10:00:00Z")),
            (ScriptedResponse::refusal(403, "Forbidden", "no"), Some("2026-11-28T10:00:00Z")),
            (ScriptedResponse::refusal(404, "NotFound", "no"), Some("2026-11-28T10:00:00Z")),
            (ScriptedResponse::refusal(400, "BadRequest", "no"), None),
        ] {
            let (cluster, _) = Cluster::scripted(vec![response.clone()]);
            let time = cluster.earlier_time(ours).await.ok();
            assert_eq!(time, expected.map(|time| time.parse().unwrap()), "{response:?}");
        }
    }

    #[tokio::test]
    async fn a_cluster_is_known_by_the_uid_of_its_namespace_kube_system() {
        let namespace = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system","uid":"u-1"}}"#;
        for (response, expected) in [
            (ScriptedResponse::new(200, namespace), Some("u-1")),
            (ScriptedResponse::new(200, "nonsense"), Some("")),
            (ScriptedResponse::refusal(401, "Unauthorized", "no"), Some("")),
            (ScriptedResponse::refusal(404, "NotFound", "no"), Some("")),
            (ScriptedResponse::refusal(400, "BadRequest", "no"), None),
        ] {
            let (cluster, sent) = Cluster::scripted(vec![response.clone()]);
            assert_eq!(cluster.uid().await.ok().as_deref(), expected, "{response:?}");
            assert_eq!(sent.lines(), ["GET /api/v1/namespaces/kube-system"]);
        }
    }

    #[tokio::test]
    async fn a_version_that_is_none_is_an_error_that_says_so() {
        let version = r#"{"major":"1","minor":"34","gitVersion":"v1.34.4","goVersion":"go1.24"}"#;
        let (cluster, _) =
            Cluster::scripted(vec![ScriptedResponse::new(200, version), ScriptedResponse::new(200, "1.34")]);
        let expected = ServerVersion { major: "1".into(), minor: "34".into(), git_version: "v1.34.4".into() };
        assert_eq!(cluster.version().await.unwrap(), expected);
        let error = cluster.version().await.unwrap_err().to_string();
        assert!(error.starts_with("cannot get the server version: the answer is not valid: "), "{error}");
    }
}
