//! The place of a blob.

/// The place of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The pack, as a number of this index.
    pub pack: u32,
    /// The offset in the pack.
    pub offset: u32,
    /// The bytes that it takes there.
    pub length: u32,
    /// Its plain bytes.
    pub plain_length: u32,
    /// True where it is compressed.
    pub is_compressed: bool,
}

impl Location {
    /// The range of the pack.
    #[must_use]
    pub fn range(&self) -> std::ops::Range<u64> {
        let start = u64::from(self.offset);
        start..start + u64::from(self.length)
    }
}
