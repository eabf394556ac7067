//! Watches: what happens to the objects of a type from a revision on.

use crate::path::{query, resource_path};
use crate::send::ApiCall;
use crate::{ApiStatus, Cluster, ClusterError, Failure};
use bytes::{Buf, Bytes, BytesMut};
use http::Method;
use http_body_util::BodyExt;
use kube::client::Body;
use lifeboat_object::{ApiResource, chain};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The objects to watch, and from which revision on.
#[derive(Clone, Debug)]
pub struct WatchRequest {
    /// The type.
    pub resource: Arc<ApiResource>,
    /// A single namespace; `None` for all, and for cluster-scoped types.
    pub namespace: Option<String>,
    /// A label selector; empty for none.
    pub selector: String,
    /// A field selector; empty for none.
    pub fields: String,
    /// The revision after which events are wanted: that of a list, or of the last event.
    pub resource_version: String,
    /// After this long the server ends the watch, and the caller begins another one.
    pub lasting: Duration,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// The object is new, or is like this now.
    Applied(Bytes),
    /// The object is gone; this was its last state.
    Deleted(Bytes),
    /// Nothing happened up to this revision.
    Bookmark(String),
}

/// A running watch.
#[derive(Debug)]
pub struct Watch {
    what: String,
    body: Body,
    buffer: BytesMut,
    /// The number of bytes at the start of the buffer that are known to hold no line end.
    searched: usize,
    silence: Duration,
}

/// Longest event; an object and what stands around it.
const LARGEST: usize = 16 << 20;
/// Time after the agreed end of a watch when a silent server counts as gone.
const GRACE: Duration = Duration::from_secs(30);

impl Cluster {
    /// Begins a watch. It is not paced.
    ///
    /// # Errors
    /// [`ClusterError`]; with code 410 the revision is too old: list again.
    pub async fn watch(&self, request: &WatchRequest) -> Result<Watch, ClusterError> {
        self.begin_watch(request, None).await
    }

    /// Does what [`Cluster::watch`] does, of `metadata` alone: events hold `PartialObjectMetadata`.
    ///
    /// # Errors
    /// The errors of [`Cluster::watch`].
    pub async fn watch_metadata(&self, request: &WatchRequest) -> Result<Watch, ClusterError> {
        let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
        self.begin_watch(request, Some(accept)).await
    }

    async fn begin_watch(&self, request: &WatchRequest, accept: Option<&'static str>) -> Result<Watch, ClusterError> {
        let mut path = resource_path(&request.resource, request.namespace.as_deref());
        let _ = write!(
            path,
            "?watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}",
            request.lasting.as_secs().max(1),
            query(&request.resource_version)
        );
        if !request.selector.is_empty() {
            let _ = write!(path, "&labelSelector={}", query(&request.selector));
        }
        if !request.fields.is_empty() {
            let _ = write!(path, "&fieldSelector={}", query(&request.fields));
        }
        let what = request.resource.group_resource().to_string();
        let call = ApiCall { verb: "watch", what: what.clone(), method: Method::GET, path, accept, body: None };
        let response = self.open(&call).await?;
        let silence = request.lasting + GRACE;
        Ok(Watch { what, body: response.into_body(), buffer: BytesMut::new(), searched: 0, silence })
    }
}

impl Watch {
    /// Waits for the next event; `None` when the server has ended the watch. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`ClusterError`]; with code 410 the revision is too old: list again. The watch is over then.
    pub async fn next(&mut self) -> Result<Option<WatchEvent>, ClusterError> {
        loop {
            if let Some(line) = self.line() {
                return event(&line).map(Some).map_err(|failure| self.error(failure));
            }
            if self.buffer.len() > LARGEST {
                return Err(self.error(Failure::Invalid(format!("an event is larger than {LARGEST} bytes"))));
            }
            match timeout(self.silence, self.body.frame()).await {
                Err(_) => return Err(self.error(Failure::Timeout(self.silence))),
                Ok(None) => return Ok(None),
                Ok(Some(Err(e))) => return Err(self.error(Failure::Connection { message: chain(&e) })),
                Ok(Some(Ok(frame))) => {
                    if let Some(data) = frame.data_ref() {
                        self.buffer.extend_from_slice(data);
                    }
                }
            }
        }
    }

    /// The next line that is there whole.
    fn line(&mut self) -> Option<Bytes> {
        loop {
            let Some(at) = memchr::memchr(b'\n', &self.buffer[self.searched..]) else {
                self.searched = self.buffer.len();
                return None;
            };
            let line = self.buffer.split_to(self.searched + at).freeze();
            self.buffer.advance(1);
            self.searched = 0;
            if !line.is_empty() {
                return Some(line);
            }
        }
    }

    fn error(&self, failure: Failure) -> ClusterError {
        ClusterError { verb: "watch", what: self.what.clone(), failure }
    }
}

fn event(line: &Bytes) -> Result<WatchEvent, Failure> {
    #[derive(Deserialize)]
    struct Event<'a> {
        r#type: String,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    let invalid = |e: serde_json::Error| Failure::Invalid(e.to_string());
    let event: Event<'_> = serde_json::from_slice(line).map_err(invalid)?;
    let object = event.object.get().as_bytes();
    match event.r#type.as_str() {
        "ADDED" | "MODIFIED" => Ok(WatchEvent::Applied(line.slice_ref(object))),
        "DELETED" => Ok(WatchEvent::Deleted(line.slice_ref(object))),
        "BOOKMARK" => {
            #[derive(Deserialize)]
            struct Bookmark {
                metadata: Metadata,
            }
            #[derive(Deserialize)]
            #[serde(rename_all = "camelCase")]
            struct Metadata {
                resource_version: String,
            }
            let bookmark: Bookmark = serde_json::from_slice(object).map_err(invalid)?;
            Ok(WatchEvent::Bookmark(bookmark.metadata.resource_version))
        }
        "ERROR" => {
            #[derive(Deserialize)]
            struct Status {
                code: u16,
            }
            let status: Status = serde_json::from_slice(object).map_err(invalid)?;
            Err(Failure::Api(Box::new(ApiStatus::parse(status.code, None, object))))
        }
        other => Err(Failure::Invalid(format!("an event of the unknown type {other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn events(pieces: &[&str]) -> (Vec<WatchEvent>, Option<ClusterError>) {
        let body = Body::from(pieces.concat().into_bytes());
        let mut watch =
            Watch { what: "x".into(), body, buffer: BytesMut::new(), searched: 0, silence: Duration::from_secs(5) };
        let mut out = Vec::new();
        loop {
            match watch.next().await {
                Ok(Some(event)) => out.push(event),
                Ok(None) => return (out, None),
                Err(e) => return (out, Some(e)),
            }
        }
    }

    #[tokio::test]
    async fn each_line_is_an_event() {
        let (got, error) = events(&[
            r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#,
            "\n\n",
            r#"{"type":"MODIFIED","object":{"metadata":{"name":"b\n"}}}"#,
            "\n",
            r#"{"object":{"a":1},"type":"DELETED"}"#,
            "\n",
            r#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"17"}}}"#,
            "\n{\"type\":\"ADDED\",\"obj",
        ])
        .await;
        assert_eq!(
            got,
            [
                WatchEvent::Applied(Bytes::from_static(br#"{"metadata":{"name":"a"}}"#)),
                WatchEvent::Applied(Bytes::from_static(br#"{"metadata":{"name":"b\n"}}"#)),
                WatchEvent::Deleted(Bytes::from_static(br#"{"a":1}"#)),
                WatchEvent::Bookmark("17".into()),
            ]
        );
        // The last event was cut off; the next watch brings it again.
        assert!(error.is_none());
    }

    #[tokio::test]
    async fn an_error_event_is_the_error_it_holds() {
        let status = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#;
        let (got, error) = events(&[status, "\n"]).await;
        assert!(got.is_empty());
        assert_eq!(error.unwrap().status().map(|status| status.code), Some(410));
        for wrong in ["{}", "no", r#"{"type":"NEW","object":{}}"#, r#"{"type":"BOOKMARK","object":{}}"#] {
            assert!(events(&[wrong, "\n"]).await.1.is_some(), "{wrong}");
        }
    }
}
