//! Objects: byte strings of any length.

use crate::KopiaError;
use crate::format::content_id::ContentId;
use crate::format::object_id::ObjectId;

pub mod reader;

/// A piece of an object that is one content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// The offset in the object.
    pub start: u64,
    /// The length.
    pub length: u64,
    /// The content.
    pub content: ContentId,
}

/// Gives the extents of an object in their order, listings resolved level by level, so that a file of terabytes needs the
/// listings of one path in memory and no more.
///
/// # Errors
/// Of the stream: a listing that is missing or damaged, more levels than allowed.
pub fn extents<'a>(
    contents: &'a crate::content::Contents,
    object: &ObjectId,
) -> futures::stream::BoxStream<'a, Result<Extent, KopiaError>> {
    todo!()
}
