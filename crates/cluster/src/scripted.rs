//! A cluster for tests: it answers as it is told, and keeps the requests that it got.

use crate::cluster::ClusterAddress;
use crate::{Cluster, Pace, PaceOptions};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use kube::client::Body;
use serde_json::Value;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A response that is sent as it stands here.
#[derive(Clone, Debug)]
pub(crate) struct ScriptedResponse {
    status: u16,
    headers: Vec<(&'static str, &'static str)>,
    body: Bytes,
    breaks: bool,
}

impl ScriptedResponse {
    pub(crate) fn new(status: u16, body: impl Into<Bytes>) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), breaks: false }
    }

    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::new(status, body.to_string())
    }

    /// An error with this reason and message.
    pub(crate) fn refusal(status: u16, reason: &str, message: &str) -> Self {
        Self::json(status, &serde_json::json!({"kind": "Status", "reason": reason, "message": message}))
    }

    pub(crate) fn with_header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The same, whose connection breaks where its body ends.
    pub(crate) fn that_breaks(self) -> Self {
        Self { breaks: true, ..self }
    }

    fn send(self) -> Response<UnsyncBoxBody<Bytes, io::Error>> {
        let mut pieces = vec![Ok(Frame::data(self.body))];
        if self.breaks {
            pieces.push(Err(io::Error::from(io::ErrorKind::ConnectionReset)));
        }
        let mut response = Response::builder().status(self.status);
        for (name, value) in self.headers {
            response = response.header(name, value);
        }
        response.body(StreamBody::new(futures::stream::iter(pieces)).boxed_unsync()).unwrap()
    }
}

/// The requests that a scripted cluster got.
#[derive(Clone, Debug, Default)]
pub(crate) struct SentRequests(Arc<Mutex<Vec<String>>>);

impl SentRequests {
    /// Each as `METHOD PATH [CONTENT-TYPE BODY]`.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, line: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

impl Cluster {
    /// A cluster that gives these responses one after the other, and the last one for ever.
    pub(crate) fn scripted(responses: Vec<ScriptedResponse>) -> (Self, SentRequests) {
        let (sent, left) = (SentRequests::default(), Arc::new(Mutex::new(VecDeque::from(responses))));
        let requests = sent.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (requests, left) = (requests.clone(), Arc::clone(&left));
            async move {
                requests.add(line_of(request).await);
                let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
                let response = if left.len() > 1 { left.pop_front() } else { left.front().cloned() };
                Ok::<_, Infallible>(response.expect("a response for each request").send())
            }
        });
        let cluster = Self { client: kube::Client::new(service, "default"), ..Self::nowhere(Duration::from_secs(180)) };
        (cluster, sent)
    }

    /// A cluster without a server.
    pub(crate) fn nowhere(patience: Duration) -> Self {
        Self::at("http://127.0.0.1:1", patience)
    }

    /// The cluster of a server at this URL.
    pub(crate) fn at(url: &str, patience: Duration) -> Self {
        let config = kube::Config::new(url.parse().unwrap());
        Self {
            client: crate::transport::client(config.clone()).unwrap(),
            config: Arc::new(config),
            address: ClusterAddress { url: url.to_owned(), context: None },
            namespace: "default".to_owned(),
            pace: Arc::new(Pace::new(PaceOptions::default())),
            patience,
            trouble: None,
            page_size: 500,
        }
    }
}

async fn line_of(request: Request<Body>) -> String {
    let (head, body) = request.into_parts();
    let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let mut line = format!("{} {}", head.method, head.uri);
    if header(ACCEPT) != "application/json" {
        line = format!("{line} as {}", header(ACCEPT));
    }
    let body = body.collect().await.unwrap().to_bytes();
    if !body.is_empty() {
        line = format!("{line} {} {}", header(CONTENT_TYPE), String::from_utf8_lossy(&body));
    }
    line
}
