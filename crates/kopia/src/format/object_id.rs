//! IDs of objects (kopia: repo/object/objectid.go).

use super::FormatError;
use super::content_id::ContentId;
use std::fmt;

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
    /// The object whose bytes are those of a content.
    pub fn direct(content: ContentId) -> Self {
        Self { levels: 0, is_compressed: false, content }
    }
    /// Reads the text form; an obsolete `D` is ignored.
    ///
    /// # Errors
    /// Every other text, and more than [`MAX_LEVELS`] levels.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let bad = |why| {
            let text: String = text.chars().take(96).collect();
            FormatError::new("object ID", format!("{text:?} {why}"))
        };
        let content = text.trim_start_matches('I');
        let levels = u8::try_from(text.len() - content.len())
            .ok()
            .filter(|levels| *levels <= MAX_LEVELS)
            .ok_or_else(|| bad("has too many levels of listings"))?;
        let (is_compressed, content) = match content.strip_prefix('Z') {
            Some(_) if levels > 0 => return Err(bad("is compressed and a listing")),
            Some(content) => (true, content),
            None => (false, content),
        };
        let content = content.strip_prefix('D').unwrap_or(content);
        let content = ContentId::parse(content).map_err(|_| bad("is none"))?;
        Ok(Self { levels, is_compressed, content })
    }
    /// The object that holds the listing of this one; `None` where the bytes are those of a content.
    pub fn listing(&self) -> Option<Self> {
        Some(Self { levels: self.levels.checked_sub(1)?, ..*self })
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for _ in 0..self.levels {
            f.write_str("I")?;
        }
        if self.is_compressed {
            f.write_str("Z")?;
        }
        fmt::Display::fmt(&self.content, f)
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
