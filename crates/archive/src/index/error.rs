//! Reasons not to use an index.

use crate::tar_reader::ReadError;

/// The reason for which an index is not used. Unless the archive is refused, it may still be fine: read it as a stream.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// Not readable, not of this format, or beyond the limit.
    #[error("the index cannot be read")]
    Json(#[from] serde_json::Error),
    /// It claims more than the archive can hold.
    #[error("the index is inconsistent: {0}")]
    Inconsistent(String),
    /// An object stands there twice in the same version.
    #[error("{0} stands in the archive twice")]
    Twice(String),
    /// The archive passes a bound.
    #[error(transparent)]
    Refused(ReadError),
    /// The archive holds something else than the index says.
    #[error("the archive does not match its index at {0}")]
    Mismatch(String),
}
