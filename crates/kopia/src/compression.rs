//! Compressions of the format (kopia: repo/compression).

use crate::format::FormatError;

/// Decompresses the plain bytes of a content whose index names `header`: they begin with the same header ID. At most
/// `limit` bytes come out.
///
/// # Errors
/// Another header, an unknown one, damaged streams, more bytes than `limit`.
pub fn decompress(header: u32, stored: &[u8], limit: usize) -> Result<Vec<u8>, FormatError> {
    todo!()
}
