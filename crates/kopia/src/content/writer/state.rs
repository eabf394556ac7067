//! The state that the tasks of a writer share.

use super::batch::Batch;
use super::entry::Pending;
use crate::format::content_id::ContentId;
use crate::format::time::UnixNanos;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Pending entries, and the contents that are being changed.
pub(super) struct State {
    pub(super) batch: Batch,
    /// The entries that are flushed just now.
    pub(super) flushing: Arc<BTreeMap<ContentId, Pending>>,
    /// Contents that a task is about to change; the others wait.
    claims: HashMap<ContentId, watch::Receiver<()>>,
    pub(super) flushed_at: UnixNanos,
}

impl State {
    pub(super) fn new(now: UnixNanos) -> Self {
        Self { batch: Batch::default(), flushing: Arc::default(), claims: HashMap::new(), flushed_at: now }
    }

    /// The entry of this writer that counts.
    pub(super) fn pending(&self, id: &ContentId) -> Option<&Pending> {
        // The later one is in the batch.
        self.batch.entries.get(id).or_else(|| self.flushing.get(id))
    }
}

pub(super) fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The right to change a content, until it is dropped.
pub(super) struct Claim {
    id: ContentId,
    state: Arc<Mutex<State>>,
    _end: watch::Sender<()>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        lock(&self.state).claims.remove(&self.id);
    }
}

impl Claim {
    /// Waits until nobody else is about to change a content.
    pub(super) async fn take(state: &Arc<Mutex<State>>, id: ContentId) -> Claim {
        loop {
            let mut other = {
                let mut shared = lock(state);
                match shared.claims.get(&id) {
                    Some(other) => other.clone(),
                    None => {
                        let (end, ends) = watch::channel(());
                        shared.claims.insert(id, ends);
                        return Self { id, state: state.clone(), _end: end };
                    }
                }
            };
            // Nothing is sent: it ends.
            while other.changed().await.is_ok() {}
        }
    }
}
