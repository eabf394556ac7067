//! Reading of one object, from any offset.

use crate::KopiaError;
use bytes::Bytes;

/// An open object with its length. Keeps the contents around the last offset.
#[derive(Debug)]
pub struct ObjectReader {}

impl ObjectReader {
    /// The length in bytes.
    pub fn len(&self) -> u64 {
        todo!()
    }
    /// Reads up to `length` bytes from `offset`; fewer at the end only.
    ///
    /// # Errors
    /// A content that is missing or damaged; those of the bucket.
    pub async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes, KopiaError> {
        todo!()
    }
}
