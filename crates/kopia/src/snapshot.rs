//! Snapshots and their trees.

use crate::KopiaError;
use crate::format::directory::DirectoryEntry;
use crate::format::snapshot::SnapshotDocument;

/// A snapshot of the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The ID of its manifest.
    pub id: String,
    /// Its document, or the reason for which that cannot be read.
    pub document: Result<SnapshotDocument, String>,
}

/// A snapshot by a text of the user: an ID, a prefix of one (at least four digits, one match), or `latest`.
///
/// # Errors
/// None or several that fit, with the candidates.
pub fn choose<'a>(snapshots: &'a [Snapshot], text: &str) -> Result<&'a Snapshot, KopiaError> {
    todo!()
}

/// The entry at a path below the root of a snapshot. Names are compared as the repository has them.
///
/// # Errors
/// A path that does not exist, with the longest part that does.
pub async fn entry_at(
    repository: &crate::Repository,
    root: &DirectoryEntry,
    path: &str,
) -> Result<DirectoryEntry, KopiaError> {
    todo!()
}
