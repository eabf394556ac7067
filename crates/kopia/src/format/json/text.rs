//! Text that may stand for bytes that were no UTF-8.

use std::ops::Deref;

/// A string in which it is known which U+FFFD stand for bytes that were no UTF-8. Kopia writes those as the escape
/// `\ufffd` and a real U+FFFD as it is, so that only with this a text is written back byte by byte.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Text {
    text: String,
    replaced: Box<[u32]>,
}

impl Text {
    /// The text that kopia would make of these bytes: each byte that is no UTF-8 becomes U+FFFD.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut text = String::with_capacity(bytes.len());
        let mut replaced = Vec::new();
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            for _ in chunk.invalid() {
                replaced.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
                text.push('\u{fffd}');
            }
        }
        Self { text, replaced: replaced.into() }
    }
    /// The text of bytes in which some characters are known to stand for lost ones.
    pub(super) fn from_decoded(bytes: Vec<u8>, replaced: Vec<u32>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self { text, replaced: replaced.into() },
            // Nobody who writes JSON writes such bytes; the positions of the escapes among them are given up.
            Err(error) => Self::from_bytes(error.as_bytes()),
        }
    }
    /// The text alone.
    pub fn into_string(self) -> String {
        self.text
    }
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
    /// True where some of the original bytes are lost.
    pub fn is_lossy(&self) -> bool {
        !self.replaced.is_empty()
    }
    /// The positions of replaced characters, ascending.
    pub(super) fn replaced(&self) -> &[u32] {
        &self.replaced
    }
}

impl Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        &self.text
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.text.fmt(f)
    }
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.text.fmt(f)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self { text, replaced: Box::default() }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.text == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.text == *other
    }
}
