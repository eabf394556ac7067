//! IDs of contents (kopia: repo/content/index/id.go).

use super::FormatError;
use std::fmt;

/// The longest hash, in bytes.
pub const MAX_HASH: usize = 32;

/// A keyed hash of at most [`MAX_HASH`] bytes. Compared bytewise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash {
    bytes: [u8; MAX_HASH],
    length: u8,
}

impl ContentHash {
    /// Takes 1 to 32 bytes.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() || bytes.len() > MAX_HASH {
            return None;
        }
        let mut hash = Self { bytes: [0; MAX_HASH], length: u8::try_from(bytes.len()).ok()? };
        hash.bytes[..bytes.len()].copy_from_slice(bytes);
        Some(hash)
    }
    /// The first 32 bytes of a digest.
    pub(crate) fn cut(digest: &[u8]) -> Self {
        let mut hash = Self { bytes: [0; MAX_HASH], length: 0 };
        for (to, from) in hash.bytes.iter_mut().zip(digest) {
            *to = *from;
            hash.length += 1;
        }
        hash
    }
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// Lowercase hex.
impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 2 * MAX_HASH];
        let text = &mut text[..2 * usize::from(self.length)];
        hex::encode_to_slice(self.as_bytes(), text).map_err(|_| fmt::Error)?;
        f.write_str(str::from_utf8(text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The ID of a content: an optional letter `g` to `z` and the hash of the bytes. Written as the letter and lowercase hex;
/// ordered as in indexes (no letter is 0x00).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentId {
    prefix: u8,
    hash: ContentHash,
}

impl ContentId {
    /// The ID of bytes with this hash below `prefix`. `None` where the prefix is no letter `g` to `z`.
    pub fn new(prefix: Option<u8>, hash: ContentHash) -> Option<Self> {
        let prefix = match prefix {
            None => 0,
            Some(letter @ b'g'..=b'z') => letter,
            Some(_) => return None,
        };
        Some(Self { prefix, hash })
    }
    /// Reads the text form; upper-case hex is accepted, as kopia does.
    ///
    /// # Errors
    /// Every other text.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        Self::parse_bytes(text.as_bytes()).ok_or_else(|| {
            let text: String = text.chars().take(80).collect();
            FormatError::new("content ID", format!("{text:?} is none"))
        })
    }
    fn parse_bytes(text: &[u8]) -> Option<Self> {
        let (prefix, digits) = match text {
            [letter @ b'g'..=b'z', digits @ ..] => (Some(*letter), digits),
            digits => (None, digits),
        };
        let mut bytes = [0; MAX_HASH];
        let bytes = bytes.get_mut(..digits.len() / 2)?;
        hex::decode_to_slice(digits, bytes).ok()?;
        Self::new(prefix, ContentHash::new(bytes)?)
    }
    /// Reads the binary key of an index: the prefix byte and the hash.
    ///
    /// # Errors
    /// A prefix that is none, or a hash of no or too many bytes.
    pub fn from_key(key: &[u8]) -> Result<Self, FormatError> {
        let parse = || {
            let (prefix, hash) = key.split_first()?;
            Self::new(Some(*prefix).filter(|prefix| *prefix != 0), ContentHash::new(hash)?)
        };
        parse().ok_or_else(|| FormatError::new("content ID", "an index holds a key that is none"))
    }
    /// The prefix letter, if there is one.
    pub fn prefix(&self) -> Option<u8> {
        Some(self.prefix).filter(|prefix| *prefix != 0)
    }
    /// The hash.
    pub fn hash(&self) -> &ContentHash {
        &self.hash
    }
    /// Appends the binary key to `out`.
    pub fn write_key(&self, out: &mut Vec<u8>) {
        out.push(self.prefix);
        out.extend_from_slice(self.hash.as_bytes());
    }
    /// The length of the binary key.
    pub fn key_length(&self) -> usize {
        1 + self.hash.as_bytes().len()
    }
}

impl fmt::Display for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(letter) = self.prefix() {
            write!(f, "{}", char::from(letter))?;
        }
        fmt::Display::fmt(&self.hash, f)
    }
}

impl fmt::Debug for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::{ContentHash, ContentId};

    #[test]
    fn an_id_is_an_optional_letter_and_the_hex_of_a_hash() {
        let texts = ["8193581617239d8beb24dd0f7e29a633", "k00", "zff", "g0123456789abcdef", &"ab".repeat(32)];
        for text in texts {
            assert_eq!(ContentId::parse(text).map(|id| id.to_string()), Ok(text.to_owned()));
        }
        let upper = ContentId::parse("kABCD");
        assert_eq!(upper, ContentId::parse("kabcd"));
    }

    #[test]
    fn other_texts_are_no_ids() {
        let texts = ["", "k", "0", "k0", "f00k", "K00", "kk00", "-00", " 00", "k00 ", "é0", &"ab".repeat(33)];
        for text in texts {
            assert!(ContentId::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ids_are_ordered_as_their_keys_in_indexes() {
        let ids = ["00ff", "01", "ff", "g00", "k00", "k0000", "z00"].map(|text| ContentId::parse(text).expect("an ID"));
        let keys = ids.map(|id| {
            let mut key = Vec::new();
            id.write_key(&mut key);
            assert_eq!((ContentId::from_key(&key), key.len()), (Ok(id), id.key_length()));
            key
        });
        assert!(ids.is_sorted() && keys.is_sorted());
    }

    #[test]
    fn keys_without_hash_or_with_a_wrong_prefix_are_none() {
        for key in [&b""[..], &[0], b"k", b"a0", b"{0", &[1, 2], &[0; 34]] {
            assert!(ContentId::from_key(key).is_err(), "{key:?}");
        }
        assert_eq!(ContentHash::new(&[]), None);
        assert_eq!(ContentId::new(Some(b'f'), ContentHash::new(&[1]).expect("a byte")), None);
    }
}
