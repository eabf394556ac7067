//! Bytes in the parts in which they came.

use super::buffers::Buffers;
use bytes::Bytes;

/// Plain bytes of a content, in the parts in which they were read: to join them would copy each byte once more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parts {
    parts: Vec<Bytes>,
    length: usize,
}

impl From<Bytes> for Parts {
    fn from(bytes: Bytes) -> Self {
        let mut parts = Self::default();
        parts.push(bytes);
        parts
    }
}

impl Parts {
    /// Adds bytes at the end.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.length += bytes.len();
            self.parts.push(bytes);
        }
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// True where there are no bytes.
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The part with this number.
    pub(super) fn get(&self, number: usize) -> Option<&[u8]> {
        self.parts.get(number).map(AsRef::as_ref)
    }

    /// The parts in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().map(AsRef::as_ref)
    }

    /// Calls a function with each part, which is free again after that.
    pub(super) fn drain(self, pieces: &Buffers, mut take: impl FnMut(&[u8])) {
        for part in self.parts {
            take(&part);
            pieces.give_bytes(part);
        }
    }

    /// Gives the parts back unused.
    pub(super) fn give_back(self, pieces: &Buffers) {
        self.drain(pieces, |_| {});
    }

    /// All bytes together, for what cannot take parts.
    pub(crate) fn joined(mut self) -> Bytes {
        match self.parts.pop() {
            None => Bytes::new(),
            Some(only) if self.parts.is_empty() => only,
            Some(last) => {
                let mut joined = Vec::with_capacity(self.length);
                for part in self.parts.into_iter().chain([last]) {
                    joined.extend_from_slice(&part);
                }
                joined.into()
            }
        }
    }
}
