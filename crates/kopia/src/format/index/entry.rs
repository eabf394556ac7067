//! An entry of an index, and the source from which an index is read.

use crate::format::content_id::ContentId;

/// The name of the structure in errors.
pub(super) const STRUCTURE: &str = "index";

/// A content as an index tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The content.
    pub id: ContentId,
    /// Unix seconds at which the entry was written.
    pub timestamp: u64,
    /// True where the content was deleted at that time.
    pub is_deleted: bool,
    /// The blob that holds the bytes.
    pub pack: String,
    /// The offset of the bytes in the pack.
    pub offset: u32,
    /// The length of the bytes in the pack, encrypted and with error correction.
    pub packed_length: u32,
    /// The length of the plain bytes.
    pub original_length: u32,
    /// The header ID of the compression, 0 for none.
    pub compression: u32,
    /// The format version of the repository at that time.
    pub format_version: u8,
    /// The encryption key; anything but 0 cannot be read.
    pub key: u8,
}

impl Entry {
    /// True where `self` counts and not `other`: later, else live, else the larger pack name. A full tie keeps the first.
    pub fn wins_over(&self, other: &Entry) -> bool {
        let rank = |entry: &Entry| (entry.timestamp, !entry.is_deleted);
        (rank(self), self.pack.as_str()) > (rank(other), other.pack.as_str())
    }
}

/// A source of bytes that is read at random: memory in tests, a scratch file in a repository.
pub trait ReadAt {
    /// The number of bytes.
    fn size(&self) -> u64;
    /// Reads exactly `into.len()` bytes at `offset`.
    ///
    /// # Errors
    /// The errors of the source; a read beyond the end.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()>;
}

impl ReadAt for &[u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }
    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
        let part = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.get(offset..)?.get(..into.len()))
            .ok_or(std::io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(part);
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }
    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
        self.as_slice().read_at(offset, into)
    }
}

impl ReadAt for bytes::Bytes {
    fn size(&self) -> u64 {
        self.len() as u64
    }
    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
        self.as_ref().read_at(offset, into)
    }
}
