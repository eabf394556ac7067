//! Structures of the format as values: bytes in, values out, and back. Pure, without storage and clock.
//!
//! A value that was read keeps nothing of the bytes, but for what it must give back unchanged. Writers produce the
//! bytes that kopia 0.23 produces, so that equal directories have equal hashes.

pub mod blob_name;
pub mod content_id;
pub mod directory;
pub mod index;
pub mod json;
pub mod listing;
pub mod maintenance;
pub mod manifest;
pub mod object_id;
pub mod pack;
pub mod policy;
pub mod repository;
pub mod session;
pub mod snapshot;
pub mod time;

/// Bytes that do not have the form that they should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{structure}: {why}")]
pub struct FormatError {
    /// The structure that was expected, such as "index" or "directory entry".
    pub structure: &'static str,
    /// The reason, with position or field where one is known.
    pub why: String,
}

impl FormatError {
    /// The error of `structure` for this reason.
    pub fn new(structure: &'static str, why: impl Into<String>) -> Self {
        Self { structure, why: why.into() }
    }
}
