//! Follows the objects of one type: by a list, then by watches from its revision on, without end.

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use bytes::Bytes;
use lifeboat_cluster::{Cluster, ClusterError, ListRequest, Watch, WatchEvent, WatchRequest};
use lifeboat_object::{ApiResource, Head};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// The server ends a watch after this long, so that a connection that was lost in silence is noticed.
const LASTING: Duration = Duration::from_secs(540);
/// Pause after a failure. Each further failure doubles it, up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The number of times that a list is read again because it came at more than one revision.
const MOST_LISTS: u32 = 3;

/// The objects of one type that are mirrored.
#[derive(Clone, Debug)]
pub struct MirroredType {
    /// The cluster.
    pub cluster: Cluster,
    /// The type.
    pub resource: Arc<ApiResource>,
    /// A single namespace; `None` for all, and for cluster-scoped types.
    pub namespace: Option<String>,
    /// Only the objects that this field selector matches; empty for all.
    pub fields: String,
    /// Only `metadata` of each object, as `PartialObjectMetadata`.
    pub metadata_only: bool,
}

/// Changes that a mirror has seen. The objects are JSON.
#[derive(Debug)]
pub enum MirrorEvent {
    /// All objects that there are.
    All(Vec<Bytes>),
    /// An object that is new, or was changed to this.
    Applied(Bytes),
    /// An object that is gone, in its last state.
    Deleted(Bytes),
}

/// Requests of a mirror that failed; the message is that of the request.
#[derive(Debug, thiserror::Error)]
pub enum MirrorFailure {
    /// List the objects.
    #[error(transparent)]
    List(ClusterError),
    /// Watch the objects that it has listed.
    #[error(transparent)]
    Watch(ClusterError),
}

/// A running mirror: ask for [`Mirror::next`] without end.
#[derive(Debug)]
pub struct Mirror {
    of: MirroredType,
    at: NextRequest,
    /// Waited for before the next request.
    pause: Option<Duration>,
    pauses: ExponentialBackoff,
}

/// The next request.
#[derive(Debug)]
enum NextRequest {
    List,
    /// A watch from this revision on.
    Watch(String),
    /// A watch that runs, and the revision that it has come to.
    Watching(Box<Watch>, String),
}

impl MirroredType {
    /// Begins to mirror. The first request is made by the first [`Mirror::next`].
    #[must_use]
    pub fn start(self) -> Mirror {
        Mirror { of: self, at: NextRequest::List, pause: None, pauses: pauses() }
    }

    /// Sends what a mirror sees. `change` makes what is sent out of what was seen. Logs failures and tries again. Runs until
    /// the receiver is dropped.
    pub async fn mirror<C: Send>(self, change: impl Fn(MirrorEvent) -> C + Send + Sync, changes: mpsc::Sender<C>) {
        let mut mirror = self.start();
        loop {
            let seen = tokio::select! {
                seen = mirror.next() => seen,
                () = changes.closed() => return,
            };
            match seen {
                Ok(seen) => {
                    if changes.send(change(seen)).await.is_err() {
                        return;
                    }
                }
                Err(e) => tracing::warn!(kind = mirror.of.resource.kind, error = %e, "lost sight, looking again"),
            }
        }
    }

    /// Lists all objects of one revision, and gives that. A list of more than one revision may hold objects that were deleted
    /// in between, and the watch after it would not tell of their end.
    async fn list(&self) -> Result<(Vec<Bytes>, String), ClusterError> {
        let mut tries = 0;
        loop {
            let all = ListRequest::all(Arc::clone(&self.resource)).in_namespace(self.namespace.clone());
            let request = ListRequest { metadata_only: self.metadata_only, ..all };
            let mut list = self.cluster.list(request).with_fields(self.fields.clone());
            let mut all = Vec::new();
            while let Some(bodies) = list.next().await? {
                all.extend(bodies);
            }
            tries += 1;
            let end = list.end();
            if !end.mixed_revisions {
                return Ok((all, end.resource_version.clone()));
            }
            if tries == MOST_LISTS {
                tracing::warn!(
                    kind = self.resource.kind,
                    tries,
                    "cannot be read at one moment: what was deleted meanwhile may seem to be there"
                );
                return Ok((all, end.resource_version.clone()));
            }
        }
    }

    async fn watch(&self, resource_version: String) -> Result<Watch, ClusterError> {
        let request = WatchRequest {
            resource: Arc::clone(&self.resource),
            namespace: self.namespace.clone(),
            selector: String::new(),
            fields: self.fields.clone(),
            resource_version,
            lasting: LASTING,
        };
        if self.metadata_only {
            self.cluster.watch_metadata(&request).await
        } else {
            self.cluster.watch(&request).await
        }
    }
}

fn pauses() -> ExponentialBackoff {
    ExponentialBuilder::default().with_min_delay(PAUSE).with_max_delay(LONGEST_PAUSE).without_max_times().build()
}

impl Mirror {
    /// All objects first, then each change, and all objects again after a watch that could not go on. Dropping the future loses
    /// nothing, but a request that was made is made again.
    ///
    /// # Errors
    /// [`MirrorFailure`]: what has failed. The next call tries it again, after a pause that grows with each failure.
    pub async fn next(&mut self) -> Result<MirrorEvent, MirrorFailure> {
        loop {
            if let Some(pause) = self.pause {
                sleep(pause).await;
                self.pause = None;
            }
            match self.step().await {
                Ok(Some(seen)) => return Ok(seen),
                Ok(None) => {}
                Err(e) => {
                    self.at = match (std::mem::replace(&mut self.at, NextRequest::List), &e) {
                        (NextRequest::Watch(from) | NextRequest::Watching(_, from), MirrorFailure::Watch(e))
                            if !e.is_expired() =>
                        {
                            NextRequest::Watch(from)
                        }
                        _ => NextRequest::List,
                    };
                    self.pause = self.pauses.next();
                    return Err(e);
                }
            }
        }
    }

    /// Makes the next call give all objects again, after the pause that follows a failure.
    pub fn list_anew(&mut self) {
        self.at = NextRequest::List;
    }

    async fn step(&mut self) -> Result<Option<MirrorEvent>, MirrorFailure> {
        match &mut self.at {
            NextRequest::List => {
                let (all, revision) = self.of.list().await.map_err(MirrorFailure::List)?;
                self.at = NextRequest::Watch(revision);
                Ok(Some(MirrorEvent::All(all)))
            }
            NextRequest::Watch(from) => {
                let from = from.clone();
                let watch = self.of.watch(from.clone()).await.map_err(MirrorFailure::Watch)?;
                self.at = NextRequest::Watching(Box::new(watch), from);
                Ok(None)
            }
            NextRequest::Watching(watch, revision) => {
                let seen = match watch.next().await.map_err(MirrorFailure::Watch)? {
                    None => {
                        // The server has ended it as agreed.
                        self.pauses = pauses();
                        self.at = NextRequest::Watch(std::mem::take(revision));
                        return Ok(None);
                    }
                    Some(WatchEvent::Bookmark(at)) => {
                        *revision = at;
                        return Ok(None);
                    }
                    Some(WatchEvent::Applied(body)) => {
                        note(&body, revision);
                        MirrorEvent::Applied(body)
                    }
                    Some(WatchEvent::Deleted(body)) => {
                        note(&body, revision);
                        MirrorEvent::Deleted(body)
                    }
                };
                Ok(Some(seen))
            }
        }
    }
}

/// The next watch goes on after this event.
fn note(body: &[u8], revision: &mut String) {
    if let Ok(head) = Head::parse(body) {
        *revision = head.resource_version;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::api_server;
    use serde_json::{Value, json};
    use tokio::task::JoinSet;

    #[tokio::test]
    async fn what_was_read_at_two_revisions_is_read_again() {
        let page = |revision: &str, next: &str, name: &str| {
            let item = json!({"metadata": {"name": name, "uid": name, "resourceVersion": "1"}});
            json!({"metadata": {"resourceVersion": revision, "continue": next}, "items": [item]})
        };
        let expired = json!({"kind": "Status", "code": 410, "reason": "Expired", "metadata": {"continue": "other"}});
        let mut tasks = JoinSet::new();
        let pages = vec![
            (200, page("1", "token", "deleted")),
            (410, expired),
            (200, page("5", "", "kept")),
            (200, page("6", "", "kept")),
        ];
        let cluster = api_server(&mut tasks, pages).await;
        let resource = Arc::new(ApiResource::new("velero.io", "v1", "backups", "Backup"));
        let mirrored = MirroredType {
            cluster,
            resource,
            namespace: Some("velero".into()),
            fields: String::new(),
            metadata_only: false,
        };
        let (all, revision) = mirrored.list().await.unwrap();
        let names: Vec<Value> =
            all.iter().map(|body| serde_json::from_slice::<Value>(body).unwrap()["metadata"]["name"].clone()).collect();
        assert_eq!((names, revision.as_str()), (vec![json!("kept")], "6"));
    }

    #[tokio::test]
    async fn a_failed_mirror_resumes_unless_its_revision_is_old_or_it_must_relist() {
        let body = |name: &str| json!({"metadata": {"name": name, "uid": name, "resourceVersion": "7"}});
        let list = |name: &str| json!({"metadata": {"resourceVersion": "5"}, "items": [body(name)]});
        let status = |code: u16| json!({"kind": "Status", "code": code, "message": "no"});
        let mut tasks = JoinSet::new();
        let answers = vec![
            (200, list("first")),
            (403, status(403)),
            (410, status(410)),
            (200, list("after an old revision")),
            (403, status(403)),
            (200, list("wanted anew")),
        ];
        let cluster = api_server(&mut tasks, answers).await;
        let resource = Arc::new(ApiResource::new("velero.io", "v1", "backups", "Backup"));
        let mut mirror = MirroredType {
            cluster,
            resource,
            namespace: Some("velero".into()),
            fields: String::new(),
            metadata_only: false,
        }
        .start();
        let mut seen = Vec::new();
        for wants_anew in [false, false, false, false, true, false] {
            let name = |body: &Bytes| {
                serde_json::from_slice::<Value>(body).unwrap()["metadata"]["name"].as_str().unwrap().to_owned()
            };
            seen.push(match mirror.next().await {
                Ok(MirrorEvent::All(all)) => format!("all: {}", all.iter().map(name).collect::<String>()),
                Ok(changed) => format!("{changed:?}"),
                Err(MirrorFailure::List(e)) => format!("list: {e}"),
                Err(MirrorFailure::Watch(_)) => "watch".to_owned(),
            });
            if wants_anew {
                mirror.list_anew();
            }
        }
        // A watch that fails is begun again before anything is listed.
        assert_eq!(seen, ["all: first", "watch", "watch", "all: after an old revision", "watch", "all: wanted anew"]);
    }
}
