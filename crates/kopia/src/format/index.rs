//! Indexes: where contents lie (kopia: repo/content/index/index_v1.go, index_v2.go, index_builder.go).
//!
//! An index is a sorted table of fixed-size records. Readers never load it as a whole: [`IndexHeader`] is read from the
//! first bytes, then records are read by number from any source of bytes.

use super::FormatError;
use super::content_id::ContentId;

/// One content as an index tells it.
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
        todo!()
    }
}

/// A source of bytes that is read at random: memory in tests, a scratch file in a repository.
pub trait ReadAt {
    /// The number of bytes.
    fn size(&self) -> u64;
    /// Reads exactly `into.len()` bytes at `offset`.
    ///
    /// # Errors
    /// Those of the source; a read beyond the end.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()>;
}

/// An index of version 1 or 2, read by record.
#[derive(Debug)]
pub struct Index<R> {
    source: R,
}

impl<R: ReadAt> Index<R> {
    /// Reads the header and checks that all tables lie inside the source. Trailing bytes are accepted.
    ///
    /// # Errors
    /// What is no index. The repository's `overhead` of its cipher is needed by version 1, which has no original length.
    pub fn open(source: R, overhead: u32) -> Result<Self, FormatError> {
        todo!()
    }
    /// The number of entries.
    pub fn len(&self) -> u64 {
        todo!()
    }
    /// Reads the entry with this number, in the order of IDs. A pack or format number that does not exist damages this
    /// entry alone.
    ///
    /// # Errors
    /// A record that is damaged, or a source that fails.
    pub fn entry(&self, number: u64) -> Result<Entry, FormatError> {
        todo!()
    }
    /// Finds an entry by halving. An ID of another hash length is not there.
    ///
    /// # Errors
    /// As [`Index::entry`].
    pub fn find(&self, id: &ContentId) -> Result<Option<Entry>, FormatError> {
        todo!()
    }
}

/// Writes an index of version 1 or 2 from sorted entries with one key length.
///
/// # Errors
/// Entries out of order or twice, lengths from 2^28, offsets from 2^30, times beyond 32 bits, compression in version 1.
pub fn build(version: u8, entries: &[Entry]) -> Result<Vec<u8>, FormatError> {
    todo!()
}
