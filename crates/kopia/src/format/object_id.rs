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

#[cfg(test)]
mod tests {
    use super::ObjectId;
    use crate::format::content_id::ContentId;

    #[test]
    fn an_id_tells_its_levels_and_whether_it_is_compressed() {
        for (text, levels, is_compressed, content) in [
            ("8193581617239d8beb24dd0f7e29a633", 0, false, "8193581617239d8beb24dd0f7e29a633"),
            ("Ix5b74", 1, false, "x5b74"),
            ("IIx5b74", 2, false, "x5b74"),
            ("IIIIIIIIk00", 8, false, "k00"),
            ("Z8193", 0, true, "8193"),
        ] {
            let content = ContentId::parse(content).expect("an ID");
            let id = ObjectId { levels, is_compressed, content };
            assert_eq!(ObjectId::parse(text), Ok(id));
            assert_eq!(id.to_string(), text);
        }
    }

    #[test]
    fn an_obsolete_letter_is_ignored() {
        for (text, same) in [("Dk00", "k00"), ("IDk00", "Ik00"), ("ZD00", "Z00")] {
            assert_eq!(ObjectId::parse(text), ObjectId::parse(same));
        }
    }

    #[test]
    fn other_texts_are_no_ids() {
        for text in ["", "I", "IIIIIIIIIk00", "IZ00", "ZI00", "ZZ00", "DD00", "a", "k"] {
            assert!(ObjectId::parse(text).is_err(), "{text}");
        }
        assert!(ObjectId::parse(&"I".repeat(300)).is_err());
    }

    #[test]
    fn the_listing_of_an_object_has_a_level_less() {
        let id = ObjectId::parse("IIx00").expect("an ID");
        let listing = id.listing().expect("a listing");
        assert_eq!(listing.to_string(), "Ix00");
        assert_eq!(listing.listing().map(|id| id.to_string()).as_deref(), Some("x00"));
        assert_eq!(ObjectId::parse("x00").expect("an ID").listing(), None);
    }
}
