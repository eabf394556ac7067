//! The one place that packs and unpacks gzip.

#![allow(clippy::disallowed_types, reason = "the one capped place")]

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use std::io::{self, Read, Write};

/// Compresses small things: sidecar files, log lines.
#[must_use]
pub fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing into a Vec cannot fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// The archive or file decompresses to more than allowed.
#[derive(Debug, thiserror::Error)]
#[error("decompressed backup exceeds maximum allowed size of {0} bytes")]
pub struct TooLarge(pub u64);

/// Decompresses with a bound: every gzip member, its checksum verified.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] holding [`TooLarge`] beyond `limit` bytes, or the decoder's error.
pub fn unpack(bytes: &[u8], limit: u64) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    capped(bytes, limit).read_to_end(&mut out)?;
    Ok(out)
}

/// A reader of the decompressed bytes that fails beyond `limit`.
pub fn capped<R: Read>(inner: R, limit: u64) -> impl Read {
    Capped { inner: MultiGzDecoder::new(inner), limit, left: limit }
}

struct Capped<R> {
    inner: R,
    limit: u64,
    left: u64,
}

impl<R: Read> Read for Capped<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            // Full to the brim: only the end may follow.
            return match self.inner.read(&mut [0])? {
                0 => Ok(0),
                _ => Err(io::Error::new(io::ErrorKind::InvalidData, TooLarge(self.limit))),
            };
        }
        let most = buf.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let n = self.inner.read(&mut buf[..most])?;
        self.left -= n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_all_members_and_stops_at_the_limit() {
        let two = [pack(b"abc"), pack(b"def")].concat();
        assert_eq!(unpack(&two, 6).unwrap(), b"abcdef");
        let error = unpack(&two, 5).unwrap_err();
        assert_eq!(error.to_string(), "decompressed backup exceeds maximum allowed size of 5 bytes");
        assert!(unpack(&two[..two.len() - 1], 6).is_err(), "a truncated member must not pass");
    }
}
