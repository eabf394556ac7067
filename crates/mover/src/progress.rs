//! Counters of a transfer, for progress and for the report.

use std::sync::atomic::AtomicU64;

/// Counters that every stage of a transfer adds to; whoever shows progress reads them at any time.
#[derive(Debug, Default)]
pub struct Progress {
    pub(crate) files: AtomicU64,
    pub(crate) directories: AtomicU64,
    pub(crate) symlinks: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) bytes_fetched: AtomicU64,
    pub(crate) bytes_unchanged: AtomicU64,
    pub(crate) expected_files: AtomicU64,
    pub(crate) expected_bytes: AtomicU64,
}

/// The values of [`Progress`] at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Files that are finished.
    pub files: u64,
    /// Directories that are finished.
    pub directories: u64,
    /// Symlinks that are made.
    pub symlinks: u64,
    /// Bytes written into files and devices; holes are not among them.
    pub bytes_written: u64,
    /// Bytes read from the bucket.
    pub bytes_fetched: u64,
    /// Bytes that were there already and were left alone.
    pub bytes_unchanged: u64,
    /// Files of the whole transfer, as the summary of its root says; 0 when it says nothing.
    pub expected_files: u64,
    /// Bytes of the whole transfer likewise.
    pub expected_bytes: u64,
}

impl Progress {
    /// Reads all counters.
    pub fn totals(&self) -> Totals {
        todo!()
    }
}
