//! The error of a strategic merge patch that is not applied.

/// A strategic merge patch that was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why} at {path:?}")]
pub struct StrategicError {
    /// The place in the patch, as a JSON pointer.
    pub path: String,
    /// The reason for which it cannot be applied.
    pub why: String,
}

pub(super) fn refused<T>(path: &str, why: impl Into<String>) -> Result<T, StrategicError> {
    Err(StrategicError { path: path.to_owned(), why: why.into() })
}
