//! Decides about each object and gives it the form it has in the archive.

use crate::collect::Batch;
use crate::env::Env;
use bytes::Bytes;
use lifeboat_api::well_known::LABEL_EXCLUDE_FROM_BACKUP;
use lifeboat_object::{ApiResource, Item, splice_type};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinSet;

/// Batches waiting between processing and writing.
const WAITING: usize = 8;

/// An object in the form it is written in.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) resource: Arc<ApiResource>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) body: Bytes,
}

/// Objects to be written together.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) entries: Vec<Entry>,
    pub(crate) budget: OwnedSemaphorePermit,
}

/// Starts the stage as a task of the operation.
pub(crate) fn process(
    mut batches: mpsc::Receiver<Batch>,
    env: &Env,
    tasks: &mut JoinSet<()>,
) -> mpsc::Receiver<Entries> {
    let (sender, entries) = mpsc::channel(WAITING);
    let cancel = env.cancel.clone();
    tasks.spawn(async move {
        let mut seen = Seen::default();
        while let Some(batch) = batches.recv().await {
            if cancel.is_cancelled() {
                return;
            }
            let entries = batch.items.into_iter().filter_map(|item| fast_lane(item, &mut seen)).collect();
            if sender.send(Entries { entries, budget: batch.budget }).await.is_err() {
                return;
            }
        }
    });
    entries
}

/// The lane of objects that no action changes: their bytes go through as they are, the type spliced in.
fn fast_lane(item: Item, seen: &mut Seen) -> Option<Entry> {
    let excluded = item.head.labels.get(LABEL_EXCLUDE_FROM_BACKUP).is_some_and(|v| v == "true");
    if excluded || item.head.deleting || !seen.first(&item) {
        return None;
    }
    let body = splice_type(&item);
    Some(Entry { resource: item.resource, namespace: item.head.namespace, name: item.head.name, body })
}

/// Which objects were met: a list that was interrupted may bring one twice. 16 bytes an object.
#[derive(Default)]
struct Seen(HashSet<[u8; 16]>);

impl Seen {
    fn first(&mut self, item: &Item) -> bool {
        let mut hasher = Sha256::new();
        for part in [
            &item.resource.group,
            &item.resource.resource,
            item.head.namespace.as_deref().unwrap_or(""),
            &item.head.name,
        ] {
            hasher.update(part.as_bytes());
            hasher.update([0]);
        }
        let mut key = [0; 16];
        key.copy_from_slice(&hasher.finalize()[..16]);
        self.0.insert(key)
    }
}
