//! Keeps sight of one kind: a list, then a watch from its revision on, for ever.

use crate::client::Client;
use crate::world::{Change, Kind, Seen};
use bytes::Bytes;
use lifeboat_cluster::{ClusterError, ListRequest, WatchEvent, WatchRequest};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// A watch is ended by the server after this long, so that a lost one is noticed.
const LASTING: Duration = Duration::from_secs(540);
/// Pause after a failure; doubled up to the longest.
const PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How often one that was read at more than one revision is read again.
const MOST_LISTS: u32 = 3;

/// Runs until nobody wants changes any more.
pub(crate) async fn mirror(kind: Kind, client: Client, changes: mpsc::Sender<Change>) {
    let mut revision = None;
    let mut pause = PAUSE;
    loop {
        match follow(kind, &client, &mut revision, &changes).await {
            Ok(Ended::Gone) => return,
            Ok(Ended::Watch) => pause = PAUSE,
            Err(e) => {
                if e.status().is_some_and(|status| status.code == 410) {
                    revision = None;
                }
                tracing::warn!(?kind, error = %e, "lost sight, looking again");
                tokio::select! {
                    () = sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                    () = changes.closed() => return,
                }
            }
        }
    }
}

enum Ended {
    /// The server has ended the watch as agreed.
    Watch,
    /// The receiver is gone.
    Gone,
}

async fn follow(
    kind: Kind,
    client: &Client,
    revision: &mut Option<String>,
    changes: &mpsc::Sender<Change>,
) -> Result<Ended, ClusterError> {
    let resource = kind.resource();
    let namespace = Some(client.namespace.clone());
    let from = match revision.clone() {
        Some(revision) => revision,
        None => {
            let (all, revision) = list(kind, client).await?;
            if changes.send(Change { kind, what: Seen::All(all) }).await.is_err() {
                return Ok(Ended::Gone);
            }
            revision
        }
    };
    *revision = Some(from.clone());
    let request = WatchRequest { resource, namespace, resource_version: from, lasting: LASTING };
    let mut watch = client.cluster.watch(&request).await?;
    loop {
        let event = tokio::select! {
            event = watch.next() => event?,
            () = changes.closed() => return Ok(Ended::Gone),
        };
        let what = match event {
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
        if changes.send(Change { kind, what }).await.is_err() {
            return Ok(Ended::Gone);
        }
    }
}

/// All objects of one moment, and its revision. Of more than one it may hold what was deleted in between, of which the
/// watch would tell nothing.
async fn list(kind: Kind, client: &Client) -> Result<(Vec<Bytes>, String), ClusterError> {
    let mut tries = 0;
    loop {
        let mut list = client.cluster.list(ListRequest {
            resource: kind.resource(),
            namespace: Some(client.namespace.clone()),
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
                ?kind,
                tries,
                "cannot be read at one moment: what was deleted meanwhile may seem to be there"
            );
            return Ok((all, end.resource_version.clone()));
        }
    }
}

/// The next watch goes on after this event.
fn note(body: &[u8], revision: &mut Option<String>) {
    if let Ok(head) = lifeboat_object::Head::parse(body) {
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
        let (all, revision) = list(Kind::Backup, &Client { cluster, namespace: "velero".into() }).await.unwrap();
        let names: Vec<Value> =
            all.iter().map(|body| serde_json::from_slice::<Value>(body).unwrap()["metadata"]["name"].clone()).collect();
        assert_eq!((names, revision.as_str()), (vec![json!("kept")], "6"));
    }
}
