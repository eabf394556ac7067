//! Keeps sight of one kind: a list, then a watch from its revision on, for ever.

use crate::client::Client;
use crate::world::{Change, Kind, Seen};
use lifeboat_cluster::{ClusterError, ListRequest, WatchEvent, WatchRequest};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// A watch is ended by the server after this long, so that a lost one is noticed.
const LASTING: Duration = Duration::from_secs(540);
/// Pause after a failure; doubled up to the longest.
const PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

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
            let request = ListRequest {
                resource: resource.clone(),
                namespace: namespace.clone(),
                selector: String::new(),
                metadata_only: false,
            };
            let mut list = client.cluster.list(request);
            let mut all = Vec::new();
            while let Some(bodies) = list.next().await? {
                all.extend(bodies);
            }
            if changes.send(Change { kind, what: Seen::All(all) }).await.is_err() {
                return Ok(Ended::Gone);
            }
            list.end().resource_version.clone()
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

/// The next watch goes on after this event.
fn note(body: &[u8], revision: &mut Option<String>) {
    if let Ok(head) = lifeboat_object::Head::parse(body) {
        *revision = Some(head.resource_version);
    }
}
