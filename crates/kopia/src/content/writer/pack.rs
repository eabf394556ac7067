//! A pack in the making. Pure.

use super::entry::Pending;
use crate::crypto::Crypto;
use crate::crypto::aead::NONCE_LENGTH;
use crate::format::FormatError;
use crate::format::content_id::ContentId;
use crate::format::index::{Entry, build};
use crate::format::pack::{PREAMBLE, Postamble, padding};
use crate::options::{Random, random_bytes};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// The random bytes after the index in a pack, which make its hash unique.
const UNIQUE: usize = 32;

/// The bytes that one permit of the memory stands for.
pub(super) const UNIT: u64 = 1 << 10;

/// A pack to which contents are added.
pub(super) struct OpenPack {
    pub(super) name: Arc<str>,
    bytes: Vec<u8>,
    /// The entries that were made while it was open. Deletions among them may point into other packs.
    pub(super) entries: BTreeMap<ContentId, Pending>,
    /// The memory of its bytes.
    memory: Option<OwnedSemaphorePermit>,
}

/// A pack to be put.
pub(super) struct FinishedPack {
    pub(super) name: Arc<str>,
    pub(super) bytes: Bytes,
    pub(super) memory: Option<OwnedSemaphorePermit>,
}

impl OpenPack {
    /// Begins a pack behind the replica of the format, where it has one.
    pub(super) fn begin(name: Arc<str>, mut bytes: Vec<u8>, random: &Random) -> Self {
        bytes.extend_from_slice(&random_bytes::<PREAMBLE>(random));
        Self { name, bytes, entries: BTreeMap::new(), memory: None }
    }

    /// The bytes so far.
    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The bytes of a content in it.
    pub(super) fn stored(&self, entry: &Pending) -> Option<&[u8]> {
        self.bytes.get(entry.offset as usize..)?.get(..entry.packed_length as usize)
    }

    /// Adds a content at the end.
    pub(super) fn push(&mut self, id: ContentId, entry: Pending, stored: &[u8], memory: Option<OwnedSemaphorePermit>) {
        self.bytes.extend_from_slice(stored);
        self.entries.insert(id, entry);
        match (&mut self.memory, memory) {
            (Some(all), Some(more)) => all.merge(more),
            (all @ None, more) => *all = more,
            (Some(_), None) => {}
        }
        // What a content took beyond its stored bytes, and the rounding of each, goes back.
        let needed = usize::try_from(self.len() / UNIT + 1).unwrap_or(usize::MAX);
        if let Some(all) = &mut self.memory {
            drop(all.split(all.num_permits().saturating_sub(needed)));
        }
    }

    /// Adds padding, the index of its entries, and where that is.
    pub(super) fn finish(
        self,
        index_version: u8,
        crypto: &Crypto,
        random: &Random,
    ) -> Result<FinishedPack, FormatError> {
        let Self { name, mut bytes, entries, memory } = self;
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
        Ok(FinishedPack { name, bytes: bytes.into(), memory })
    }
}
