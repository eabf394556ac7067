//! The indexes that count in a repository with epochs (kopia: internal/epoch). A pure decision over listings.

use crate::blobs::BlobInfo;
use crate::format::time::UnixNanos;

/// The state of the epochs, from the blobs whose names begin with `x`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochState {
    /// The epoch into which writers write.
    pub write_epoch: u64,
    /// Deleted entries up to this second count no more.
    pub watermark: u64,
    /// The index blobs that count together.
    pub index_blobs: Vec<BlobInfo>,
}

/// Finds the state. The listing must hold all blobs with prefix `x`.
pub fn state(listing: &[BlobInfo]) -> EpochState {
    todo!()
}

/// The time until which a state that was listed at `begun` may be used.
pub fn valid_until(begun: UnixNanos, refresh_frequency: i64) -> UnixNanos {
    todo!()
}
