//! Counters for the progress of an operation.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counters that only grow: the engine counts, and the command or server that runs it reads.
#[derive(Debug, Default)]
pub struct Progress {
    total: AtomicU64,
    done: AtomicU64,
    complete: AtomicBool,
}

impl Progress {
    /// So many more objects are known to be in scope.
    pub fn found(&self, objects: u64) {
        self.total.fetch_add(objects, Ordering::Relaxed);
    }

    /// All objects are known: the total grows no more.
    pub fn found_all(&self) {
        self.complete.store(true, Ordering::Relaxed);
    }

    /// Returns true if the total grows no more.
    #[must_use]
    pub fn has_found_all(&self) -> bool {
        self.complete.load(Ordering::Relaxed)
    }

    /// So many more objects are done, well or not.
    pub fn finished(&self, objects: u64) {
        self.done.fetch_add(objects, Ordering::Relaxed);
    }

    /// Objects done, and objects known so far.
    #[must_use]
    pub fn get(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }
}
