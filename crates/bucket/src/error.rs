//! Errors of storage, sorted by what the caller does next.

use std::error::Error as StdError;

/// Kinds of failure, told apart by the caller's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// There is no such key (or bucket): decide without it.
    NotFound,
    /// The key exists and the write was conditional on its absence.
    Exists,
    /// Credentials or permissions: ask the user.
    Denied,
    /// The store asks to slow down: wait, then try again.
    Throttled,
    /// The network or the server failed for now: try again.
    Transient,
    /// The store does not know how to do that, such as a put on a condition: do without it.
    Unsupported,
    /// The request cannot succeed: a key or range that the store does not take.
    Invalid,
    /// Anything else: give up.
    Other,
}

/// An operation of a [`crate::BlobStore`] that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {key:?} in {store}: {message}")]
pub struct BucketError {
    /// The kind, which tells the caller what to do next.
    pub kind: ErrorKind,
    /// The operation that was attempted, such as `put`.
    pub operation: &'static str,
    /// On which key or prefix.
    pub key: String,
    /// In which store, as messages name it.
    pub store: String,
    /// The reason of the failure.
    pub message: String,
    /// The cause, if there is one below.
    #[source]
    pub source: Option<Box<dyn StdError + Send + Sync>>,
}

impl BucketError {
    /// An error without a cause below.
    pub(crate) fn new(kind: ErrorKind, operation: &'static str, key: &str, store: String, message: String) -> Self {
        Self { kind, operation, key: key.to_owned(), store, message, source: None }
    }

    /// Returns true if trying again can help.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, ErrorKind::Throttled | ErrorKind::Transient)
    }

    /// Returns true if the key does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.kind == ErrorKind::NotFound
    }
}
