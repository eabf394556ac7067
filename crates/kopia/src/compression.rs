//! Compressions of the format (kopia: repo/compression).
//!
//! The plain bytes of a compressed content are a header ID, big endian, and the compressed stream. Empty contents are
//! never compressed.

mod crc32c;
mod error;
mod s2;

use crate::format::FormatError;
use error::{FIRST_CAPACITY, bad, too_long};
use flate2::{Decompress, FlushDecompress, Status};
use std::io::{Read, Write};
use zstd::zstd_safe::CParameter;

/// The length of the header ID.
const HEADER_LENGTH: usize = 4;
/// The length that no content reaches.
const MAX_PLAIN: usize = 1 << 28;

/// A compression of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the format's own names")]
pub enum Compression {
    Gzip,
    GzipBestSpeed,
    GzipBestCompression,
    Zstd,
    ZstdFastest,
    ZstdBetterCompression,
    ZstdBestCompression,
    S2Default,
    S2Better,
    S2Parallel4,
    S2Parallel8,
    Pgzip,
    PgzipBestSpeed,
    PgzipBestCompression,
    /// Read only: kopia can neither read nor write it after 0.22.3.
    Lz4,
    DeflateDefault,
    DeflateBestSpeed,
    DeflateBestCompression,
}

/// The header IDs and names of all compressions.
const ALL: [(Compression, u32, &str); 18] = [
    (Compression::Gzip, 0x1000, "gzip"),
    (Compression::GzipBestSpeed, 0x1001, "gzip-best-speed"),
    (Compression::GzipBestCompression, 0x1002, "gzip-best-compression"),
    (Compression::Zstd, 0x1100, "zstd"),
    (Compression::ZstdFastest, 0x1101, "zstd-fastest"),
    (Compression::ZstdBetterCompression, 0x1102, "zstd-better-compression"),
    (Compression::ZstdBestCompression, 0x1103, "zstd-best-compression"),
    (Compression::S2Default, 0x1200, "s2-default"),
    (Compression::S2Better, 0x1201, "s2-better"),
    (Compression::S2Parallel4, 0x1202, "s2-parallel-4"),
    (Compression::S2Parallel8, 0x1203, "s2-parallel-8"),
    (Compression::Pgzip, 0x1300, "pgzip"),
    (Compression::PgzipBestSpeed, 0x1301, "pgzip-best-speed"),
    (Compression::PgzipBestCompression, 0x1302, "pgzip-best-compression"),
    (Compression::Lz4, 0x1400, "lz4"),
    (Compression::DeflateDefault, 0x1500, "deflate-default"),
    (Compression::DeflateBestSpeed, 0x1501, "deflate-best-speed"),
    (Compression::DeflateBestCompression, 0x1502, "deflate-best-compression"),
];

/// The stream behind a header, and how hard the writer tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Gzip(u32),
    Deflate(u32),
    Zstd(i32),
    S2(s2::Effort),
    Lz4,
}

impl Compression {
    /// All compressions.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.into_iter().map(|(compression, _, _)| compression)
    }
    /// Finds the compression of a header ID.
    pub fn from_header(header: u32) -> Option<Self> {
        ALL.into_iter().find(|(_, known, _)| *known == header).map(|(compression, _, _)| compression)
    }
    /// Finds the compression of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        ALL.into_iter().find(|(_, _, known)| *known == name).map(|(compression, _, _)| compression)
    }
    fn row(self) -> (Self, u32, &'static str) {
        // The table holds each of them in the order of their definition.
        ALL[self as usize]
    }
    /// The header ID, in indexes and before the stream.
    pub fn header(self) -> u32 {
        self.row().1
    }
    /// The name in policies.
    pub fn name(self) -> &'static str {
        self.row().2
    }
    /// True where contents may be written with it, so that kopia can read them.
    pub fn is_writable(self) -> bool {
        self != Self::Lz4
    }
    fn stream(self) -> Stream {
        match self {
            Self::Gzip | Self::Pgzip => Stream::Gzip(6),
            Self::GzipBestSpeed | Self::PgzipBestSpeed => Stream::Gzip(1),
            Self::GzipBestCompression | Self::PgzipBestCompression => Stream::Gzip(9),
            Self::DeflateDefault => Stream::Deflate(6),
            Self::DeflateBestSpeed => Stream::Deflate(1),
            Self::DeflateBestCompression => Stream::Deflate(9),
            // Levels of the C library that take about the time of kopia's.
            Self::ZstdFastest => Stream::Zstd(1),
            Self::Zstd => Stream::Zstd(3),
            Self::ZstdBetterCompression => Stream::Zstd(7),
            Self::ZstdBestCompression => Stream::Zstd(12),
            Self::S2Default | Self::S2Parallel4 | Self::S2Parallel8 => Stream::S2(s2::Effort::Default),
            Self::S2Better => Stream::S2(s2::Effort::Better),
            Self::Lz4 => Stream::Lz4,
        }
    }
}

/// The header ID at the beginning of an object that is compressed as a whole.
pub fn header_of(stored: &[u8]) -> Option<u32> {
    stored.first_chunk().map(|header| u32::from_be_bytes(*header))
}

/// Decompresses the plain bytes of a content whose index names `header`: they begin with the same header ID. At most
/// `limit` bytes come out.
///
/// # Errors
/// Another header, an unknown one, damaged streams, more bytes than `limit`.
pub fn decompress(header: u32, stored: &[u8], limit: usize) -> Result<Vec<u8>, FormatError> {
    let (found, stream) = stored.split_first_chunk::<HEADER_LENGTH>().ok_or_else(|| bad("it is too short"))?;
    let found = u32::from_be_bytes(*found);
    if found != header {
        return Err(bad(format!("it begins with {found:#x} and should with {header:#x}")));
    }
    let compression =
        Compression::from_header(header).ok_or_else(|| bad(format!("the compression {header:#x} is not known")))?;
    // No content is longer; zstd takes memory for all of it at once.
    let limit = limit.min(MAX_PLAIN);
    match compression.stream() {
        Stream::Gzip(_) => gunzip(stream, limit),
        Stream::Deflate(_) => inflate(stream, limit),
        Stream::Zstd(_) => zstd::bulk::decompress(stream, limit)
            .map_err(|error| bad(format!("the zstd stream is damaged or too long ({error})"))),
        Stream::S2(_) => s2::decompress(stream, limit),
        Stream::Lz4 => read_limited(lz4_flex::frame::FrameDecoder::new(stream), limit),
    }
}

/// Decompresses gzip, several members too, into at most `limit` bytes.
///
/// # Errors
/// Damaged streams, more bytes than `limit`.
pub fn gunzip(stream: &[u8], limit: usize) -> Result<Vec<u8>, FormatError> {
    read_limited(flate2::bufread::MultiGzDecoder::new(stream), limit)
}

fn read_limited(stream: impl Read, limit: usize) -> Result<Vec<u8>, FormatError> {
    let mut plain = Vec::with_capacity(limit.min(FIRST_CAPACITY));
    stream
        .take((limit as u64).saturating_add(1))
        .read_to_end(&mut plain)
        .map_err(|error| bad(format!("the stream is damaged ({error})")))?;
    if plain.len() > limit {
        return Err(too_long(limit));
    }
    Ok(plain)
}

fn inflate(stream: &[u8], limit: usize) -> Result<Vec<u8>, FormatError> {
    let mut plain = Vec::with_capacity(limit.clamp(64, FIRST_CAPACITY));
    let mut inflater = Decompress::new(false);
    loop {
        let done = usize::try_from(inflater.total_in()).unwrap_or(usize::MAX);
        let rest = stream.get(done..).unwrap_or_default();
        let before = plain.len();
        let status = inflater
            .decompress_vec(rest, &mut plain, FlushDecompress::None)
            .map_err(|error| bad(format!("the stream is damaged ({error})")))?;
        if plain.len() > limit {
            return Err(too_long(limit));
        }
        if status == Status::StreamEnd {
            return Ok(plain);
        }
        if plain.len() == plain.capacity() {
            plain.reserve(plain.len());
        } else if plain.len() == before {
            return Err(bad("the stream is cut off"));
        }
    }
}

/// A writer of compressed contents. Keeps its working memory from one content to the next.
pub struct Compressor {
    compression: Compression,
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor").field("compression", &self.compression).finish_non_exhaustive()
    }
}

impl Compressor {
    /// A writer for a compression.
    ///
    /// # Errors
    /// A compression that kopia cannot read.
    pub fn new(compression: Compression) -> Result<Self, FormatError> {
        if !compression.is_writable() {
            return Err(bad(format!("{} is no longer written", compression.name())));
        }
        let zstd = match compression.stream() {
            Stream::Zstd(level) => {
                let failed = |error| bad(format!("zstd: {error}"));
                let mut compressor = zstd::bulk::Compressor::new(level).map_err(failed)?;
                compressor.set_parameter(CParameter::ChecksumFlag(true)).map_err(failed)?;
                Some(compressor)
            }
            _ => None,
        };
        Ok(Self { compression, zstd })
    }
    /// Compresses plain bytes, the header before them. `None` where that is not shorter: the content is stored as it is
    /// then.
    ///
    /// # Errors
    /// The errors of the libraries.
    pub fn compress(&mut self, plain: &[u8]) -> Result<Option<Vec<u8>>, FormatError> {
        if plain.is_empty() {
            return Ok(None);
        }
        let failed = |error: std::io::Error| bad(format!("it cannot be written ({error})"));
        let mut out = Vec::with_capacity(HEADER_LENGTH + plain.len());
        out.extend_from_slice(&self.compression.header().to_be_bytes());
        match (self.compression.stream(), &mut self.zstd) {
            (Stream::Gzip(level), _) => {
                let level = flate2::Compression::new(level);
                let mut writer = flate2::write::GzEncoder::new(out, level);
                writer.write_all(plain).map_err(failed)?;
                out = writer.finish().map_err(failed)?;
            }
            (Stream::Deflate(level), _) => {
                let level = flate2::Compression::new(level);
                let mut writer = flate2::write::DeflateEncoder::new(out, level);
                writer.write_all(plain).map_err(failed)?;
                out = writer.finish().map_err(failed)?;
            }
            (Stream::Zstd(_), Some(compressor)) => {
                out.extend_from_slice(&compressor.compress(plain).map_err(failed)?);
            }
            (Stream::S2(effort), _) => s2::compress(effort, plain, &mut out),
            (Stream::Zstd(_) | Stream::Lz4, _) => return Ok(None),
        }
        Ok(Some(out).filter(|out| out.len() < plain.len()))
    }
}

#[cfg(test)]
mod tests;
