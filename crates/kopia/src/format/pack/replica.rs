//! The copy of the format blob in packs of repositories whose password cannot change.

use crate::format::FormatError;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const STRUCTURE: &str = "replica of the format";
const KEY: &[u8] = b"kopia-repository";
const MAC_LENGTH: usize = 32;
const MAX_BODY: usize = 65_000;
/// The bytes at the beginning and at the end of a pack in which a replica lies.
pub const MAX_REPLICA: usize = 65_536;

fn mac(format_blob: &[u8]) -> Result<Hmac<Sha256>, FormatError> {
    let mac =
        Hmac::<Sha256>::new_from_slice(KEY).map_err(|_| FormatError::new(STRUCTURE, "HMAC does not take the key"))?;
    Ok(mac.chain_update(format_blob))
}

/// Writes the copy of the format blob with which a pack begins: its length before and after it.
///
/// # Errors
/// A format blob that is too long.
pub fn write_replica(format_blob: &[u8]) -> Result<Vec<u8>, FormatError> {
    let length = format_blob.len() + MAC_LENGTH;
    if length > MAX_BODY {
        return Err(FormatError::new(STRUCTURE, "the format blob is too long"));
    }
    let length = u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes();
    let mac = mac(format_blob)?.finalize().into_bytes();
    Ok([&length, format_blob, &mac, &length].concat())
}

/// Finds the format blob at the beginning of `first`, the first bytes of a pack, or at the end of `last`, its last bytes.
pub fn find_replica<'a>(first: &'a [u8], last: &'a [u8]) -> Option<&'a [u8]> {
    let at_start = || {
        let (length, rest) = first.split_first_chunk::<2>()?;
        rest.get(..usize::from(u16::from_le_bytes(*length)))
    };
    let at_end = || {
        let (rest, length) = last.split_last_chunk::<2>()?;
        let start = rest.len().checked_sub(usize::from(u16::from_le_bytes(*length)))?;
        rest.get(start..)
    };
    let checked = |body: &'a [u8]| {
        let (format_blob, tag) = body.split_last_chunk::<MAC_LENGTH>()?;
        mac(format_blob).ok()?.verify_slice(tag).ok()?;
        Some(format_blob)
    };
    at_start().and_then(checked).or_else(|| at_end().and_then(checked))
}
