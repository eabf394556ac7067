//! Progress of walks over snapshots, which others look at while they go on.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a walk over snapshots.
#[derive(Debug, Default)]
pub struct WalkProgress {
    pub(crate) snapshots: AtomicU64,
    pub(crate) expected_snapshots: AtomicU64,
    pub(crate) directories: AtomicU64,
    pub(crate) files: AtomicU64,
    pub(crate) contents: AtomicU64,
    pub(crate) expected_contents: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) expected_bytes: AtomicU64,
    pub(crate) problems: AtomicU64,
}

/// The counters of a walk at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WalkTotals {
    /// The snapshots that were begun.
    pub snapshots: u64,
    /// All snapshots of the walk.
    pub expected_snapshots: u64,
    /// The directories that were read.
    pub directories: u64,
    /// The files, links among them.
    pub files: u64,
    /// The contents that were counted or read.
    pub contents: u64,
    /// The most that it can become; 0 where nobody can say.
    pub expected_contents: u64,
    /// The plain bytes of these contents.
    pub bytes: u64,
    /// The most that they can become; 0 where nobody can say.
    pub expected_bytes: u64,
    /// The problems that were found so far.
    pub problems: u64,
}

impl WalkProgress {
    /// The counters as they are.
    pub fn totals(&self) -> WalkTotals {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WalkTotals {
            snapshots: count(&self.snapshots),
            expected_snapshots: count(&self.expected_snapshots),
            directories: count(&self.directories),
            files: count(&self.files),
            contents: count(&self.contents),
            expected_contents: count(&self.expected_contents),
            bytes: count(&self.bytes),
            expected_bytes: count(&self.expected_bytes),
            problems: count(&self.problems),
        }
    }
}

/// Adds to a counter.
pub fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

/// Subtracts from a counter, down to 0.
pub(crate) fn subtract(counter: &AtomicU64, less: u64) {
    let _ = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| Some(count.saturating_sub(less)));
}
