//! Reading of small objects through a writer, which sees contents that are not flushed.

use crate::KopiaError;
use crate::content::writer::ContentWriter;
use crate::content::{decompress_object, missing};
use crate::format::listing::{self, Piece};
use crate::format::object_id::ObjectId;
use crate::tasks::blocking;
use bytes::Bytes;

/// The most listings on the way from an object to a content.
const MAX_LISTINGS: u8 = 16;
/// The most bytes of a listing that is read as a whole: that of an object of some 30 TiB.
const MAX_LISTING: u64 = 1 << 30;

/// The length of an object that is one content.
pub(super) async fn direct_length(contents: &ContentWriter, object: &ObjectId) -> Result<u64, KopiaError> {
    if object.is_compressed {
        // Only the bytes say how many they are.
        return Ok(direct_bytes(contents, object).await?.len() as u64);
    }
    let entry = contents.find(&object.content)?.ok_or_else(|| missing(&object.content))?;
    Ok(u64::from(entry.original_length))
}

async fn direct_bytes(contents: &ContentWriter, object: &ObjectId) -> Result<Bytes, KopiaError> {
    let content = object.content;
    let bytes = contents.read(&content).await?;
    if !object.is_compressed {
        return Ok(bytes);
    }
    blocking(move || decompress_object(&content, &bytes)).await
}

/// The pieces of an object that has a listing.
pub(super) async fn listing_pieces(contents: &ContentWriter, object: &ObjectId) -> Result<Vec<Piece>, KopiaError> {
    pieces(contents, object, MAX_LISTINGS).await
}

async fn pieces(contents: &ContentWriter, object: &ObjectId, listings: u8) -> Result<Vec<Piece>, KopiaError> {
    let damaged = |why: &dyn std::fmt::Display| KopiaError::damaged(format!("object {object}"), why);
    let listing = object.listing().ok_or_else(|| damaged(&"it has no listing"))?;
    let listings = listings.checked_sub(1).ok_or_else(|| damaged(&"it has too many listings in each other"))?;
    let bytes = bytes(contents, &listing, listings).await?;
    listing::parse(&bytes).map_err(|e| damaged(&e))
}

async fn bytes(contents: &ContentWriter, object: &ObjectId, listings: u8) -> Result<Bytes, KopiaError> {
    if object.levels == 0 {
        return direct_bytes(contents, object).await;
    }
    let damaged = |why: String| KopiaError::damaged(format!("object {object}"), why);
    let mut joined = Vec::new();
    for piece in Box::pin(pieces(contents, object, listings)).await? {
        if piece.start.saturating_add(piece.length) > MAX_LISTING {
            return Err(damaged(format!("as a listing it has more than {MAX_LISTING} bytes")));
        }
        let part = Box::pin(bytes(contents, &piece.object, listings)).await?;
        let length = usize::try_from(piece.length).unwrap_or(usize::MAX);
        let part = part.get(..length).ok_or_else(|| {
            damaged(format!("its piece {} has {} bytes, its listing says {length}", piece.object, part.len()))
        })?;
        joined.extend_from_slice(part);
    }
    Ok(joined.into())
}
