//! Follows the objects of one type: by a list, then by watches from its revision on, without end.

use backon::{BackoffBuilder, ExponentialBuilder};
use bytes::Bytes;
use lifeboat_cluster::{Cluster, ClusterError, ListRequest, WatchEvent, WatchRequest};
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

/// How often a list that was read at more than one revision is read again.
const MOST_LISTS: u32 = 3;

/// What is mirrored: the objects of one type in one namespace.
#[derive(Clone, Debug)]
pub struct Mirrored {
    /// The cluster.
    pub cluster: Cluster,
    /// The type.
    pub resource: Arc<ApiResource>,
    /// The namespace.
    pub namespace: String,
}

/// What a mirror has seen of the objects. They are JSON.
#[derive(Debug)]
pub enum Seen {
    /// All objects that there are.
    All(Vec<Bytes>),
    /// An object that is new, or was changed to this.
    Applied(Bytes),
    /// An object that is gone, in its last state.
    Deleted(Bytes),
}

impl Mirrored {
    /// Sends all objects, then each change, and all objects again after a watch that could not go on. `change` makes what is
    /// sent out of what was seen. Logs failures and tries again, with growing pauses. Runs until the receiver is dropped.
    pub async fn mirror<C: Send>(self, change: impl Fn(Seen) -> C + Send + Sync, changes: mpsc::Sender<C>) {
        let mut revision = None;
        let pauses = ExponentialBuilder::default().with_min_delay(PAUSE).with_max_delay(LONGEST_PAUSE);
        let pauses = pauses.without_max_times();
        let mut growing = pauses.build();
        loop {
            match self.follow(&change, &mut revision, &changes).await {
                Ok(Ended::Gone) => return,
                Ok(Ended::Watch) => growing = pauses.build(),
                Err(e) => {
                    if e.status().is_some_and(|status| status.code == 410) {
                        revision = None;
                    }
                    tracing::warn!(kind = self.resource.kind, error = %e, "lost sight, looking again");
                    tokio::select! {
                        () = sleep(growing.next().unwrap_or(LONGEST_PAUSE)) => {}
                        () = changes.closed() => return,
                    }
                }
            }
        }
    }

    async fn follow<C>(
        &self,
        change: &(impl Fn(Seen) -> C + Send + Sync),
        revision: &mut Option<String>,
        changes: &mpsc::Sender<C>,
    ) -> Result<Ended, ClusterError> {
        let from = match revision.clone() {
            Some(revision) => revision,
            None => {
                let (all, revision) = self.list().await?;
                if changes.send(change(Seen::All(all))).await.is_err() {
                    return Ok(Ended::Gone);
                }
                revision
            }
        };
        *revision = Some(from.clone());
        let mut watch = self
            .cluster
            .watch(&WatchRequest {
                resource: Arc::clone(&self.resource),
                namespace: Some(self.namespace.clone()),
                selector: String::new(),
                fields: String::new(),
                resource_version: from,
                lasting: LASTING,
            })
            .await?;
        loop {
            let event = tokio::select! {
                event = watch.next() => event?,
                () = changes.closed() => return Ok(Ended::Gone),
            };
            let seen = match event {
                None => return Ok(Ended::Watch),
                Some(WatchEvent::Bookmark(at)) => {
                    *revision = Some(at);
                    continue;
                }
                Some(WatchEvent::Applied(body)) => {
                    note(&body, revision);
                    Seen::Applied(body)
                }
                Some(WatchEvent::Deleted(body)) => {
                    note(&body, revision);
                    Seen::Deleted(body)
                }
            };
            if changes.send(change(seen)).await.is_err() {
                return Ok(Ended::Gone);
            }
        }
    }

    /// Lists all objects of one revision, and gives that. A list of more than one revision may hold objects that were deleted
    /// in between, and the watch after it would not tell of their end.
    async fn list(&self) -> Result<(Vec<Bytes>, String), ClusterError> {
        let mut tries = 0;
        loop {
            let mut list = self.cluster.list(ListRequest {
                resource: Arc::clone(&self.resource),
                namespace: Some(self.namespace.clone()),
                selector: String::new(),
                metadata_only: false,
            });
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
}

enum Ended {
    /// The watch: the server has ended it as agreed.
    Watch,
    /// The mirror: the receiver is gone.
    Gone,
}

/// The next watch goes on after this event.
fn note(body: &[u8], revision: &mut Option<String>) {
    if let Ok(head) = Head::parse(body) {
        *revision = Some(head.resource_version);
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
        let mirrored = Mirrored { cluster, resource, namespace: "velero".into() };
        let (all, revision) = mirrored.list().await.unwrap();
        let names: Vec<Value> =
            all.iter().map(|body| serde_json::from_slice::<Value>(body).unwrap()["metadata"]["name"].clone()).collect();
        assert_eq!((names, revision.as_str()), (vec![json!("kept")], "6"));
    }
}
