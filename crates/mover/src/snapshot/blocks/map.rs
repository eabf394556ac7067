//! The blocks of a device that are read.

use crate::block_form::BLOCK;
use std::ops::Range;

/// A bit for each block of a device: set for those that are read. Of a device of 16 TiB they take 2 MiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BlockMap {
    words: Vec<u64>,
    blocks: u64,
}

/// Blocks that follow each other and are all read, or all taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BlockSpan {
    pub(super) is_read: bool,
    pub(super) blocks: Range<u64>,
}

impl BlockMap {
    /// The map of a device of which all blocks are read.
    pub(super) fn full(size: u64) -> Self {
        let mut map = Self::empty(size);
        map.mark(&(0..size));
        map
    }

    /// The map of a device of which the blocks are read that have a byte in these ranges, and a last one that is not
    /// full.
    pub(super) fn of(size: u64, ranges: &[Range<u64>]) -> Self {
        let mut map = Self::empty(size);
        for range in ranges {
            map.mark(range);
        }
        map.mark(&(size - size % BLOCK..size));
        map
    }

    fn empty(size: u64) -> Self {
        let blocks = size.div_ceil(BLOCK);
        Self { words: vec![0; usize::try_from(blocks.div_ceil(64)).unwrap_or(usize::MAX)], blocks }
    }

    fn mark(&mut self, bytes: &Range<u64>) {
        if bytes.is_empty() {
            return;
        }
        for block in bytes.start / BLOCK..bytes.end.div_ceil(BLOCK).min(self.blocks) {
            if let Some(word) = usize::try_from(block / 64).ok().and_then(|at| self.words.get_mut(at)) {
                *word |= 1 << (block % 64);
            }
        }
    }

    fn is_read(&self, block: u64) -> bool {
        let word = usize::try_from(block / 64).ok().and_then(|at| self.words.get(at));
        word.is_some_and(|word| word >> (block % 64) & 1 == 1)
    }

    /// Gives all blocks in their order.
    pub(super) fn spans(&self) -> impl Iterator<Item = BlockSpan> + Send {
        let mut next = 0;
        std::iter::from_fn(move || {
            let start = next;
            let is_read = self.is_read(start);
            while next < self.blocks && self.is_read(next) == is_read {
                next += 1;
            }
            (start < next).then_some(BlockSpan { is_read, blocks: start..next })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(map: &BlockMap) -> Vec<(bool, u64, u64)> {
        map.spans().map(|span| (span.is_read, span.blocks.start, span.blocks.end)).collect()
    }

    #[test]
    fn a_block_with_one_changed_byte_is_read_and_so_is_a_short_last_one() {
        let mib = |count: u64| count * BLOCK;
        let map = BlockMap::of(mib(200), &[mib(70) - 1..mib(70) + 1, mib(199)..mib(200), 5..5, mib(71)..mib(71)]);
        assert_eq!(spans(&map), [(false, 0, 69), (true, 69, 71), (false, 71, 199), (true, 199, 200)]);
        assert_eq!(spans(&BlockMap::of(mib(3), &[])), [(false, 0, 3)]);
        assert_eq!(spans(&BlockMap::of(mib(3) + 1, &[])), [(false, 0, 3), (true, 3, 4)]);
        assert_eq!(spans(&BlockMap::full(mib(130) + 7)), [(true, 0, 131)]);
        assert_eq!(spans(&BlockMap::full(1)), [(true, 0, 1)]);
    }
}
