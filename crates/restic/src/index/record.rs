//! A blob of the index as bytes that can be sorted.

use super::location::Location;
use crate::Id;

/// The bytes of a record.
pub(super) const SIZE: usize = 48;

/// A blob and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BlobRecord {
    pub(super) id: Id,
    pub(super) location: Location,
}

/// The bucket of an ID.
pub(super) fn bucket(id: &Id) -> usize {
    let [high, low, ..] = id.0;
    usize::from(u16::from_be_bytes([high, low]))
}

impl BlobRecord {
    /// Writes it. The plain length of a blob that is not compressed follows from its length.
    pub(super) fn bytes(&self) -> [u8; SIZE] {
        let Location { pack, offset, length, plain_length, is_compressed } = self.location;
        let mut bytes = [0; SIZE];
        let (id, numbers) = bytes.split_at_mut(32);
        id.copy_from_slice(&self.id.0);
        let values = [pack, offset, length, if is_compressed { plain_length } else { 0 }];
        for (place, value) in numbers.chunks_exact_mut(4).zip(values) {
            place.copy_from_slice(&value.to_be_bytes());
        }
        bytes
    }

    /// Reads what [`BlobRecord::bytes`] has written.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (id, rest) = bytes.split_first_chunk::<32>()?;
        let number = |index: usize| {
            let bytes = rest.get(index * 4..index * 4 + 4)?;
            Some(u32::from_be_bytes(bytes.try_into().ok()?))
        };
        let (length, compressed) = (number(2)?, number(3)?);
        let plain_length =
            if compressed == 0 { length.checked_sub(crate::crypto::OVERHEAD as u32)? } else { compressed };
        let location =
            Location { pack: number(0)?, offset: number(1)?, length, plain_length, is_compressed: compressed != 0 };
        Some(Self { id: Id(*id), location })
    }
}
