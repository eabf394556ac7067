//! Watches.
//!
//! A watch reads the store's history at its own speed; one that falls too far behind is told that its revision has
//! expired and ends. So a slow client costs no memory.

use crate::encoding::error::ApiError;
use crate::encoding::pages::ListPages;
use crate::encoding::render::Renderer;
use crate::encoding::response::HandlerResult;
use crate::encoding::selector::Selector;
use crate::server::shared::Server;
use crate::store::object_store::{ChangeKind, ListQuery, ObjectStore, StoreChange, StoreError};
use crate::store::stored::StoredObject;
use crate::verbs::call::ObjectRequest;
use crate::verbs::read::{number, selector};
use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Between two bookmarks.
const BOOKMARKS: Duration = Duration::from_secs(60);
/// A last bookmark is sent so long before the end.
const BEFORE_END: Duration = Duration::from_secs(2);
/// A watch without `timeoutSeconds` lasts so long.
const USUAL_END: Duration = Duration::from_secs(45 * 60);
/// The longest watch, whatever is asked.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Changes rendered at once.
const BATCH: usize = 200;

struct Watch {
    store: Arc<dyn ObjectStore>,
    renderer: Renderer,
    namespace: Option<String>,
    selector: Selector,
    /// Objects that there were at the beginning, until all of them have been told.
    initial: Option<ListPages>,
    owes_initial_end: bool,
    /// Changes up to here have been seen.
    seen: u64,
    revisions: watch::Receiver<u64>,
    stop: watch::Receiver<bool>,
    next_bookmark: Option<Instant>,
    end: Instant,
    is_over: bool,
}

impl Server {
    pub(crate) async fn watch(&self, call: &ObjectRequest) -> HandlerResult {
        let renderer = self.renderer(call)?;
        let asked = number(call, "resourceVersion")?;
        let sends_initial = call.query.is_set("sendInitialEvents");
        let lasts =
            number(call, "timeoutSeconds")?.filter(|s| *s > 0).map_or(USUAL_END, Duration::from_secs).min(LONGEST);
        let selector = selector(call)?;
        let with_bookmarks = call.query.is_set("allowWatchBookmarks");
        let now = Instant::now();
        let end = now + lasts;
        let (initial, seen) = match asked {
            Some(revision) if revision > 0 && !sends_initial => (None, revision),
            _ if call.query.text("sendInitialEvents") == "false" => (None, *self.store.revisions().borrow()),
            _ => {
                let query = ListQuery {
                    resource: call.resource.group_resource(),
                    namespace: call.place.namespace.clone(),
                    selector: selector.clone(),
                    after: None,
                    limit: 0,
                    revision: None,
                };
                let pages = ListPages::begin(&self.store, query).await?;
                let revision = pages.revision;
                (Some(pages), revision)
            }
        };
        let watch = Watch {
            store: self.store.clone(),
            renderer,
            namespace: call.place.namespace.clone(),
            selector,
            initial,
            owes_initial_end: sends_initial && with_bookmarks,
            seen,
            revisions: self.store.revisions(),
            stop: self.stop.clone(),
            next_bookmark: with_bookmarks.then(|| now + BOOKMARKS.min(lasts.saturating_sub(BEFORE_END))),
            end,
            is_over: false,
        };
        let events = stream::unfold(watch, |mut watch| async move {
            let piece = watch.next().await?;
            Some((Ok(Frame::data(piece)), watch))
        });
        let mut response = Response::new(StreamBody::new(events).boxed_unsync());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(response)
    }
}

impl Watch {
    /// The next events; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        let mut out = BytesMut::new();
        while !self.is_over && out.is_empty() {
            if self.initial.is_some() || self.owes_initial_end {
                self.write_initial(&mut out).await;
            } else if !self.write_changes(&mut out) {
                self.wait(&mut out).await;
            }
        }
        (!out.is_empty()).then(|| out.freeze())
    }

    async fn write_initial(&mut self, out: &mut BytesMut) {
        for _ in 0..BATCH {
            let Some(initial) = &mut self.initial else { break };
            match initial.next().await {
                Ok(Some(object)) => self.tell("ADDED", &object, out),
                Ok(None) => self.initial = None,
                Err(error) => return self.fail(error, out),
            }
        }
        if self.initial.is_none() && self.owes_initial_end {
            self.owes_initial_end = false;
            self.bookmark(true, out);
        }
    }

    fn fail(&mut self, error: StoreError, out: &mut BytesMut) {
        write(out, "ERROR", ApiError::from(error).status().to_string().as_bytes());
        self.is_over = true;
    }

    fn tell(&mut self, kind: &str, object: &StoredObject, out: &mut BytesMut) {
        write(out, kind, &self.renderer.object(object));
        self.renderer.stop_declaring();
    }

    fn bookmark(&mut self, is_initial_end: bool, out: &mut BytesMut) {
        write(out, "BOOKMARK", self.renderer.bookmark(self.seen, is_initial_end).to_string().as_bytes());
        self.renderer.stop_declaring();
    }

    /// Writes the changes since the last call. Returns true if there was something to read, for this watch or not.
    fn write_changes(&mut self, out: &mut BytesMut) -> bool {
        self.revisions.borrow_and_update();
        let resource = self.renderer.resource.group_resource();
        let changes = match self.store.changes(self.seen, Some(&resource), BATCH) {
            Ok(changes) => changes,
            Err(error) => {
                self.fail(error, out);
                return true;
            }
        };
        let is_new = changes.through > self.seen;
        self.seen = changes.through;
        for change in changes.changes {
            self.write_change(&change, out);
        }
        is_new
    }

    fn write_change(&mut self, change: &StoreChange, out: &mut BytesMut) {
        if self.namespace.is_some() && change.object.key.namespace != self.namespace {
            return;
        }
        let before = change.previous.as_ref().is_some_and(|p| self.selector.matches(p));
        let after = change.kind != ChangeKind::Deleted && self.selector.matches(&change.object);
        match (before, after) {
            (false, true) => self.tell("ADDED", &change.object, out),
            (true, true) => self.tell("MODIFIED", &change.object, out),
            (true, false) => self.tell("DELETED", &left(change), out),
            (false, false) => {}
        }
    }

    async fn wait(&mut self, out: &mut BytesMut) {
        let resource = &self.renderer.resource;
        if self.store.types().find(&resource.group, &resource.version, &resource.resource).is_none() {
            // The type is gone, and the deletions of its objects have been told.
            self.is_over = true;
            return;
        }
        let wake = self.next_bookmark.unwrap_or(self.end).min(self.end);
        let is_time = tokio::select! {
            changed = self.revisions.changed() => {
                self.is_over = changed.is_err();
                false
            }
            _ = self.stop.wait_for(|stop| *stop) => {
                self.is_over = true;
                false
            }
            () = sleep_until(wake) => true,
        };
        if is_time {
            if self.next_bookmark.is_some_and(|at| at <= wake) {
                self.bookmark(false, out);
                self.next_bookmark = Some(Instant::now() + BOOKMARKS);
            }
            self.is_over = Instant::now() >= self.end;
        }
    }
}

/// The last state that a watch knew of an object that is gone or no longer selected, with the revision of that.
fn left(change: &StoreChange) -> Arc<StoredObject> {
    match &change.previous {
        Some(previous) if change.kind != ChangeKind::Deleted => {
            let value: Value = previous.value();
            Arc::new(StoredObject::new(previous.key.clone(), change.object.revision, &value))
        }
        _ => change.object.clone(),
    }
}

fn write(out: &mut BytesMut, kind: &str, object: &[u8]) {
    out.put(format!(r#"{{"type":{},"object":"#, json!(kind)).as_bytes());
    out.put(object);
    out.put(&b"}\n"[..]);
}
