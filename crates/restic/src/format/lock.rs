//! Files of `locks/`: the programs at work.

use super::FormatError;
use jiff::Timestamp;
use serde::Deserialize;

/// A lock.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LockDocument {
    /// The time at which it was taken or renewed.
    pub time: Timestamp,
    /// True for one that excludes all others, as that of `restic prune`, which deletes packs.
    #[serde(default)]
    pub exclusive: bool,
    /// The host of the program.
    #[serde(default)]
    pub hostname: String,
    /// Its user.
    #[serde(default)]
    pub username: String,
    /// Its process.
    #[serde(default)]
    pub pid: i64,
}

impl LockDocument {
    /// Reads the plain file.
    ///
    /// # Errors
    /// Other JSON.
    pub fn parse(plain: &[u8]) -> Result<Self, FormatError> {
        Ok(serde_json::from_slice(plain)?)
    }
}
