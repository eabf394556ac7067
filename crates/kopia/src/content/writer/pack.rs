//! A pack in the making. Pure.

use super::entry::Pending;
use crate::KopiaError;
use crate::crypto::Crypto;
use crate::crypto::aead::NONCE_LENGTH;
use crate::format::FormatError;
use crate::format::content_id::ContentId;
use crate::format::index::{Entry, build};
use crate::format::pack::{PREAMBLE, Postamble, padding};
use crate::options::{Random, random_bytes};
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The random bytes after the index in a pack, which make its hash unique.
const UNIQUE: usize = 32;

/// A pack to which contents are added.
///
/// It lies in one buffer. Short contents are copied to its end. For a long one a region is split off, into which a thread
/// encrypts it while others work on regions of their own; at the end all come together again without a copy.
pub(super) struct OpenPack {
    pub(super) name: Arc<str>,
    /// The parts before the end, each with its offset.
    parts: Vec<(usize, Part)>,
    end_at: usize,
    /// The bytes at the end, and the rest of the buffer.
    end: BytesMut,
    /// The entries that were made while it was open. Deletions among them may point into other packs.
    pub(super) entries: BTreeMap<ContentId, Pending>,
}

enum Part {
    Filled(BytesMut),
    Filling(oneshot::Receiver<BytesMut>),
}

/// The region of a content in an open pack.
#[derive(Debug)]
pub(super) struct Region {
    /// Has room for the content.
    pub(super) bytes: BytesMut,
    to: oneshot::Sender<BytesMut>,
}

impl Region {
    /// Gives the region back to its pack.
    pub(super) fn end(self) {
        // The writer may be gone.
        let _ = self.to.send(self.bytes);
    }
}

impl OpenPack {
    /// Begins a pack behind the replica of the format, where it has one.
    pub(super) fn begin(name: Arc<str>, mut bytes: Vec<u8>, random: &Random) -> Self {
        bytes.extend_from_slice(&random_bytes::<PREAMBLE>(random));
        let end = BytesMut::from(Bytes::from(bytes));
        Self { name, parts: Vec::new(), end_at: 0, end, entries: BTreeMap::new() }
    }

    /// The bytes so far.
    pub(super) fn len(&self) -> u64 {
        (self.end_at + self.end.len()) as u64
    }

    /// The bytes of a content in it.
    pub(super) fn stored(&mut self, entry: &Pending) -> Option<Bytes> {
        let offset = entry.offset as usize;
        let (at, part) = match self.parts.partition_point(|(at, _)| *at <= offset).checked_sub(1) {
            Some(number) if offset < self.end_at => self.parts.get_mut(number).map(|(at, part)| (*at, part))?,
            _ => {
                let stored = self.end.get(offset.checked_sub(self.end_at)?..)?.get(..entry.packed_length as usize)?;
                return Some(Bytes::copy_from_slice(stored));
            }
        };
        if let Part::Filling(filling) = part {
            // Whoever knows of the content has waited until it was there.
            *part = Part::Filled(filling.try_recv().ok()?);
        }
        let Part::Filled(bytes) = part else { return None };
        let stored = bytes.get(offset - at..)?.get(..entry.packed_length as usize)?;
        Some(Bytes::copy_from_slice(stored))
    }

    /// Adds a content at the end.
    pub(super) fn push(&mut self, id: ContentId, entry: Pending, stored: &[u8]) {
        self.end.extend_from_slice(stored);
        self.entries.insert(id, entry);
    }

    /// Splits off a region for a content, which is to have `entry.packed_length` bytes.
    pub(super) fn split(&mut self, id: ContentId, entry: Pending) -> Region {
        let length = entry.packed_length as usize;
        self.entries.insert(id, entry);
        let free = self.end.split_off(self.end.len());
        let written = std::mem::replace(&mut self.end, free);
        if !written.is_empty() {
            let at = self.end_at;
            self.end_at += written.len();
            self.parts.push((at, Part::Filled(written)));
        }
        let bytes = if self.end.capacity() < length {
            // It is joined by copying then.
            BytesMut::with_capacity(length)
        } else {
            let free = self.end.split_off(length);
            std::mem::replace(&mut self.end, free)
        };
        let (to, filling) = oneshot::channel();
        self.parts.push((self.end_at, Part::Filling(filling)));
        self.end_at += length;
        Region { bytes, to }
    }

    /// Waits until all regions are filled, and joins them.
    pub(super) async fn join(self) -> Result<JoinedPack, KopiaError> {
        let Self { parts, end, entries, .. } = self;
        let mut bytes = BytesMut::new();
        for (_, part) in parts {
            bytes.unsplit(match part {
                Part::Filled(part) => part,
                // The task that was to fill it has told its failure.
                Part::Filling(filling) => filling.await.map_err(|_| KopiaError::Cancelled)?,
            });
        }
        bytes.unsplit(end);
        Ok(JoinedPack { bytes, entries })
    }
}

/// A pack whose contents are all there.
pub(super) struct JoinedPack {
    bytes: BytesMut,
    entries: BTreeMap<ContentId, Pending>,
}

impl JoinedPack {
    /// The bytes to be put, with padding, the index of the entries, and where that is.
    pub(super) fn finish(self, index_version: u8, crypto: &Crypto, random: &Random) -> Result<Bytes, FormatError> {
        let Self { mut bytes, entries } = self;
        let entries: Vec<Entry> = entries.iter().map(|(id, entry)| entry.entry(id)).collect();
        let mut index = build(index_version, &entries)?;
        index.extend_from_slice(&random_bytes::<UNIQUE>(random));
        let hash = crypto.hash(&index);
        let stored = crypto.seal_local_index(&hash, &index, random_bytes::<NONCE_LENGTH>(random))?;
        let end = bytes.len();
        bytes.resize(end + padding(end as u64), 0);
        if let Some(padding) = bytes.get_mut(end..) {
            random(padding);
        }
        let postamble = Postamble {
            iv: hash.as_bytes().to_vec(),
            index_offset: bytes.len() as u64,
            index_length: stored.len() as u64,
        };
        bytes.extend_from_slice(&stored);
        bytes.extend_from_slice(&postamble.write());
        Ok(bytes.freeze())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::testing::{noise, seeded};

    fn id(number: u8) -> ContentId {
        ContentId::parse(&format!("{number:032x}")).unwrap()
    }

    fn entry(pack: &OpenPack, length: usize) -> Pending {
        Pending {
            timestamp: 1,
            is_deleted: false,
            pack: pack.name.clone(),
            offset: u32::try_from(pack.len()).unwrap(),
            packed_length: u32::try_from(length).unwrap(),
            original_length: 1,
            compression: 0,
            format_version: 3,
            key: 0,
        }
    }

    /// Contents of which those with even numbers are filled by threads, the last first, in a buffer of so many bytes.
    async fn filled(buffer: usize) {
        let mut pack = OpenPack::begin("p1".into(), Vec::with_capacity(buffer), &seeded(1));
        let contents: Vec<Vec<u8>> = (0..9).map(|seed| noise(seed, 1000 + 100 * seed as usize)).collect();
        let (mut entries, mut regions) = (Vec::new(), Vec::new());
        for (number, bytes) in (0..).zip(&contents) {
            let entry = entry(&pack, bytes.len());
            if number % 2 == 0 {
                regions.push((pack.split(id(number), entry.clone()), bytes));
            } else {
                pack.push(id(number), entry.clone(), bytes);
            }
            entries.push(entry);
        }
        assert_eq!(pack.stored(&entries[2]), None);
        for (mut region, bytes) in regions.into_iter().rev() {
            region.bytes.extend_from_slice(bytes);
            region.end();
        }
        for (entry, bytes) in entries.iter().zip(&contents) {
            assert_eq!(pack.stored(entry).unwrap(), bytes);
        }
        let length = usize::try_from(pack.len()).unwrap();
        let joined = pack.join().await.unwrap();
        assert_eq!(joined.bytes.len(), length);
        for (entry, bytes) in entries.iter().zip(&contents) {
            assert_eq!(joined.bytes[entry.offset as usize..][..bytes.len()], bytes[..]);
        }
    }

    #[tokio::test]
    async fn a_pack_holds_its_contents_however_its_regions_are_filled() {
        filled(64 << 10).await;
    }

    #[tokio::test]
    async fn a_pack_whose_buffer_is_too_short_holds_its_contents_all_the_same() {
        for buffer in [0, 1500, 3000, 5000] {
            filled(buffer).await;
        }
    }

    #[tokio::test]
    async fn a_pack_with_a_region_that_nobody_filled_is_not_put() {
        let mut pack = OpenPack::begin("p1".into(), Vec::new(), &seeded(1));
        let entry = entry(&pack, 10);
        drop(pack.split(id(1), entry));
        assert!(matches!(pack.join().await.err(), Some(KopiaError::Cancelled)));
    }
}
