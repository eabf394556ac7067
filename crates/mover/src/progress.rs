//! Counters of a transfer, for progress and for the report.

use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use lifeboat_kopia::progress::add;

/// Counters that every stage of a transfer adds to; whoever shows progress reads them at any time.
#[derive(Debug, Default)]
pub struct Progress {
    pub(crate) files: AtomicU64,
    pub(crate) directories: AtomicU64,
    pub(crate) symlinks: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) bytes_fetched: AtomicU64,
    pub(crate) bytes_unchanged: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
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
    /// Bytes of files, devices and symlinks that were read from the repository, as they are without compression. A content
    /// that several places want at once counts once; what lists and directories take does not count.
    pub bytes_fetched: u64,
    /// Bytes that were there already and were left alone.
    pub bytes_unchanged: u64,
    /// Bytes of files, devices and symlinks that were read for a snapshot; holes are among them.
    pub bytes_read: u64,
    /// Files of the whole transfer, as the summary of its root says, or that of the snapshot before; 0 when it says nothing.
    pub expected_files: u64,
    /// Bytes of the whole transfer likewise.
    pub expected_bytes: u64,
}

impl Progress {
    /// Reads all counters.
    pub fn totals(&self) -> Totals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Totals {
            files: read(&self.files),
            directories: read(&self.directories),
            symlinks: read(&self.symlinks),
            bytes_written: read(&self.bytes_written),
            bytes_fetched: read(&self.bytes_fetched),
            bytes_unchanged: read(&self.bytes_unchanged),
            bytes_read: read(&self.bytes_read),
            expected_files: read(&self.expected_files),
            expected_bytes: read(&self.expected_bytes),
        }
    }
}
