//! IDs of objects (kopia: repo/object/objectid.go).

use super::FormatError;
use super::content_id::ContentId;

/// The most levels of listings that are followed: with listings of 100 children each, far more than a file can have.
pub const MAX_LEVELS: u8 = 8;

/// The ID of an object. `levels` times `I`, `Z` where the object is compressed as a whole (index version 1 only), and the
/// ID of a content. With levels above 0 the object is described by the listing that the rest of the ID names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// The number of listings on the way to the bytes.
    pub levels: u8,
    /// True where the content begins with the header of a compression (object level, `Z`).
    pub is_compressed: bool,
    /// The content with the bytes, or with the listing.
    pub content: ContentId,
}

impl ObjectId {
    /// Reads the text form; an obsolete `D` is ignored.
    ///
    /// # Errors
    /// Every other text, and more than [`MAX_LEVELS`] levels.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        todo!()
    }
}
