//! Names of blobs and what they say (kopia: internal/epoch, internal/completeset, repo/content/sessions.go).

/// The format blob.
pub const FORMAT: &str = "kopia.repository";
/// The settings of object lock.
pub const BLOB_CONFIG: &str = "kopia.blobcfg";
/// The schedule of maintenance.
pub const MAINTENANCE: &str = "kopia.maintenance";

/// The name of a blob, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the format's own names")]
pub enum BlobKind {
    /// `kopia.repository` and its backups, `kopia.blobcfg`, `kopia.maintenance`.
    Format,
    /// `p…`
    DataPack,
    /// `q…`
    MetadataPack,
    /// `xn<epoch>_…`
    Index { epoch: u64 },
    /// `xs<epoch>_…`
    SingleEpochIndex { epoch: u64 },
    /// `xr<first>_<last>_…`
    RangeIndex { first: u64, last: u64 },
    /// `xe<n>`
    EpochMarker { epoch: u64 },
    /// `xw<unix seconds>`
    Watermark { seconds: u64 },
    /// `n…`
    LegacyIndex,
    /// `m…`
    LegacyCompaction,
    /// `l…`
    LegacyCleanup,
    /// `s…`
    Session,
    /// `_…`
    Log,
    /// Anything else.
    Other,
}

/// Takes the name of a blob apart.
pub fn parse(name: &str) -> BlobKind {
    todo!()
}

/// The set that a compacted index belongs to: its ID and its number of members; `None` where the name has none, which is a
/// complete set of its own.
pub fn set_of(name: &str) -> Option<(&str, u32)> {
    todo!()
}

/// The session in the name of a blob.
pub fn session_of(name: &str) -> Option<&str> {
    todo!()
}
