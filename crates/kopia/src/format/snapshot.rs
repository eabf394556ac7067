//! Snapshot manifests (kopia: snapshot/manifest.go, snapshot/stats.go).

use super::FormatError;
use super::directory::DirectoryEntry;
use super::time::UnixNanos;
use std::collections::BTreeMap;

/// The source of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// The host.
    pub host: String,
    /// The user.
    pub user: String,
    /// The path; Velero's are made up, such as `snapshot-data-upload-download/kopia/ns/claim`.
    pub path: String,
}

/// The counters of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the format's own names")]
pub struct Stats {
    pub total_size: i64,
    pub excluded_total_size: i64,
    pub file_count: i32,
    pub cached_files: i32,
    pub non_cached_files: i32,
    pub dir_count: i32,
    pub excluded_file_count: i32,
    pub excluded_dir_count: i32,
    pub ignored_error_count: i32,
    pub error_count: i32,
}

/// The document of a snapshot manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotDocument {
    /// The source.
    pub source: Source,
    /// The description.
    pub description: String,
    /// The beginning.
    pub start: UnixNanos,
    /// The end.
    pub end: UnixNanos,
    /// The counters.
    pub stats: Stats,
    /// The reason for which it is not complete: `canceled`, `checkpoint` or `limit reached`.
    pub incomplete: Option<String>,
    /// The root; `None` in a manifest that is damaged or of a failed snapshot.
    pub root: Option<DirectoryEntry>,
    /// The tags.
    pub tags: BTreeMap<String, String>,
    /// The pins, which keep it from retention.
    pub pins: Vec<String>,
}

impl SnapshotDocument {
    /// Reads the document of a manifest with the strictness of kopia's own types: what kopia cannot read is an error here,
    /// so that nobody takes a snapshot for absent that is there.
    ///
    /// # Errors
    /// No snapshot; numbers with a fraction or out of range.
    pub fn parse(data: &str) -> Result<Self, FormatError> {
        todo!()
    }
    /// Writes the document as kopia writes it.
    pub fn write(&self) -> Vec<u8> {
        todo!()
    }
}
