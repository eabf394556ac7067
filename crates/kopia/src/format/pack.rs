//! Packs: preamble, contents, padding, local index, postamble (kopia: repo/content/content_index_recovery.go).

use super::FormatError;

/// The end of a pack, which says where its local index lies. Not authenticated: for recovery only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Postamble {
    /// The iv of the local index.
    pub iv: Vec<u8>,
    /// The offset of the encrypted local index in the blob.
    pub index_offset: u64,
    /// Its length.
    pub index_length: u64,
}

/// The most bytes that a postamble takes, with its length byte.
pub const MAX_POSTAMBLE: usize = 256;

impl Postamble {
    /// Finds the postamble at the end of `tail`, the last bytes of a pack.
    ///
    /// # Errors
    /// No postamble, a wrong checksum.
    pub fn parse(tail: &[u8]) -> Result<Self, FormatError> {
        todo!()
    }
    /// Writes the postamble with its length byte.
    pub fn write(&self) -> Vec<u8> {
        todo!()
    }
}
