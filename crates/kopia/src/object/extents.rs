//! From an object to its contents, with the listings of one path in memory and no more.

use super::extent::{Extent, bytes_of, decompressed};
use super::listing_parser::ListingParser;
use crate::KopiaError;
use crate::content::Contents;
use crate::format::listing::Piece;
use crate::format::object_id::ObjectId;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use std::collections::VecDeque;

/// The most listings on the way from an object to a content.
const MAX_LISTINGS: u8 = 16;

/// Gives the extents of an object in their order, listings resolved level by level, so that a file of terabytes needs the
/// listings of one path in memory and no more. Extents can be empty.
///
/// # Errors
/// Of the stream: a listing or content that is missing or damaged, lengths that do not agree, more levels than allowed.
pub fn extents(contents: &Contents, object: &ObjectId) -> BoxStream<'static, Result<Extent, KopiaError>> {
    extents_from(contents, object, 0)
}

/// Gives the extents of an object that end after `offset`. Listings of what is before it are passed over.
///
/// # Errors
/// As [`extents`].
pub fn extents_from(
    contents: &Contents,
    object: &ObjectId,
    offset: u64,
) -> BoxStream<'static, Result<Extent, KopiaError>> {
    resolve(Step { contents: contents.clone(), object: *object, offset, listings: MAX_LISTINGS })
}

/// The length of an object. Of an indirect one its listing is read, not its parts.
///
/// # Errors
/// As [`extents`].
pub async fn length(contents: &Contents, object: &ObjectId) -> Result<u64, KopiaError> {
    if object.levels == 0 {
        return Ok(direct(contents, object).await?.length);
    }
    let step = Step { contents: contents.clone(), object: *object, offset: 0, listings: MAX_LISTINGS };
    pieces(step)?.try_fold(0, |_, piece| async move { Ok(piece.start + piece.length) }).await
}

/// Gives the parts of an indirect object, as its own listing names them.
///
/// # Errors
/// As [`extents`]; an object without listing.
pub(crate) fn parts(
    contents: &Contents,
    object: &ObjectId,
) -> Result<BoxStream<'static, Result<Piece, KopiaError>>, KopiaError> {
    if object.levels == 0 {
        return Err(KopiaError::damaged(format!("object {object}"), "it has no listing"));
    }
    pieces(Step { contents: contents.clone(), object: *object, offset: 0, listings: MAX_LISTINGS })
}

#[derive(Clone)]
struct Step {
    contents: Contents,
    object: ObjectId,
    offset: u64,
    /// The listings that may still follow.
    listings: u8,
}

fn resolve(step: Step) -> BoxStream<'static, Result<Extent, KopiaError>> {
    if step.object.levels == 0 {
        return futures::stream::once(async move { direct(&step.contents, &step.object).await }).boxed();
    }
    let from = step.clone();
    let pieces = match pieces(step) {
        Ok(pieces) => pieces,
        Err(e) => return futures::stream::once(async { Err(e) }).boxed(),
    };
    // An object that is used for none of its bytes says nothing. A content without bytes is one that kopia wants to be there.
    let pieces = pieces.try_filter(move |piece| {
        let is_used = piece.length > 0 || piece.object.levels == 0;
        let counts = is_used && piece.start + piece.length > from.offset;
        async move { counts }
    });
    pieces.map_ok(move |piece| part(&from, piece)).try_flatten().boxed()
}

/// The extents of a piece, at their places in the object.
fn part(from: &Step, piece: Piece) -> BoxStream<'static, Result<Extent, KopiaError>> {
    let contents = from.contents.clone();
    let Piece { start, length, object } = piece;
    if object.levels == 0 {
        let extent = async move {
            // Where the object is compressed as a whole only its bytes say how many they are.
            let known = if object.is_compressed { None } else { Some(direct(&contents, &object).await?.length) };
            if known.is_some_and(|known| known != length) {
                let why = format!("it has {} bytes, its listing says {length}", known.unwrap_or(0));
                return Err(KopiaError::damaged(format!("object {object}"), why));
            }
            Ok(Extent { start, length, is_compressed: object.is_compressed, content: object.content })
        };
        return futures::stream::once(extent).boxed();
    }
    let offset = from.offset.saturating_sub(start);
    let below = resolve(Step { contents, object, offset, listings: from.listings.saturating_sub(1) });
    let reached = offset.min(length);
    let extents = futures::stream::try_unfold((below, reached), move |(mut below, reached)| async move {
        match below.try_next().await? {
            // Bytes beyond the length do not belong to the piece.
            Some(extent) if extent.start >= length => Ok(None),
            Some(extent) => {
                let end = extent.start.saturating_add(extent.length).min(length);
                let placed = Extent { start: start + extent.start, length: end - extent.start, ..extent };
                Ok(Some((placed, (below, end))))
            }
            None if reached < length => {
                let why = format!("it has {reached} bytes, its listing says {length}");
                Err(KopiaError::damaged(format!("object {object}"), why))
            }
            None => Ok(None),
        }
    });
    extents.boxed()
}

/// The extent of an object that is one content.
async fn direct(contents: &Contents, object: &ObjectId) -> Result<Extent, KopiaError> {
    let location = contents.locate(&object.content)?;
    let mut extent = Extent {
        start: 0,
        length: u64::from(location.record.original_length),
        is_compressed: object.is_compressed,
        content: object.content,
    };
    if object.is_compressed {
        // Only the bytes say how many they are.
        extent.length = 0;
        extent.length = decompressed(contents, &extent).await?.len() as u64;
    }
    Ok(extent)
}

/// The pieces of an indirect object, as its listing arrives.
fn pieces(step: Step) -> Result<BoxStream<'static, Result<Piece, KopiaError>>, KopiaError> {
    struct Reading {
        bytes: Option<BoxStream<'static, Result<Bytes, KopiaError>>>,
        parser: ListingParser,
        ready: VecDeque<Piece>,
    }
    let name = format!("object {}", step.object);
    let Some(listings) = step.listings.checked_sub(1) else {
        return Err(KopiaError::damaged(name, format_args!("it has more than {MAX_LISTINGS} listings in each other")));
    };
    let listing = ObjectId { levels: step.object.levels - 1, ..step.object };
    let below = resolve(Step { contents: step.contents.clone(), object: listing, offset: 0, listings });
    let bytes = Some(bytes_of(step.contents, below));
    let reading = Reading { bytes, parser: ListingParser::default(), ready: VecDeque::new() };
    let pieces = futures::stream::try_unfold((reading, name), |(mut reading, name)| async move {
        loop {
            if let Some(piece) = reading.ready.pop_front() {
                return Ok(Some((piece, (reading, name))));
            }
            let Some(bytes) = &mut reading.bytes else { return Ok(None) };
            match bytes.try_next().await? {
                Some(bytes) => reading.parser.feed(&bytes, &mut reading.ready),
                None => {
                    reading.bytes = None;
                    reading.parser.finish().map(drop)
                }
            }
            .map_err(|e| KopiaError::damaged(name.clone(), e))?;
        }
    });
    Ok(pieces.boxed())
}
