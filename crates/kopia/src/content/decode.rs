//! From the bytes in a pack to the plain content. Pure.

use super::index_set::Record;
use crate::KopiaError;
use crate::compression::decompress;
use crate::crypto::Crypto;
use crate::format::content_id::ContentHash;
use bytes::{Bytes, BytesMut};
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
    let plain = open(crypto, record, stored.into())?;
    check(record, &crypto.hash(&plain))?;
    Ok(plain)
}

/// Decodes several contents as [`decode`] does: each is decrypted at its place, and their hashes are computed side by side.
pub(super) fn decode_all(crypto: &Crypto, stored: Vec<(Record, BytesMut)>) -> Vec<Result<Bytes, KopiaError>> {
    let opened: Vec<(Record, Result<Bytes, KopiaError>)> =
        stored.into_iter().map(|(record, stored)| (record, open(crypto, &record, stored))).collect();
    let plains: Vec<&[u8]> = opened.iter().filter_map(|(_, plain)| plain.as_deref().ok()).collect();
    let mut hashes = crypto.hash_all(&plains).into_iter();
    let compared = opened.into_iter().map(|(record, plain)| {
        let plain = plain?;
        // There is one for each that could be opened.
        let hash = hashes.next().unwrap_or_else(|| crypto.hash(&plain));
        check(&record, &hash)?;
        Ok(plain)
    });
    compared.collect()
}

fn damaged(record: &Record, why: impl std::fmt::Display) -> KopiaError {
    KopiaError::damaged(format!("content {}", record.id), why)
}

/// Decrypts and decompresses.
fn open(crypto: &Crypto, record: &Record, stored: BytesMut) -> Result<Bytes, KopiaError> {
    if record.key != 0 {
        return Err(KopiaError::Unsupported {
            what: format!("the encryption key {} of content {}", record.key, record.id),
        });
    }
    let plain = crypto.open_content_at_its_place(&record.id, stored).map_err(|e| damaged(record, e))?;
    let length = record.original_length as usize;
    let plain = match record.compression {
        0 => plain,
        compression => decompress(compression, &plain, length).map_err(|e| damaged(record, e))?.into(),
    };
    if plain.len() != length {
        return Err(damaged(record, format_args!("it has {} bytes, its index says {length}", plain.len())));
    }
    Ok(plain)
}

fn check(record: &Record, hash: &ContentHash) -> Result<(), KopiaError> {
    if hash != record.id.hash() {
        return Err(damaged(record, "its bytes do not have its hash"));
    }
    Ok(())
}

/// Decompresses the content of an object that is compressed as a whole (`Z`): its bytes begin with the header.
pub(crate) fn decompress_object(name: &dyn std::fmt::Display, content: &Bytes) -> Result<Bytes, KopiaError> {
    let damaged = |why: &dyn std::fmt::Display| KopiaError::damaged(format!("object Z{name}"), why);
    let header = content.first_chunk().ok_or_else(|| damaged(&"it has no header of a compression"))?;
    let plain = decompress(u32::from_be_bytes(*header), content, MAX_CONTENT as usize).map_err(|e| damaged(&e))?;
    Ok(plain.into())
}
