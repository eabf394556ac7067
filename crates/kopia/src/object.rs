//! Objects: byte strings of any length.

use crate::KopiaError;
use crate::content::Contents;
use crate::format::object_id::ObjectId;
use bytes::Bytes;
use futures::stream::BoxStream;

mod extent;
mod extents;
mod joined;
mod listing_parser;
mod loss;
mod pieces;
pub mod reader;
pub mod writer;
mod zeros;

pub use extent::{Extent, read_extent};
pub(crate) use extents::parts;
pub use extents::{extents, extents_from, length};
pub use listing_parser::ListingParser;
pub use loss::find_loss;

/// Gives the bytes of an object in their order, a few contents ahead. For much data [`crate::content::read_plan`] takes
/// far fewer requests.
///
/// # Errors
/// Of the stream: a content or listing that is missing or damaged; those of the bucket.
pub fn bytes(contents: &Contents, object: &ObjectId) -> BoxStream<'static, Result<Bytes, KopiaError>> {
    extent::bytes_of(contents.clone(), extents(contents, object))
}
