//! Indexes of packs, read from their ends, where the index blobs are lost.
//!
//! Each pack ends with the index of what was written together with it, deletions included, and a postamble that says where
//! that is. Deletions that came alone have no pack and are lost; what they deleted is there again, which harms nobody.

use crate::KopiaError;
use crate::blobs::{BlobInfo, Blobs};
use crate::crypto::Crypto;
use crate::format::pack::Postamble;
use crate::tasks::blocking;
use bytes::Bytes;
use std::sync::Arc;

/// The bytes at the end of a pack that are read first: with them mostly the index is there, too.
const TAIL: u64 = 8192;
/// The most bytes of an index in a pack.
const MAX_LOCAL_INDEX: u64 = 256 << 20;

/// Reads the plain index at the end of a pack.
///
/// # Errors
/// Those of the bucket; a pack without postamble, or whose index is damaged.
pub async fn read_local_index(blobs: &Blobs, crypto: &Arc<Crypto>, pack: &BlobInfo) -> Result<Bytes, KopiaError> {
    let damaged = |why: &dyn std::fmt::Display| KopiaError::damaged(format!("pack {}", pack.name), why);
    let tail_start = pack.length.saturating_sub(TAIL);
    let tail = blobs.read_range(&pack.name, tail_start..pack.length).await?;
    let postamble = Postamble::parse(&tail).map_err(|e| damaged(&e))?;
    let (start, length) = (postamble.index_offset, postamble.index_length);
    let end = start.checked_add(length).filter(|end| *end <= pack.length && length <= MAX_LOCAL_INDEX);
    let Some(end) = end else {
        return Err(damaged(&format_args!("its index of {length} bytes at {start} cannot be in it")));
    };
    let in_tail = start.checked_sub(tail_start).and_then(|from| {
        let from = usize::try_from(from).ok()?;
        (end - tail_start <= tail.len() as u64).then(|| tail.slice(from..from + usize::try_from(length).unwrap_or(0)))
    });
    let stored = match in_tail {
        Some(stored) => stored,
        None => blobs.read_range(&pack.name, start..end).await?,
    };
    let (crypto, name) = (crypto.clone(), pack.name.clone());
    blocking(move || {
        let plain = crypto.open_local_index(&postamble.iv, &stored);
        Ok(plain.map_err(|e| KopiaError::damaged(format!("the index in pack {name}"), e))?.into())
    })
    .await
}
