//! Listings: objects that are made of others (kopia: repo/object/indirect.go).

use super::FormatError;
use super::json::{ObjectWriter, Reader};
use super::object_id::ObjectId;

const STRUCTURE: &str = "listing";
const STREAM: &str = "kopia:indirect";

/// A piece of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The offset of the piece in the object.
    pub start: u64,
    /// The length of the piece; 0 can occur.
    pub length: u64,
    /// The object with the bytes.
    pub object: ObjectId,
}

/// Reads a listing; the pieces are contiguous and begin at 0. The name of the stream is not looked at, as kopia does not.
///
/// # Errors
/// No listing, no pieces, pieces that do not follow each other, sums beyond 2^63.
pub fn parse(bytes: &[u8]) -> Result<Vec<Piece>, FormatError> {
    let mut pieces = Vec::new();
    let mut end = 0;
    let mut reader = Reader::new(STRUCTURE, bytes);
    reader.object::<FormatError>(|reader, key| {
        if key != "entries" {
            return reader.skip();
        }
        reader.array::<FormatError>(|reader| {
            let piece = parse_piece(reader)?;
            if piece.start != end {
                return Err(reader.error(format!("a piece begins at {} and not at {end}", piece.start)));
            }
            end = piece
                .start
                .checked_add(piece.length)
                .filter(|end| i64::try_from(*end).is_ok())
                .ok_or_else(|| reader.error("the pieces are too long"))?;
            pieces.push(piece);
            Ok(())
        })
    })?;
    reader.end()?;
    if pieces.is_empty() {
        return Err(FormatError::new(STRUCTURE, "it has no pieces"));
    }
    Ok(pieces)
}

fn parse_piece(reader: &mut Reader<&[u8]>) -> Result<Piece, FormatError> {
    let (mut start, mut length, mut object) = (0, 0, None);
    reader.object::<FormatError>(|reader, key| {
        match key {
            "s" => start = reader.integer()?,
            "l" => length = reader.integer()?,
            "o" => object = Some(ObjectId::parse(&reader.string()?)?),
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    let object = object.ok_or_else(|| reader.error("a piece has no object"))?;
    Ok(Piece { start, length, object })
}

/// Writes a listing as kopia writes it, with the newline at its end.
pub fn write(pieces: &[Piece]) -> Vec<u8> {
    let mut writer = ListingWriter::begin();
    for piece in pieces {
        writer.push(piece);
    }
    writer.end()
}

/// A listing that is being written piece by piece.
#[derive(Debug, Clone)]
pub struct ListingWriter {
    out: Vec<u8>,
    is_empty: bool,
}

impl ListingWriter {
    /// Begins a listing.
    pub fn begin() -> Self {
        Self { out: format!("{{\"stream\":\"{STREAM}\",\"entries\":[").into_bytes(), is_empty: true }
    }
    /// Adds a piece.
    pub fn push(&mut self, piece: &Piece) {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        let mut entry = ObjectWriter::begin(&mut self.out);
        entry.number_unless_zero("s", piece.start);
        entry.number_unless_zero("l", piece.length);
        entry.quoted("o", piece.object);
        entry.end();
    }
    /// The number of bytes that were not taken.
    pub fn waiting(&self) -> usize {
        self.out.len()
    }
    /// Takes the bytes that were written since the last call, so that a listing of millions of pieces need not be in memory
    /// whole.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }
    /// Ends the listing and gives the bytes that were not taken.
    pub fn end(mut self) -> Vec<u8> {
        self.out.extend_from_slice(b"]}\n");
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::{Piece, parse, write};
    use crate::format::object_id::ObjectId;

    fn piece(start: u64, length: u64, object: &str) -> Piece {
        Piece { start, length, object: ObjectId::parse(object).expect("an ID") }
    }

    #[test]
    fn a_listing_leaves_out_zeros() {
        let text = "{\"stream\":\"kopia:indirect\",\"entries\":[{\"l\":2097152,\"o\":\"4546\"},{\"s\":2097152,\"l\":5,\"o\":\"Z43\"},{\"s\":2097157,\"o\":\"Ix00\"}]}\n";
        let pieces = [piece(0, 2_097_152, "4546"), piece(2_097_152, 5, "Z43"), piece(2_097_157, 0, "Ix00")];
        assert_eq!(str::from_utf8(&write(&pieces)), Ok(text));
        assert_eq!(parse(text.as_bytes()), Ok(pieces.to_vec()));
    }

    #[test]
    fn pieces_that_do_not_follow_each_other_are_refused() {
        let entries = [
            "",
            r#"{"s":1,"l":1,"o":"00"}"#,
            r#"{"l":1,"o":"00"},{"l":1,"o":"00"}"#,
            r#"{"l":2,"o":"00"},{"s":1,"l":1,"o":"00"}"#,
            r#"{"l":1}"#,
            r#"{"l":1,"o":""}"#,
            r#"{"l":-1,"o":"00"}"#,
            r#"{"l":1.5,"o":"00"}"#,
            r#"{"l":1e3,"o":"00"}"#,
            r#"{"l":9223372036854775808,"o":"00"}"#,
            r#"{"l":9223372036854775807,"o":"00"},{"s":9223372036854775807,"l":1,"o":"00"}"#,
            r#"{"l":18446744073709551616,"o":"00"}"#,
        ];
        for entries in entries {
            let text = format!(r#"{{"stream":"kopia:indirect","entries":[{entries}]}}"#);
            assert!(parse(text.as_bytes()).is_err(), "{entries}");
        }
        for text in ["", "{}", "[]", "null", r#"{"entries":[{"o":"00"}]}x"#] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
