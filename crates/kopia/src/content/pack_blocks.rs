//! Blocks of metadata packs: directories lie beside each other, and are a kilobyte each.

use crate::KopiaError;
use crate::blobs::Blobs;
use bytes::{Bytes, BytesMut};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;

/// The bytes of a block.
const BLOCK: u64 = 1 << 20;

/// Encrypted blocks that were read last, up to a number of bytes. Who wants a block that somebody reads already waits for it.
#[derive(Debug)]
pub(super) struct PackBlocks {
    limit: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    blocks: HashMap<(u32, u64), Arc<OnceCell<Bytes>>>,
    order: VecDeque<(u32, u64)>,
}

/// A range of a pack whose bytes up to `known_end` are there, as far as the indexes say.
pub(super) struct PackRange<'a> {
    pub(super) pack: u32,
    pub(super) name: &'a str,
    pub(super) range: Range<u64>,
    pub(super) known_end: u64,
}

impl PackBlocks {
    /// Keeps blocks up to so many bytes; none where that is less than a few blocks.
    pub(super) fn new(limit: u64) -> Self {
        Self { limit: usize::try_from(limit / BLOCK).unwrap_or(usize::MAX), kept: Mutex::default() }
    }

    /// Reads a range through blocks. `None` where a range of its own is better: it is long, or the pack is not as it should be.
    pub(super) async fn read(&self, blobs: &Blobs, wanted: &PackRange<'_>) -> Result<Option<Bytes>, KopiaError> {
        let range = &wanted.range;
        if self.limit < 4 || range.end - range.start > BLOCK / 2 || range.end > wanted.known_end {
            return Ok(None);
        }
        let mut joined = BytesMut::new();
        let (first, last) = (range.start / BLOCK, (range.end - 1) / BLOCK);
        for block in first..=last {
            let cell = self.block(wanted.pack, block);
            let start = block * BLOCK;
            let end = (start + BLOCK).min(wanted.known_end);
            let bytes = match cell.get_or_try_init(|| blobs.read_range(wanted.name, start..end)).await {
                Ok(bytes) => bytes,
                // A pack that is cut off has perhaps what is wanted.
                Err(KopiaError::Damaged { .. }) => return Ok(None),
                Err(e) => return Err(e),
            };
            let at = |offset: u64| usize::try_from(offset.clamp(start, start + BLOCK) - start).unwrap_or(usize::MAX);
            // A block that was read when the indexes knew less of the pack may be shorter.
            let Some(part) = bytes.get(at(range.start)..at(range.end)) else { return Ok(None) };
            if first == last {
                return Ok(Some(bytes.slice_ref(part)));
            }
            joined.extend_from_slice(part);
        }
        Ok(Some(joined.freeze()))
    }

    fn block(&self, pack: u32, block: u64) -> Arc<OnceCell<Bytes>> {
        let key = (pack, block);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cell) = kept.blocks.get(&key) {
            return cell.clone();
        }
        while kept.blocks.len() >= self.limit
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.blocks.remove(&oldest);
        }
        kept.order.push_back(key);
        kept.blocks.entry(key).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_bucket::{BlobStore, Memory, PutOptions};

    async fn pack() -> (Blobs, Vec<u8>) {
        let whole: Vec<u8> = (0..3_000_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        let store = Memory::default();
        store.put("q1", whole.clone().into(), PutOptions::default()).await.unwrap();
        (Blobs::open(Arc::new(store)).await.unwrap(), whole)
    }

    fn wanted(range: Range<u64>, known_end: u64) -> PackRange<'static> {
        PackRange { pack: 1, name: "q1", range, known_end }
    }

    #[tokio::test]
    async fn a_range_comes_from_one_block_or_two() {
        let (blobs, whole) = pack().await;
        let blocks = PackBlocks::new(8 * BLOCK);
        for (start, end) in [(0, 100), (BLOCK - 50, BLOCK + 50), (BLOCK, BLOCK + 1), (2_999_900, 3_000_000)] {
            let found = blocks.read(&blobs, &wanted(start..end, 3_000_000)).await.unwrap().unwrap();
            assert!(found == whole[usize::try_from(start).unwrap()..usize::try_from(end).unwrap()], "{start}");
        }
        blobs.delete(&["q1".to_owned()]).await.unwrap();
        assert!(blocks.read(&blobs, &wanted(200..300, 3_000_000)).await.unwrap().is_some(), "it is kept");
    }

    #[tokio::test]
    async fn what_blocks_do_not_help_is_left_to_a_range_of_its_own() {
        let (blobs, _) = pack().await;
        let blocks = PackBlocks::new(8 * BLOCK);
        for (range, known_end) in [(0..BLOCK, 3_000_000), (10..20, 15), (2_900_000..2_900_001, 4_000_000)] {
            assert_eq!(blocks.read(&blobs, &wanted(range, known_end)).await.unwrap(), None);
        }
        // The block was read up to where the pack was known to reach.
        assert!(blocks.read(&blobs, &wanted(0..10, 100)).await.unwrap().is_some());
        assert_eq!(blocks.read(&blobs, &wanted(95..105, 200)).await.unwrap(), None);
        assert_eq!(PackBlocks::new(3 * BLOCK).read(&blobs, &wanted(0..10, 100)).await.unwrap(), None);
    }

    #[tokio::test]
    async fn the_oldest_blocks_go() {
        let (blobs, _) = pack().await;
        let blocks = PackBlocks::new(4 * BLOCK);
        for pack in 0..6 {
            let range = PackRange { pack, ..wanted(0..10, 3_000_000) };
            blocks.read(&blobs, &range).await.unwrap();
        }
        let kept = blocks.kept.lock().unwrap();
        assert_eq!((kept.blocks.len(), kept.order.len(), kept.order[0]), (4, 4, (2, 0)));
    }
}
