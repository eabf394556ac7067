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
