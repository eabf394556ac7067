//! Listings read as they arrive: a file of terabytes has a listing that is too large for memory.

use crate::format::FormatError;
use crate::format::listing::Piece;
use crate::format::object_id::ObjectId;

/// The most bytes of one entry: an ID is at most 80.
const MAX_ENTRY: usize = 4096;
/// The deepest nesting of unknown fields.
const MAX_DEPTH: u32 = 64;

/// A parser that is fed with bytes and gives pieces. They are contiguous and begin at 0.
#[derive(Debug, Default)]
pub struct ListingParser {
    depth: u32,
    string: Option<InString>,
    /// The last string of the document itself, and the key that it turned out to be.
    text: Vec<u8>,
    key: Vec<u8>,
    /// True inside the list of entries.
    is_list: bool,
    /// The entry that is being read; empty between entries.
    entry: Vec<u8>,
    next: u64,
    pieces: u64,
    is_over: bool,
}

#[derive(Debug, Clone, Copy)]
enum InString {
    Plain,
    Escaped,
}

#[derive(serde::Deserialize)]
struct EntryDocument {
    #[serde(default)]
    s: u64,
    #[serde(default)]
    l: u64,
    o: String,
}

fn error(why: impl Into<String>) -> FormatError {
    FormatError { structure: "listing of an object", why: why.into() }
}

impl ListingParser {
    /// Takes the next bytes and appends the pieces that end in them.
    ///
    /// # Errors
    /// Bytes that are no listing, pieces that do not follow each other.
    pub fn feed(&mut self, bytes: &[u8], out: &mut impl Extend<Piece>) -> Result<(), FormatError> {
        for &byte in bytes {
            if let Some(piece) = self.byte(byte)? {
                out.extend([piece]);
            }
        }
        Ok(())
    }

    /// Ends the listing and gives the length of the object.
    ///
    /// # Errors
    /// A listing that ends too early or has no pieces.
    pub fn finish(&self) -> Result<u64, FormatError> {
        if !self.is_over {
            return Err(error("it ends too early"));
        }
        if self.pieces == 0 {
            return Err(error("it has no entries"));
        }
        Ok(self.next)
    }

    fn byte(&mut self, byte: u8) -> Result<Option<Piece>, FormatError> {
        let is_in_entry = self.is_list && self.depth >= 3;
        if is_in_entry {
            if self.entry.len() >= MAX_ENTRY {
                return Err(error(format!("an entry has more than {MAX_ENTRY} bytes")));
            }
            self.entry.push(byte);
        }
        if let Some(string) = self.string {
            self.string = match (string, byte) {
                (InString::Plain, b'"') => None,
                (InString::Plain, b'\\') => Some(InString::Escaped),
                _ => Some(InString::Plain),
            };
            // Only the keys of the document matter, and they are short.
            if self.depth == 1 && self.string.is_some() && self.text.len() < 64 {
                self.text.push(byte);
            }
            return Ok(None);
        }
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ if self.is_over => return Err(error("bytes follow its end")),
            b'{' | b'[' => {
                if self.depth == 0 && byte == b'[' || self.depth >= MAX_DEPTH {
                    return Err(error("it is no document of entries"));
                }
                self.depth += 1;
                match self.depth {
                    2 if byte == b'[' && self.key == b"entries" => self.is_list = true,
                    3 if self.is_list && byte == b'[' => return Err(error("an entry is a list")),
                    3 if self.is_list => self.entry.push(byte),
                    _ => {}
                }
            }
            b'}' | b']' => {
                self.depth = self.depth.checked_sub(1).ok_or_else(|| error("a bracket closes that was not opened"))?;
                match self.depth {
                    0 => self.is_over = true,
                    1 => self.is_list = false,
                    2 if self.is_list => return self.entry_ends().map(Some),
                    _ => {}
                }
            }
            _ if self.depth == 0 => return Err(error("it is no JSON")),
            b'"' if self.is_list && self.depth == 2 => return Err(error("an entry is a text")),
            b'"' => {
                self.string = Some(InString::Plain);
                if self.depth == 1 {
                    self.text.clear();
                }
            }
            b':' if self.depth == 1 => self.key = std::mem::take(&mut self.text),
            b',' if self.depth == 1 => self.key.clear(),
            b',' => {}
            _ if self.is_list && self.depth == 2 => return Err(error("an entry is no document")),
            _ => {}
        }
        Ok(None)
    }

    fn entry_ends(&mut self) -> Result<Piece, FormatError> {
        let number = self.pieces;
        let entry = serde_json::from_slice(&self.entry);
        let EntryDocument { s, l, o } = entry.map_err(|e| error(format!("entry {number}: {e}")))?;
        self.entry.clear();
        if s != self.next {
            return Err(error(format!("entry {number} begins at {s}, the one before it ends at {}", self.next)));
        }
        let object = ObjectId::parse(&o).map_err(|e| error(format!("entry {number}: {e}")))?;
        let end = s.checked_add(l).filter(|end| i64::try_from(*end).is_ok());
        self.next = end.ok_or_else(|| error(format!("entry {number} ends beyond 2^63")))?;
        self.pieces += 1;
        Ok(Piece { start: s, length: l, object })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::listing;
    use proptest::prelude::*;

    fn read(text: &str, step: usize) -> Result<(Vec<Piece>, u64), FormatError> {
        let mut parser = ListingParser::default();
        let mut pieces = Vec::new();
        for bytes in text.as_bytes().chunks(step) {
            parser.feed(bytes, &mut pieces)?;
        }
        let length = parser.finish()?;
        Ok((pieces, length))
    }

    fn id(digit: char) -> String {
        String::from(digit).repeat(32)
    }

    fn piece(start: u64, length: u64, object: &str) -> Piece {
        Piece { start, length, object: ObjectId::parse(object).unwrap() }
    }

    #[test]
    fn entries_come_as_they_end_however_the_listing_is_cut() {
        let (a, b, c) = (id('a'), format!("Ix{}", id('b')), format!("Z{}", id('c')));
        let text = format!(
            "{{\"stream\":\"kopia:indirect\",\"more\":{{\"entries\":[[1,\"]}}\\\"\"]]}},\"entries\":[{{\"l\":5,\"o\":\"{a}\"}}, {{\"s\":5,\"o\":\"{b}\"}},\n{{\"o\":\"{c}\",\"x\":{{\"y\":[1]}},\"l\":7,\"s\":5}}],\"z\":null}}\n"
        );
        let expected = (vec![piece(0, 5, &a), piece(5, 0, &b), piece(5, 7, &c)], 12);
        for step in 1..text.len() {
            assert_eq!(read(&text, step).as_ref(), Ok(&expected), "{step}");
        }
    }

    #[test]
    fn what_is_no_listing_is_an_error() {
        let a = id('a');
        let entries = |entries: &str| format!("{{\"stream\":\"kopia:indirect\",\"entries\":[{entries}]}}");
        let long = format!("{{\"o\":\"{}\"}}", "a".repeat(5000));
        for text in [
            String::new(),
            "{}".to_owned(),
            "[]".to_owned(),
            "nonsense".to_owned(),
            "]".to_owned(),
            "{\"entries\":null}".to_owned(),
            entries(""),
            entries("1"),
            entries("null"),
            entries("\"a\""),
            entries("[1]"),
            entries("{}"),
            entries("{\"o\":\"\"}"),
            entries("{\"o\":\"nonsense\"}"),
            entries(&long),
            entries(&format!("{{\"s\":1,\"l\":5,\"o\":\"{a}\"}}")),
            entries(&format!("{{\"l\":5,\"o\":\"{a}\"}},{{\"s\":6,\"o\":\"{a}\"}}")),
            entries(&format!("{{\"l\":-5,\"o\":\"{a}\"}}")),
            entries(&format!("{{\"l\":9223372036854775808,\"o\":\"{a}\"}}")),
            format!("{}x", entries(&format!("{{\"l\":5,\"o\":\"{a}\"}}"))),
            entries(&format!("{{\"l\":5,\"o\":\"{a}\"}}")).replace("]}", "]"),
            "{\"a\":".repeat(100),
        ] {
            assert!(read(&text, 7).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_listing_that_was_written_is_read(lengths in proptest::collection::vec(0..1_000_000_u64, 1..50), step in 1..200_usize) {
            let mut start = 0;
            let pieces: Vec<Piece> = lengths.iter().map(|&length| {
                let one = piece(start, length, &id('e'));
                start += length;
                one
            }).collect();
            let text = String::from_utf8(listing::write(&pieces)).unwrap();
            prop_assert_eq!(read(&text, step), Ok((pieces, start)));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(prop_oneof![Just(b'{'), Just(b'}'), Just(b'['), Just(b']'), Just(b'"'), Just(b','), any::<u8>()], 0..200)) {
            let mut parser = ListingParser::default();
            let _ = parser.feed(b"{\"entries\":[", &mut Vec::new()).and_then(|()| parser.feed(&bytes, &mut Vec::new()));
        }
    }
}
