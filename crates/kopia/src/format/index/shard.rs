//! The distribution of very many entries over several indexes.

use super::build::build;
use super::entry::Entry;
use crate::format::FormatError;
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

/// Writes sorted entries into as many indexes as they need, at least one.
///
/// # Errors
/// As [`build`].
pub fn build_shards(version: u8, entries: &[Entry]) -> Result<Vec<Vec<u8>>, FormatError> {
    build_some(version, entries, shard_count(entries.len()))
}

fn build_some(version: u8, entries: &[Entry], count: usize) -> Result<Vec<Vec<u8>>, FormatError> {
    if count <= 1 {
        return Ok(vec![build(version, entries)?]);
    }
    let mut shards: Vec<Vec<&Entry>> = vec![Vec::new(); count];
    for entry in entries {
        shards[shard_of(&entry.id, count)].push(entry);
    }
    shards.retain(|shard| !shard.is_empty());
    shards.iter().map(|shard| build(version, shard)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(hash: u8) -> Entry {
        Entry {
            id: ContentId::parse(&format!("{hash:02x}")).expect("an ID"),
            timestamp: 1,
            is_deleted: false,
            pack: "p1".to_owned(),
            offset: 0,
            packed_length: 29,
            original_length: 1,
            compression: 0,
            format_version: 3,
            key: 0,
        }
    }

    #[test]
    fn every_entry_is_in_one_index_and_empty_indexes_are_left_out() {
        let entries: Vec<Entry> = (0..20).map(entry).collect();
        let shards = build_some(2, &entries, 7).expect("entries that fit");
        // The number of entries in the header of each.
        let counts: Vec<u8> = shards.iter().map(|shard| shard[7]).collect();
        assert_eq!(counts.iter().sum::<u8>(), 20);
        assert!(counts.len() > 1 && !counts.contains(&0));
        assert_eq!(build_some(2, &entries[..1], 7).map(|shards| shards.len()), Ok(1));
        assert_eq!(build_shards(2, &entries), Ok(vec![build(2, &entries).expect("entries that fit")]));
    }
}
