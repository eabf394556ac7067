//! The distribution of very many entries over several indexes.

use crate::format::content_id::ContentId;

/// The most entries of one index that is written.
pub const MAX_SHARD: usize = 16_000_000;

/// The number of indexes for so many entries.
pub fn shard_count(entries: usize) -> usize {
    entries.div_ceil(MAX_SHARD).max(1)
}

/// The index, out of `count`, to which a content belongs: FNV-1a with 32 bits of its ID as text.
pub fn shard_of(id: &ContentId, count: usize) -> usize {
    let text = id.to_string();
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash as usize % count.max(1)
}
