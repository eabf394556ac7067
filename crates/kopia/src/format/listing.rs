//! Listings: objects that are made of others (kopia: repo/object/indirect.go).

use super::FormatError;
use super::json::{ArrayWriter, ObjectWriter, Reader};
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
    let mut out = Vec::with_capacity(64 + 80 * pieces.len());
    let mut document = ObjectWriter::begin(&mut out);
    document.string("stream", STREAM);
    let mut entries = ArrayWriter::begin(document.key("entries"));
    for piece in pieces {
        let mut entry = ObjectWriter::begin(entries.item());
        entry.number_unless_zero("s", piece.start);
        entry.number_unless_zero("l", piece.length);
        entry.quoted("o", piece.object);
        entry.end();
    }
    entries.end();
    document.end();
    out.push(b'\n');
    out
}
