//! The shares of the memory of a writer: packs that are put, one that is filled, and contents. Pure.

use crate::format::repository::RepositoryFormat;
use crate::options::WriteOptions;
use crate::splitter::SplitterAlgorithm;

/// The bytes beyond the size of a pack and its last content that its index and padding mostly need.
const SLACK: usize = 1 << 20;

/// The shares of the memory of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shares {
    /// The packs that are put at once.
    pub(super) packs: usize,
    /// The bytes of contents that are not in a pack yet.
    pub(super) contents: u64,
}

/// The most bytes of two chunks of every splitter.
const TWO_CHUNKS: u64 = 32 << 20;

impl Shares {
    /// Half of the memory is for packs that are put. Of the rest one pack is filled.
    pub(super) fn of(options: &WriteOptions, format: &RepositoryFormat) -> Self {
        let pack = format.max_pack_size.max(1);
        let packs = (options.memory / 2 / pack).clamp(1, options.uploads.max(1) as u64);
        let contents = options.memory.saturating_sub((packs + 1).saturating_mul(pack)).max(TWO_CHUNKS);
        Self { packs: usize::try_from(packs).unwrap_or(1), contents }
    }
}

/// The length of the buffer of a pack. One of 32 MiB and more the allocator gives back to the system when it is freed, and
/// draws no conclusions for others from it. What is not written takes no memory.
pub(super) fn pack_buffer(format: &RepositoryFormat) -> usize {
    let longest = SplitterAlgorithm::parse(&format.splitter).map_or(0, |splitter| splitter.max_chunk());
    let most = format.max_pack_size.saturating_add(longest.into());
    usize::try_from(most).unwrap_or(0).saturating_add(SLACK).max(32 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    #[test]
    fn memory_is_shared_by_packs_that_are_put_one_that_is_filled_and_contents() {
        let shares = |memory: u64, pack: u64, uploads| {
            let fixture = Fixture::usual().with_packs(pack << 20);
            let options = WriteOptions { memory: memory << 20, uploads, ..fixture.write_options(1) };
            let Shares { packs, contents } = Shares::of(&options, fixture.format());
            (packs, contents >> 20)
        };
        assert_eq!(shares(96, 20, 8), (2, 36));
        assert_eq!(shares(144, 20, 8), (3, 64));
        assert_eq!(shares(144, 20, 2), (2, 84));
        // Two of the longest chunks have room in any case.
        assert_eq!([shares(0, 20, 8), shares(32, 20, 0), shares(96, 120, 8)], [(1, 32); 3]);
    }
}
