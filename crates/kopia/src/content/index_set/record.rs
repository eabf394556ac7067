//! Records of fixed size in which entries of indexes lie sorted on scratch.

use crate::format::content_id::{ContentId, MAX_HASH};
use crate::format::index::Entry;
use std::cmp::Ordering;

/// The bytes of a record after its key.
const VALUE: usize = 29;

/// An entry whose pack is a number of the table of packs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) id: ContentId,
    pub(crate) timestamp: u64,
    pub(crate) is_deleted: bool,
    pub(crate) pack: u32,
    pub(crate) offset: u32,
    pub(crate) packed_length: u32,
    pub(crate) original_length: u32,
    pub(crate) compression: u32,
    pub(crate) format_version: u8,
    pub(crate) key: u8,
}

impl Record {
    pub(crate) fn new(entry: &Entry, pack: u32) -> Self {
        Self {
            id: entry.id,
            timestamp: entry.timestamp,
            is_deleted: entry.is_deleted,
            pack,
            offset: entry.offset,
            packed_length: entry.packed_length,
            original_length: entry.original_length,
            compression: entry.compression,
            format_version: entry.format_version,
            key: entry.key,
        }
    }

    pub(crate) fn into_entry(self, pack: String) -> Entry {
        Entry {
            id: self.id,
            timestamp: self.timestamp,
            is_deleted: self.is_deleted,
            pack,
            offset: self.offset,
            packed_length: self.packed_length,
            original_length: self.original_length,
            compression: self.compression,
            format_version: self.format_version,
            key: self.key,
        }
    }
}

/// The form of the records of one set: keys padded with zeros to the hash length of the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    hash_length: usize,
}

impl Form {
    /// The form for hashes of at most so many bytes.
    pub(crate) fn new(hash_length: usize) -> Self {
        Self { hash_length: hash_length.clamp(1, MAX_HASH) }
    }

    /// The bytes of a key: prefix, hash, length of the hash.
    pub(crate) fn key_size(self) -> usize {
        self.hash_length + 2
    }

    /// The bytes of a record.
    pub(crate) fn size(self) -> usize {
        self.key_size() + VALUE
    }

    /// Appends the key of an ID, which is ordered as IDs are. False where its hash is longer than those of this set.
    pub(crate) fn write_key(self, id: &ContentId, out: &mut Vec<u8>) -> bool {
        let hash = id.hash().as_bytes();
        if hash.len() > self.hash_length {
            return false;
        }
        out.push(id.prefix().unwrap_or(0));
        out.extend_from_slice(hash);
        out.resize(out.len() + self.hash_length - hash.len(), 0);
        // At most 32.
        out.push(u8::try_from(hash.len()).unwrap_or(u8::MAX));
        true
    }

    /// Appends a record. False where its ID is longer than those of this set.
    pub(crate) fn write(self, record: &Record, out: &mut Vec<u8>) -> bool {
        if !self.write_key(&record.id, out) {
            return false;
        }
        out.extend_from_slice(&record.timestamp.to_be_bytes()[2..]);
        out.extend_from_slice(&(record.offset | (u32::from(record.is_deleted) << 31)).to_be_bytes());
        for number in [record.packed_length, record.original_length, record.pack, record.compression] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(&[record.format_version, record.key, 0]);
        true
    }

    /// Reads a record that [`Form::write`] has written. `None` of other bytes.
    pub(crate) fn read(self, bytes: &[u8]) -> Option<Record> {
        let (key, value) = bytes.split_at_checked(self.key_size())?;
        let length = usize::from(*key.last()?);
        let mut id = [0; MAX_HASH + 1];
        let id = id.get_mut(..=length)?;
        id.copy_from_slice(key.get(..=length)?);
        let (time, value) = value.split_first_chunk::<6>()?;
        let mut timestamp = [0; 8];
        timestamp[2..].copy_from_slice(time);
        let mut numbers = value.chunks_exact(4).map(|number| number.try_into().map(u32::from_be_bytes));
        let mut number = || numbers.next()?.ok();
        let offset = number()?;
        Some(Record {
            id: ContentId::from_key(id).ok()?,
            timestamp: u64::from_be_bytes(timestamp),
            is_deleted: offset >> 31 != 0,
            offset: offset & (u32::MAX >> 1),
            packed_length: number()?,
            original_length: number()?,
            pack: number()?,
            compression: number()?,
            format_version: *value.get(20)?,
            key: *value.get(21)?,
        })
    }
}

/// Orders two records of one content so that the one that counts is the first: later, else live, else the larger name of
/// the pack. What is left over is ordered by place, so that it is the same in every run.
pub(crate) fn by_weight(a: &Record, b: &Record, packs: &super::packs::PackTable) -> Ordering {
    let time = b.timestamp.cmp(&a.timestamp);
    let live = a.is_deleted.cmp(&b.is_deleted);
    let pack = || if a.pack == b.pack { Ordering::Equal } else { packs.name(b.pack).cmp(&packs.name(a.pack)) };
    let place = (b.offset, b.packed_length).cmp(&(a.offset, a.packed_length));
    time.then(live).then_with(pack).then(place)
}
