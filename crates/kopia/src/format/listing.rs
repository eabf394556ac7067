//! Listings: objects that are made of others (kopia: repo/object/indirect.go).

use super::FormatError;
use super::object_id::ObjectId;

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

/// Reads a listing; the pieces are contiguous and begin at 0.
///
/// # Errors
/// No listing, no pieces, pieces that do not follow each other, sums beyond 2^63.
pub fn parse(bytes: &[u8]) -> Result<Vec<Piece>, FormatError> {
    todo!()
}

/// Writes a listing as kopia writes it, with the newline at its end.
pub fn write(pieces: &[Piece]) -> Vec<u8> {
    todo!()
}
