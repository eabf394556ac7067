//! Packs and unpacks gzip; no other file does.

#![allow(clippy::disallowed_types, reason = "the one capped place")]

use crate::deflate::{Deflater, Likeness};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use libdeflater::{CompressionLvl, Compressor, Decompressor};
use std::io::{self, BufWriter, Read, Write};

/// Bytes that deflate can make of one (RFC 1951: a match of 258 bytes takes two bits at least).
const MOST_EXPANSION: u64 = 1032;

/// Bytes that are gathered before they are compressed.
const PIECE: usize = 32 << 10;

/// Compresses small things: sidecar files, log lines.
#[must_use]
pub fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing into a Vec cannot fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// Compresses what a function writes, piece by piece: the whole text is never in memory.
///
/// # Errors
/// The errors of the function.
pub fn pack_with<E>(write: impl FnOnce(&mut dyn Write) -> Result<(), E>) -> Result<Vec<u8>, E> {
    let mut pieces = Pieces::default();
    write(&mut pieces.0)?;
    Ok(pieces.end())
}

/// Compresses a text that comes in pieces: the whole text is never in memory.
pub struct Pieces(BufWriter<GzEncoder<Vec<u8>>>);

impl Default for Pieces {
    fn default() -> Self {
        Self(BufWriter::with_capacity(PIECE, GzEncoder::new(Vec::new(), Compression::default())))
    }
}

impl Pieces {
    /// Takes the next piece.
    pub fn add(&mut self, piece: &[u8]) {
        // Writing into a Vec cannot fail.
        let _ = self.0.write_all(piece);
    }

    /// Ends the text, and gives it compressed as one gzip member.
    #[must_use]
    pub fn end(self) -> Vec<u8> {
        let packed = self.0.into_inner().map(GzEncoder::finish);
        packed.map_or_else(|_| Vec::new(), Result::unwrap_or_default)
    }
}

/// Makes gzip members of whole buffers, faster than a stream can be compressed; keeps its memory from one to the next.
pub struct Packer {
    compressor: Compressor,
    out: Vec<u8>,
    /// The compressor of the fastest level.
    deflater: Option<Deflater>,
}

impl Packer {
    /// A packer of level 1 (fast) to 9 (small).
    #[must_use]
    pub fn new(level: u32) -> Self {
        let deflater = (level == 1).then(Deflater::new);
        let level = i32::try_from(level).ok().and_then(|level| CompressionLvl::new(level).ok());
        Self { compressor: Compressor::new(level.unwrap_or_default()), out: Vec::new(), deflater }
    }

    /// Appends one gzip member of bytes, some of which are known to be like others before them. The fastest level does not
    /// search for those.
    pub(crate) fn append_member(&mut self, bytes: &[u8], alike: &[Likeness], out: &mut Vec<u8>) {
        match &mut self.deflater {
            Some(deflater) => deflater.member(bytes, alike, out),
            None => out.extend_from_slice(self.member(bytes)),
        }
    }

    /// Makes one gzip member. The next call overwrites it.
    pub fn member(&mut self, bytes: &[u8]) -> &[u8] {
        let bound = self.compressor.gzip_compress_bound(bytes.len());
        if self.out.len() < bound {
            self.out.resize(bound, 0);
        }
        // It fails only for want of space, and the bound is enough for every input.
        let length = self.compressor.gzip_compress(bytes, &mut self.out).unwrap_or_default();
        &self.out[..length]
    }
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

/// [`unpack`] for bytes that are known to become `length`, which is the bound too; faster. What follows a first member
/// that has this length is not looked at.
///
/// # Errors
/// As [`unpack`].
pub fn unpack_whole(bytes: &[u8], length: u64) -> io::Result<Vec<u8>> {
    // Deflate makes at most 1032 bytes of one: what claims more gets no memory for it.
    let possible = (bytes.len() as u64).saturating_mul(MOST_EXPANSION);
    if let Ok(size) = usize::try_from(length.min(possible)) {
        let mut out = vec![0; size];
        if Decompressor::new().gzip_decompress(bytes, &mut out) == Ok(size) && size as u64 == length {
            return Ok(out);
        }
    }
    // More than one member, or something is wrong with it, and this says what.
    unpack(bytes, length)
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
    fn a_packer_makes_members_of_any_size_one_after_the_other() {
        for level in 0..=10 {
            let mut packer = Packer::new(level);
            for size in [0, 1, 100_000, 3, 70_000] {
                let bytes: Vec<u8> = (0..size).map(|n: u64| ((n * n) >> 7) as u8).collect();
                assert_eq!(unpack(packer.member(&bytes), 1 << 20).unwrap(), bytes, "level {level}, {size} bytes");
            }
        }
    }

    #[test]
    fn unpacking_as_a_whole_gives_what_unpacking_gives() {
        let (one, two) = (pack(&[7; 5000]), [pack(b"abc"), pack(b"def")].concat());
        let cut = &one[..one.len() - 1];
        for (bytes, length) in [(&*one, 5000), (&one, 4999), (&one, 5001), (&one, u64::MAX), (&two, 6), (&two, 5)] {
            let text = |result: io::Result<Vec<u8>>| result.map_err(|e| e.to_string());
            assert_eq!(text(unpack_whole(bytes, length)), text(unpack(bytes, length)), "{length}");
        }
        assert_eq!(unpack_whole(&two, 3).unwrap(), b"abc");
        assert!(unpack_whole(cut, 5000).is_err() && unpack_whole(b"", 1).is_err());
    }

    #[test]
    fn reads_all_members_and_stops_at_the_limit() {
        let two = [pack(b"abc"), pack(b"def")].concat();
        assert_eq!(unpack(&two, 6).unwrap(), b"abcdef");
        let error = unpack(&two, 5).unwrap_err();
        assert_eq!(error.to_string(), "decompressed backup exceeds maximum allowed size of 5 bytes");
        assert!(unpack(&two[..two.len() - 1], 6).is_err(), "a truncated member must not pass");
    }
}
