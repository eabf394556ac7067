//! From the bytes in a pack to the plain content. Pure.

use super::index_set::Record;
use crate::KopiaError;
use crate::compression::decompress;
use crate::crypto::Crypto;
use bytes::Bytes;
use std::ops::Range;

/// The most bytes of a content, packed or plain: what an index can tell.
const MAX_CONTENT: u32 = 1 << 28;

/// The range of a content in its pack.
pub(super) fn range(record: &Record) -> Result<Range<u64>, KopiaError> {
    let damaged = |why: String| KopiaError::damaged(format!("the index entry of content {}", record.id), why);
    if record.packed_length == 0 || record.packed_length >= MAX_CONTENT || record.original_length >= MAX_CONTENT {
        let (packed, original) = (record.packed_length, record.original_length);
        return Err(damaged(format!("{packed} bytes in the pack, {original} plain, is not possible")));
    }
    let start = u64::from(record.offset);
    Ok(start..start + u64::from(record.packed_length))
}

/// Decrypts and decompresses the bytes of a pack, and compares length and hash: what comes out is what was put in.
pub(crate) fn decode(crypto: &Crypto, record: &Record, stored: &[u8]) -> Result<Bytes, KopiaError> {
    let damaged = |why: &dyn std::fmt::Display| KopiaError::damaged(format!("content {}", record.id), why);
    if record.key != 0 {
        return Err(KopiaError::Unsupported {
            what: format!("the encryption key {} of content {}", record.key, record.id),
        });
    }
    let mut plain = crypto.open_content(&record.id, stored).map_err(|e| damaged(&e))?;
    let length = record.original_length as usize;
    if record.compression != 0 {
        plain = decompress(record.compression, &plain, length).map_err(|e| damaged(&e))?;
    }
    if plain.len() != length {
        return Err(damaged(&format_args!("it has {} bytes, its index says {length}", plain.len())));
    }
    if crypto.hash(&plain) != *record.id.hash() {
        return Err(damaged(&"its bytes do not have its hash"));
    }
    Ok(plain.into())
}

/// Decompresses the content of an object that is compressed as a whole (`Z`): its bytes begin with the header.
pub(crate) fn decompress_object(name: &dyn std::fmt::Display, content: &Bytes) -> Result<Bytes, KopiaError> {
    let damaged = |why: &dyn std::fmt::Display| KopiaError::damaged(format!("object Z{name}"), why);
    let header = content.first_chunk().ok_or_else(|| damaged(&"it has no header of a compression"))?;
    let plain = decompress(u32::from_be_bytes(*header), content, MAX_CONTENT as usize).map_err(|e| damaged(&e))?;
    Ok(plain.into())
}
