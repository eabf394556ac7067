//! The structures of the format, each from its bytes. Pure; everything is untrusted.

pub mod config;
pub mod index;
pub mod key_file;
pub mod lock;
pub mod mode;
pub mod quoted;
pub mod snapshot;
pub mod stored;
pub mod tree;

/// Bytes that do not have their form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct FormatError {
    /// The reason.
    pub why: String,
}

impl FormatError {
    pub(crate) fn new(why: impl std::fmt::Display) -> Self {
        Self { why: why.to_string() }
    }
}

impl From<serde_json::Error> for FormatError {
    fn from(error: serde_json::Error) -> Self {
        Self::new(error)
    }
}
