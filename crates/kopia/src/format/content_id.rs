//! IDs of contents (kopia: repo/content/index/id.go).

use super::FormatError;

/// The longest hash, in bytes.
pub const MAX_HASH: usize = 32;

/// A keyed hash of at most [`MAX_HASH`] bytes. Compared bytewise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash {
    bytes: [u8; MAX_HASH],
    length: u8,
}

impl ContentHash {
    /// Takes 1 to 32 bytes.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        todo!()
    }
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        todo!()
    }
}

/// The ID of a content: an optional letter `g` to `z` and the hash of the bytes. Written as the letter and lowercase hex;
/// ordered as in indexes (no letter is 0x00).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentId {
    prefix: u8,
    hash: ContentHash,
}

impl ContentId {
    /// The ID of bytes with this hash below `prefix`. `None` where the prefix is no letter `g` to `z`.
    pub fn new(prefix: Option<u8>, hash: ContentHash) -> Option<Self> {
        todo!()
    }
    /// Reads the text form; upper-case hex is accepted, as kopia does.
    ///
    /// # Errors
    /// Every other text.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        todo!()
    }
    /// Reads the binary key of an index: the prefix byte and the hash.
    ///
    /// # Errors
    /// A prefix that is none, or a hash of no or too many bytes.
    pub fn from_key(key: &[u8]) -> Result<Self, FormatError> {
        todo!()
    }
    /// The prefix letter, if there is one.
    pub fn prefix(&self) -> Option<u8> {
        todo!()
    }
    /// The hash.
    pub fn hash(&self) -> &ContentHash {
        todo!()
    }
    /// Appends the binary key to `out`.
    pub fn write_key(&self, out: &mut Vec<u8>) {
        todo!()
    }
}
