//! Manifests in contents with prefix `m` (kopia: repo/manifest).

use super::FormatError;
use super::time::UnixNanos;
use std::collections::BTreeMap;

/// A manifest, or the note of its deletion.
#[derive(Debug, Clone)]
pub struct ManifestEntry {
    /// 32 hex digits.
    pub id: String,
    /// The labels; `type` is always there. Empty for a deletion.
    pub labels: BTreeMap<String, String>,
    /// The time of the last change.
    pub modified: UnixNanos,
    /// True for the note of a deletion.
    pub is_deleted: bool,
    /// The document as it stands; `null` for a deletion.
    pub data: Box<serde_json::value::RawValue>,
}

/// Reads the manifests of one content (gzip of JSON), at most `limit` plain bytes.
///
/// # Errors
/// No manifests, or more bytes than `limit`.
pub fn parse(content: &[u8], limit: usize) -> Result<Vec<ManifestEntry>, FormatError> {
    todo!()
}

/// Writes one content with these manifests.
pub fn write(entries: &[ManifestEntry]) -> Vec<u8> {
    todo!()
}
