//! Simulated death of a process at a given step.

use async_trait::async_trait;
use bytes::Bytes;
use lifeboat_operation::{Records, RecordsError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// Counts the steps of a process, and lets it die at one: from then on nothing that it does has an effect.
#[derive(Debug)]
pub(crate) struct Trip {
    left: AtomicUsize,
    dead: Notify,
}

impl Default for Trip {
    /// Never dies.
    fn default() -> Self {
        Self::after(usize::MAX)
    }
}

impl Trip {
    /// Dies after so many steps.
    pub(crate) fn after(steps: usize) -> Self {
        Self { left: AtomicUsize::new(steps), dead: Notify::new() }
    }

    /// Does a step; never returns once the process is dead.
    pub(crate) async fn step(&self) {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_err() {
            self.dead.notify_one();
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the process is dead.
    pub(crate) async fn dead(&self) {
        self.dead.notified().await;
    }
}

/// Notes that outlive processes; each write is two steps of the one that writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    notes: Arc<Mutex<BTreeMap<String, Bytes>>>,
    trip: Arc<Trip>,
}

impl Kept {
    /// The same notes, written by another process.
    pub(crate) fn by(&self, trip: &Arc<Trip>) -> Arc<dyn Records> {
        Arc::new(Self { notes: Arc::clone(&self.notes), trip: Arc::clone(trip) })
    }
}

#[async_trait]
impl Records for Kept {
    async fn read(&self, key: &str) -> Result<Option<Bytes>, RecordsError> {
        Ok(self.notes.lock().unwrap().get(key).cloned())
    }

    async fn keys(&self) -> Result<BTreeSet<String>, RecordsError> {
        Ok(self.notes.lock().unwrap().keys().cloned().collect())
    }

    async fn write(&self, notes: BTreeMap<String, Option<Bytes>>) -> Result<(), RecordsError> {
        self.trip.step().await;
        {
            let mut all = self.notes.lock().unwrap();
            for (key, note) in notes {
                match note {
                    Some(note) => drop(all.insert(key, note)),
                    None => drop(all.remove(&key)),
                }
            }
        }
        self.trip.step().await;
        Ok(())
    }
}
