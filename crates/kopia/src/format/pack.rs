//! Packs: preamble, contents, padding, local index, postamble (kopia: repo/content/content_index_recovery.go).

use super::FormatError;
use super::content_id::MAX_HASH;

const STRUCTURE: &str = "pack postamble";
const VERSION: u64 = 1;

/// The end of a pack, which says where its local index lies. Not authenticated: for recovery only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Postamble {
    /// The iv of the local index.
    pub iv: Vec<u8>,
    /// The offset of the encrypted local index in the blob.
    pub index_offset: u64,
    /// Its length.
    pub index_length: u64,
}

/// The most bytes that a postamble takes, with its length byte.
pub const MAX_POSTAMBLE: usize = 256;

impl Postamble {
    /// Finds the postamble at the end of `tail`, the last bytes of a pack.
    ///
    /// # Errors
    /// No postamble, a wrong checksum.
    pub fn parse(tail: &[u8]) -> Result<Self, FormatError> {
        let bad = |why: &str| FormatError::new(STRUCTURE, why);
        let (length, rest) = tail.split_last().ok_or_else(|| bad("it is empty"))?;
        let start = rest.len().checked_sub(usize::from(*length));
        let body = start.and_then(|start| rest.get(start..)).ok_or_else(|| bad("it is cut off"))?;
        let (body, checksum) = body.split_last_chunk::<4>().ok_or_else(|| bad("it is too short"))?;
        if crc32fast::hash(body) != u32::from_be_bytes(*checksum) {
            return Err(bad("its checksum is wrong"));
        }
        let mut rest = body;
        let mut number = || read_uvarint(&mut rest).ok_or_else(|| bad("it is cut off"));
        if number()? != VERSION {
            return Err(bad("its version is not known"));
        }
        let iv_length = number()?;
        let iv_length = usize::try_from(iv_length)
            .ok()
            .filter(|length| *length <= MAX_HASH)
            .ok_or_else(|| bad("its iv is too long"))?;
        let (iv, mut rest) = rest.split_at_checked(iv_length).ok_or_else(|| bad("it is cut off"))?;
        let mut number = || read_uvarint(&mut rest).ok_or_else(|| bad("it is cut off"));
        Ok(Self { iv: iv.to_vec(), index_offset: number()?, index_length: number()? })
    }
    /// Writes the postamble with its length byte.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(MAX_POSTAMBLE);
        write_uvarint(&mut out, VERSION);
        write_uvarint(&mut out, self.iv.len() as u64);
        out.extend_from_slice(&self.iv);
        write_uvarint(&mut out, self.index_offset);
        write_uvarint(&mut out, self.index_length);
        let checksum = crc32fast::hash(&out);
        out.extend_from_slice(&checksum.to_be_bytes());
        // An iv has at most 32 bytes and a number at most 10, so that the length fits.
        out.push(u8::try_from(out.len()).unwrap_or(u8::MAX));
        out
    }
}

fn read_uvarint(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn write_uvarint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
