//! Lists, streamed element by element.

use crate::path::{query, resource_path};
use crate::send::ApiCall;
use crate::{Cluster, ClusterError, Failure};
use bytes::Bytes;
use futures::FutureExt;
use http::{Method, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use lifeboat_object::{ApiResource, ListEnvelope, ListSplitter, SplitError, chain};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// The objects to list, and how to list them.
#[derive(Clone, Debug)]
pub struct ListRequest {
    /// The type.
    pub resource: Arc<ApiResource>,
    /// A single namespace; `None` for all, and for cluster-scoped types.
    pub namespace: Option<String>,
    /// A label selector; empty for none.
    pub selector: String,
    /// Only `metadata` of each object, as `PartialObjectMetadata`.
    pub metadata_only: bool,
}

impl ListRequest {
    /// All objects of a type, whole.
    #[must_use]
    pub fn all(resource: impl Into<Arc<ApiResource>>) -> Self {
        Self { resource: resource.into(), namespace: None, selector: String::new(), metadata_only: false }
    }

    /// Only those in a namespace; `None` for all namespaces.
    #[must_use]
    pub fn in_namespace(self, namespace: impl Into<Option<String>>) -> Self {
        Self { namespace: namespace.into(), ..self }
    }

    /// Only those that a label selector selects; an empty one selects all.
    #[must_use]
    pub fn labelled(self, selector: impl Into<String>) -> Self {
        Self { selector: selector.into(), ..self }
    }

    /// Only `metadata` of each, as `PartialObjectMetadata`.
    #[must_use]
    pub fn metadata_only(self) -> Self {
        Self { metadata_only: true, ..self }
    }
}

/// The end of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListEnd {
    /// Objects handed out.
    pub count: u64,
    /// Pages read.
    pub pages: u32,
    /// True when the pages are of more than one revision, because a continue token expired on the way.
    pub mixed_revisions: bool,
    /// The revision of the last page: what a watch goes on from.
    pub resource_version: String,
}

/// Objects of the first page, whose size is not known yet.
const FIRST_PAGE: u64 = 50;
/// Objects that a page has however large they are, unless the user wants fewer.
const SMALLEST_PAGE: u64 = 20;
/// Bytes that each later page shall have.
const PAGE_BYTES: u64 = 8 << 20;
/// Bytes handed out at once: each hand-over between stages may wake a thread.
const TOGETHER: usize = 256 << 10;
/// Time during which a broken page is requested again.
const RECOVERY: Duration = Duration::from_secs(60);
/// The number of times that one list requests a page again before it gives up.
const MOST_TRIES: u32 = 12;
/// The number of times that one list starts over, because its token expired and the server offered none to continue
/// with.
const MOST_RESTARTS: u32 = 3;

/// A running list: ask for [`List::next`] until it ends.
///
/// It holds one element in memory. The next page is requested as soon as one was read, so that the server makes it while the
/// caller works with the objects of this one. It reads a page that breaks again; after an expired token it goes on with the token
/// that the server offers, or begins again. So it may hand an object out twice; a caller that minds keeps a set.
pub struct List {
    cluster: Cluster,
    request: ListRequest,
    /// A field selector; empty for none.
    fields: String,
    page: Option<OpenPage>,
    /// The request for the page behind the one that was read to its end; none or one.
    ahead: JoinSet<Result<Response<Body>, ClusterError>>,
    /// Set when the open page has broken. The objects that had arrived before are handed out first.
    broken: Option<Broken>,
    token: String,
    /// Objects of the next page at most; `None` for all.
    limit: Option<u64>,
    bytes: u64,
    tries: u32,
    restarts: u32,
    end: ListEnd,
    finished: bool,
}

/// The point at which a page broke.
enum Broken {
    /// Before its answer began; `send` has tried again for as long as that can help.
    Opening(ClusterError),
    /// In the middle of its answer.
    Within(Failure),
}

struct OpenPage {
    body: Body,
    splitter: ListSplitter,
}

impl Cluster {
    /// Begins a list; the first request is made by the first [`List::next`].
    #[must_use]
    pub fn list(&self, request: ListRequest) -> List {
        List {
            cluster: self.clone(),
            request,
            fields: String::new(),
            page: None,
            ahead: JoinSet::new(),
            broken: None,
            token: String::new(),
            limit: first_page(self.page_size),
            bytes: 0,
            tries: 0,
            restarts: 0,
            end: ListEnd::default(),
            finished: false,
        }
    }
}

impl List {
    /// Lists only what this field selector matches.
    #[must_use]
    pub fn with_fields(mut self, fields: String) -> Self {
        self.fields = fields;
        self
    }

    /// The next objects, as many as have arrived; `None` at the end of the list. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`ClusterError`] when the retries have not helped; the list has ended then.
    pub async fn next(&mut self) -> Result<Option<Vec<Bytes>>, ClusterError> {
        let mut out = Vec::new();
        while !self.finished {
            if let Some(broken) = self.broken.take() {
                self.page = None;
                if let Err(error) = self.recover(broken).await {
                    self.finished = true;
                    return Err(error);
                }
            }
            self.broken = self.step(&mut out).await.err();
            if !out.is_empty() {
                return Ok(Some(out));
            }
        }
        Ok(None)
    }

    /// The end of the list, or its state so far while it goes on.
    #[must_use]
    pub fn end(&self) -> &ListEnd {
        &self.end
    }

    /// Opens a page, or takes the next piece of the open one.
    async fn step(&mut self, out: &mut Vec<Bytes>) -> Result<(), Broken> {
        if self.page.is_none() {
            let response = self.open().await?;
            self.page = Some(OpenPage { body: response.into_body(), splitter: ListSplitter::default() });
        }
        self.read(out).await.map_err(Broken::Within)
    }

    /// Opens the next page, or awaits the request for it that is under way.
    async fn open(&mut self) -> Result<Response<Body>, Broken> {
        match self.ahead.join_next().await {
            None => self.cluster.open(&self.call()).await.map_err(Broken::Opening),
            Some(Ok(opened)) => opened.map_err(Broken::Opening),
            Some(Err(died)) => Err(Broken::Within(Failure::Connection { message: chain(&died) })),
        }
    }

    /// Requests the next page, without waiting for the answer.
    fn request_ahead(&mut self) {
        let (cluster, call) = (self.cluster.clone(), self.call());
        self.ahead.spawn(async move { cluster.open(&call).await });
    }

    /// Takes the next piece of the open page, and the pieces that have arrived behind it.
    async fn read(&mut self, out: &mut Vec<Bytes>) -> Result<(), Failure> {
        let Some(page) = &mut self.page else { return Ok(()) };
        let silence = self.cluster.silence();
        let mut frame = timeout(silence, page.body.frame()).await.map_err(|_| Failure::Timeout(silence))?;
        let mut taken = 0;
        loop {
            match frame {
                Some(Ok(piece)) => {
                    let data = piece.data_ref().map_or(&[][..], |data| data);
                    let before = out.len();
                    let fed = page.splitter.feed(data, out);
                    // Counted here, because the end of the page, which may come with this piece, decides by them how many
                    // objects the next page has.
                    let new = out.get(before..).unwrap_or_default();
                    self.end.count += new.len() as u64;
                    self.bytes += new.iter().map(|body| body.len() as u64).sum::<u64>();
                    fed.map_err(invalid)?;
                    taken += data.len();
                }
                Some(Err(e)) => return Err(Failure::Connection { message: chain(&e) }),
                None => {
                    let page = self.page.take().map(|p| p.splitter.finish()).transpose().map_err(invalid)?;
                    self.page_done(&page.unwrap_or_default());
                    return Ok(());
                }
            }
            if taken >= TOGETHER {
                return Ok(());
            }
            match page.body.frame().now_or_never() {
                Some(next) => frame = next,
                None => return Ok(()),
            }
        }
    }

    fn page_done(&mut self, envelope: &ListEnvelope) {
        self.end.pages += 1;
        self.tries = 0;
        self.token.clone_from(&envelope.continue_token);
        self.end.resource_version.clone_from(&envelope.resource_version);
        self.finished = self.token.is_empty();
        if let Some(mean) = self.bytes.checked_div(self.end.count) {
            self.limit = later_page(self.cluster.page_size, mean);
        }
        if !self.finished {
            self.request_ahead();
        }
    }

    async fn recover(&mut self, broken: Broken) -> Result<(), ClusterError> {
        self.tries += 1;
        let failure = match broken {
            Broken::Opening(error) => return self.expired(error),
            Broken::Within(failure) => failure,
        };
        let call = self.call();
        if self.tries > MOST_TRIES {
            return Err(ClusterError { verb: call.verb, what: call.what, failure });
        }
        if self.token.is_empty() && self.end.count > 0 {
            // The first page again, perhaps at a later revision.
            self.end.mixed_revisions = true;
        }
        self.cluster.pause_or_give_up(&call, failure, self.tries, Instant::now() + RECOVERY).await.map(drop)
    }

    /// Goes on with the token that the server offers in place of one that is too old, or begins anew. Any other error
    /// is for good.
    fn expired(&mut self, error: ClusterError) -> Result<(), ClusterError> {
        let Some(status) = error.status().filter(|status| status.code == 410) else { return Err(error) };
        self.token.clone_from(&status.continue_token);
        // A page that ends is no progress when its list always begins anew.
        self.restarts += u32::from(self.token.is_empty());
        if self.tries > MOST_TRIES || self.restarts > MOST_RESTARTS {
            return Err(error);
        }
        tracing::debug!(what = error.what, "the continue token expired");
        self.end.mixed_revisions = true;
        Ok(())
    }

    fn call(&self) -> ApiCall {
        let resource = &self.request.resource;
        let mut path = resource_path(resource, self.request.namespace.as_deref());
        let mut between = '?';
        let mut add = |name: &str, value: &str| {
            let _ = write!(path, "{between}{name}={value}");
            between = '&';
        };
        if let Some(limit) = self.limit {
            add("limit", &limit.to_string());
        }
        if !self.request.selector.is_empty() {
            add("labelSelector", &query(&self.request.selector));
        }
        if !self.fields.is_empty() {
            add("fieldSelector", &query(&self.fields));
        }
        if !self.token.is_empty() {
            add("continue", &query(&self.token));
        }
        let what = match &self.request.namespace {
            Some(namespace) => format!("{} in namespace {namespace}", resource.group_resource()),
            None => resource.group_resource().to_string(),
        };
        let accept = self
            .request
            .metadata_only
            .then_some("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json");
        ApiCall { verb: "list", what, method: Method::GET, path, accept, body: None }
    }
}

/// The number of objects on the first page, of at most so many.
fn first_page(most: u32) -> Option<u64> {
    (most > 0).then(|| FIRST_PAGE.min(most.into()))
}

/// The number of objects on a later page, of at most so many, when they have so many bytes on average.
fn later_page(most: u32, mean: u64) -> Option<u64> {
    let most = u64::from(most);
    (most > 0).then(|| (PAGE_BYTES / mean.max(1)).clamp(SMALLEST_PAGE.min(most), most))
}

fn invalid(error: SplitError) -> Failure {
    match error {
        // An answer that ends in the middle without a transport error: read it again.
        SplitError::Truncated(_) => Failure::Connection { message: error.to_string() },
        other => Failure::Invalid(chain(&other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    /// Answers requests of one connection with these pages, and tells the first line of each request.
    async fn serve(listener: TcpListener, pages: Vec<String>, asked: mpsc::Sender<String>) {
        let mut stream = BufReader::new(listener.accept().await.unwrap().0);
        for page in pages {
            let (mut first, mut line) = (String::new(), String::new());
            while line != "\r\n" {
                line.clear();
                stream.read_line(&mut line).await.unwrap();
                if first.is_empty() {
                    first.clone_from(&line);
                }
            }
            asked.send(first).await.unwrap();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{page}", page.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn the_next_page_is_requested_while_the_objects_of_this_one_are_used() {
        let page = |name: &str, token: &str| {
            format!(r#"{{"kind":"ConfigMapList","metadata":{{"continue":"{token}"}},"items":[{{"n":"{name}"}}]}}"#)
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cluster = Cluster::at(&format!("http://{}", listener.local_addr().unwrap()), RECOVERY);
        let ((asked, mut requests), mut tasks) = (mpsc::channel(3), JoinSet::new());
        tasks.spawn(serve(listener, vec![page("a", "t"), page("b", "u"), page("c", "")], asked));
        let mut list = cluster.list(ListRequest::all(ApiResource::new("", "v1", "configmaps", "ConfigMap")));
        let mut next_request = async || timeout(RECOVERY, requests.recv()).await.unwrap();
        let all = "GET /api/v1/configmaps?limit";
        let request = |query: &str| Some(format!("{all}={query} HTTP/1.1\r\n"));
        for (object, ahead) in [("a", Some("500&continue=t")), ("b", Some("500&continue=u")), ("c", None)] {
            assert_eq!(list.next().await.unwrap(), Some(vec![Bytes::from(format!(r#"{{"n":"{object}"}}"#))]));
            if object == "a" {
                assert_eq!(next_request().await, request("50"));
            }
            // Nobody has asked for the objects of that page.
            if let Some(query) = ahead {
                assert_eq!(next_request().await, request(query));
            }
        }
        assert_eq!((list.next().await.unwrap(), list.end().pages), (None, 3));
    }

    #[test]
    fn pages_have_as_many_objects_as_wanted_and_fewer_when_they_are_large() {
        assert_eq!([500, 10, 0].map(first_page), [Some(50), Some(10), None]);
        for (most, mean, expected) in [
            (500, 1_000, Some(500)),
            (500, 100_000, Some(83)),
            (500, 5 << 20, Some(20)),
            (500, 0, Some(500)),
            (10, 1_000, Some(10)),
            (10, 5 << 20, Some(10)),
            (5_000, 1_000, Some(5_000)),
            (0, 5 << 20, None),
        ] {
            assert_eq!(later_page(most, mean), expected, "{most} {mean}");
        }
    }

    use crate::scripted::ScriptedResponse;
    use serde_json::{Value, json};

    fn maps() -> ApiResource {
        ApiResource { namespaced: true, ..ApiResource::new("", "v1", "configmaps", "ConfigMap") }
    }

    fn page(names: &[&str], revision: &str, token: &str) -> Value {
        let items: Vec<Value> = names.iter().map(|name| json!({"metadata": {"name": name}})).collect();
        json!({"metadata": {"resourceVersion": revision, "continue": token}, "items": items})
    }

    fn expired(token: &str) -> ScriptedResponse {
        let status =
            json!({"kind": "Status", "reason": "Expired", "message": "too old", "metadata": {"continue": token}});
        ScriptedResponse::json(410, &status)
    }

    /// The names of all objects that a list hands out, how it ended, and the requests that it made.
    async fn listed(responses: Vec<ScriptedResponse>) -> (Vec<String>, Result<ListEnd, ClusterError>, Vec<String>) {
        let (cluster, sent) = Cluster::scripted(responses);
        let mut list = cluster.list(ListRequest::all(maps()));
        let mut names = Vec::new();
        let ended = loop {
            match list.next().await {
                Ok(Some(bodies)) => names.extend(bodies.iter().map(|body| {
                    let object: Value = serde_json::from_slice(body).unwrap();
                    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
                })),
                Ok(None) => break Ok(list.end().clone()),
                Err(e) => break Err(e),
            }
        };
        (names, ended, sent.lines())
    }

    #[tokio::test]
    async fn pages_follow_each_other_by_their_tokens() {
        let pages = [page(&["a", "b"], "5", "x/1"), page(&[], "5", "y"), page(&["c"], "5", "")];
        let (names, end, sent) = listed(pages.iter().map(|page| ScriptedResponse::json(200, page)).collect()).await;
        assert_eq!(names, ["a", "b", "c"]);
        let expected = ListEnd { count: 3, pages: 3, mixed_revisions: false, resource_version: "5".to_owned() };
        assert_eq!(end.unwrap(), expected);
        assert_eq!(
            sent,
            [
                "GET /api/v1/configmaps?limit=50",
                "GET /api/v1/configmaps?limit=500&continue=x%2F1",
                "GET /api/v1/configmaps?limit=500&continue=y",
            ]
        );
    }

    #[tokio::test]
    async fn a_list_goes_on_with_the_token_that_takes_the_place_of_one_that_expired() {
        let (first, last) = (page(&["a"], "5", "old"), page(&["b"], "9", ""));
        let (first, last) = (ScriptedResponse::json(200, &first), ScriptedResponse::json(200, &last));
        let (names, end, sent) = listed(vec![first, expired("new"), last]).await;
        assert_eq!(names, ["a", "b"]);
        let expected = ListEnd { count: 2, pages: 2, mixed_revisions: true, resource_version: "9".to_owned() };
        assert_eq!(end.unwrap(), expected);
        assert_eq!(sent[2], "GET /api/v1/configmaps?limit=500&continue=new");
    }

    #[tokio::test]
    async fn a_list_begins_again_when_no_token_takes_the_place_and_not_for_ever() {
        let first = ScriptedResponse::json(200, &page(&["a"], "5", "old"));
        let all = ScriptedResponse::json(200, &page(&["a", "b"], "9", ""));
        let (names, end, sent) = listed(vec![first.clone(), expired(""), all]).await;
        assert_eq!((names.join(" ").as_str(), end.unwrap().mixed_revisions), ("a a b", true));
        assert_eq!(sent[2], "GET /api/v1/configmaps?limit=500");
        let again = [first, expired("")];
        let often: Vec<ScriptedResponse> = again.iter().cycle().take(40).cloned().collect();
        let (names, end, _) = listed(often).await;
        let times = usize::try_from(MOST_RESTARTS).unwrap() + 1;
        assert_eq!((names.len(), end.unwrap_err().is_expired()), (times, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_breaks_is_read_again() {
        let (first, last) = (page(&["a"], "5", "next").to_string(), page(&["b", "c"], "5", "").to_string());
        let half = |text: &str, upto: &str| text.split_inclusive(upto).next().unwrap_or_default().to_owned();
        let broken = ScriptedResponse::new(200, half(&last, r#"{"metadata":{"name":"b"}}"#)).that_breaks();
        let whole = |text: &str| ScriptedResponse::new(200, text.to_owned());
        let (names, end, sent) = listed(vec![whole(&first), broken, whole(&last)]).await;
        assert_eq!(names, ["a", "b", "b", "c"]);
        assert!(!end.unwrap().mixed_revisions, "the token of a page names its revision");
        assert_eq!(sent[1], sent[2]);
        // The first page has no token: it may be another revision the second time.
        let broken = ScriptedResponse::new(200, half(&first, r#"{"metadata":{"name":"a"}}"#)).that_breaks();
        let (names, end, _) = listed(vec![broken, whole(&last)]).await;
        assert_eq!((names.join(" ").as_str(), end.unwrap().mixed_revisions), ("a b c", true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_always_breaks_ends_the_list_with_the_reason() {
        let (names, end, sent) = listed(vec![ScriptedResponse::new(200, "{").that_breaks()]).await;
        assert_eq!(names, [""; 0]);
        let error = end.unwrap_err();
        assert_eq!((error.verb, error.what.as_str()), ("list", "configmaps"));
        assert!(matches!(error.failure, Failure::Connection { .. }), "{error}");
        assert_eq!(sent.len(), usize::try_from(MOST_TRIES).unwrap() + 1);
    }

    #[tokio::test]
    async fn a_list_asks_for_what_was_wanted_of_it() {
        let (cluster, sent) = Cluster::scripted(vec![ScriptedResponse::json(200, &page(&[], "1", ""))]);
        let request = ListRequest::all(maps()).in_namespace("shop".to_owned()).labelled("a in (b,c)").metadata_only();
        let mut list = cluster.list(request).with_fields("metadata.name=x".to_owned());
        assert!(list.next().await.unwrap().is_none());
        assert_eq!(
            sent.lines(),
            [
                "GET /api/v1/namespaces/shop/configmaps?limit=50&labelSelector=a%20in%20%28b%2Cc%29&fieldSelector=metadata.name%3Dx \
                 as application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            ]
        );
    }
}
