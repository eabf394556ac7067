//! The log of a container, as it comes.

use crate::body::next_piece;
use crate::path::{query, segment};
use crate::send::ApiCall;
use crate::{Cluster, ClusterError};
use bytes::Bytes;
use http::Method;
use kube::client::Body;
use std::time::Duration;

/// The log that is read.
#[derive(Clone, Copy, Debug)]
pub struct PodLogRequest<'a> {
    /// The namespace of the pod.
    pub namespace: &'a str,
    /// The pod.
    pub pod: &'a str,
    /// The container; also one that initializes the pod.
    pub container: &'a str,
    /// The log of the container's run before this one.
    pub previous: bool,
    /// The most lines: the newest ones.
    pub newest_lines: u32,
}

/// A log that is being read: ask for [`PodLog::next`] until it ends.
pub struct PodLog {
    body: Body,
    silence: Duration,
    what: String,
}

impl Cluster {
    /// Begins to read what the log of a container holds by now; `None` when there is no such pod. It is tried again until the answer
    /// begins, as all calls are, and not continued when it breaks off then.
    ///
    /// # Errors
    /// [`ClusterError`]; with code 400 the container has not run, or not that often, and the message says why.
    pub async fn pod_log(&self, request: PodLogRequest<'_>) -> Result<Option<PodLog>, ClusterError> {
        let PodLogRequest { namespace, pod, container, previous, newest_lines } = request;
        let what = format!("the log of container {container} of pod {namespace}/{pod}");
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}/log?container={}&previous={previous}&tailLines={newest_lines}&timestamps=false",
            segment(namespace),
            segment(pod),
            query(container)
        );
        let call = ApiCall {
            verb: "read",
            what: what.clone(),
            method: Method::GET,
            path,
            accept: Some("text/plain, application/json"),
            body: None,
        };
        match self.open(&call).await {
            Ok(response) => Ok(Some(PodLog { body: response.into_body(), silence: self.silence(), what })),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }
}

impl PodLog {
    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// [`ClusterError`] when the answer breaks off, or nothing comes for a minute or half of the request timeout.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClusterError> {
        let piece = next_piece(&mut self.body, self.silence).await;
        piece.map_err(|failure| ClusterError { verb: "read", what: self.what.clone(), failure })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::ScriptedResponse;

    fn request(previous: bool) -> PodLogRequest<'static> {
        PodLogRequest { namespace: "velero", pod: "velero-1", container: "a b", previous, newest_lines: 40 }
    }

    #[tokio::test]
    async fn the_newest_lines_of_a_container_are_read_to_their_end() {
        let (cluster, sent) = Cluster::scripted(vec![ScriptedResponse::new(200, "one\ntwo\n")]);
        let mut log = cluster.pod_log(request(true)).await.unwrap().unwrap();
        let pieces = [log.next().await.unwrap(), log.next().await.unwrap()];
        assert_eq!(pieces, [Some(Bytes::from_static(b"one\ntwo\n")), None]);
        assert_eq!(
            sent.lines(),
            [
                "GET /api/v1/namespaces/velero/pods/velero-1/log?container=a%20b&previous=true&tailLines=40&timestamps=false \
              as text/plain, application/json"
            ]
        );
    }

    #[tokio::test]
    async fn a_log_that_breaks_off_is_an_error_behind_what_came() {
        let (cluster, _) = Cluster::scripted(vec![ScriptedResponse::new(200, "one\n").that_breaks()]);
        let mut log = cluster.pod_log(request(false)).await.unwrap().unwrap();
        assert_eq!(log.next().await.unwrap(), Some(Bytes::from_static(b"one\n")));
        let error = log.next().await.unwrap_err().to_string();
        assert!(error.starts_with("cannot read the log of container a b of pod velero/velero-1: "), "{error}");
    }

    #[tokio::test]
    async fn a_pod_that_is_gone_has_no_log_and_one_that_has_not_run_an_error() {
        let (cluster, _) = Cluster::scripted(vec![ScriptedResponse::refusal(404, "NotFound", "no")]);
        assert!(cluster.pod_log(request(false)).await.unwrap().is_none());
        let waits = ScriptedResponse::refusal(400, "BadRequest", "container is waiting to start");
        let (cluster, _) = Cluster::scripted(vec![waits]);
        let error = cluster.pod_log(request(false)).await.err().unwrap().to_string();
        assert!(error.ends_with("container is waiting to start"), "{error}");
    }
}
