//! The file `config`.

use super::FormatError;
use serde::Deserialize;

/// The parameters of a repository, as far as reading needs them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Config {
    /// The version of the format: 1, or 2 with compression.
    pub version: u32,
    /// The ID of the repository, a random number.
    pub id: String,
}

impl Config {
    /// Reads the decrypted file, which is never compressed.
    ///
    /// # Errors
    /// Other JSON.
    pub fn parse(plain: &[u8]) -> Result<Self, FormatError> {
        Ok(serde_json::from_slice(plain)?)
    }

    /// True for versions that this room reads.
    #[must_use]
    pub fn is_known(&self) -> bool {
        (1..=2).contains(&self.version)
    }
}
