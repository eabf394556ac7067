//! S2 streams: the framing of Snappy around blocks that have one instruction more (klauspost/compress: s2).

use super::crc32c;
use super::error::{self, FIRST_CAPACITY, too_long};
use crate::format::FormatError;

const CHUNK_S2: u8 = 0x00;
const CHUNK_STORED: u8 = 0x01;
const CHUNK_IDENTIFIER: u8 = 0xff;
const IDENTIFIERS: [&[u8]; 2] = [b"S2sTwO", b"sNaPpY"];
const MAX_BLOCK: usize = 4 << 20;
const WRITTEN_BLOCK: usize = 1 << 20;

fn bad(why: &str) -> FormatError {
    error::bad(format!("the S2 stream {why}"))
}

/// The effort of the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    /// `s2-default` and the parallel ones.
    Default,
    /// `s2-better`
    Better,
}

/// Appends the stream of plain bytes.
pub(super) fn compress(effort: Effort, plain: &[u8], out: &mut Vec<u8>) {
    write_chunk(out, CHUNK_IDENTIFIER, &[IDENTIFIERS[0]]);
    for block in plain.chunks(WRITTEN_BLOCK) {
        let checksum = crc32c::masked(block).to_le_bytes();
        let packed = match effort {
            Effort::Default => minlz::s2::encode(block),
            Effort::Better => minlz::s2::encode_better(block),
        };
        if packed.len() < block.len() {
            write_chunk(out, CHUNK_S2, &[&checksum, &packed]);
        } else {
            write_chunk(out, CHUNK_STORED, &[&checksum, block]);
        }
    }
}

fn write_chunk(out: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let [low, middle, high, ..] = length.to_le_bytes();
    out.extend_from_slice(&[kind, low, middle, high]);
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Reads a stream of at most `limit` plain bytes.
pub(super) fn decompress(mut stream: &[u8], limit: usize) -> Result<Vec<u8>, FormatError> {
    let mut plain = Vec::with_capacity(limit.min(FIRST_CAPACITY));
    let mut is_first = true;
    while !stream.is_empty() {
        let ([kind, length @ ..], rest) = stream.split_first_chunk::<4>().ok_or_else(|| bad("is cut off"))?;
        let [low, middle, high] = *length;
        let length = u32::from_le_bytes([low, middle, high, 0]) as usize;
        let (chunk, rest) = rest.split_at_checked(length).ok_or_else(|| bad("is cut off"))?;
        stream = rest;
        if is_first && *kind != CHUNK_IDENTIFIER {
            return Err(bad("has no identifier"));
        }
        is_first = false;
        match *kind {
            CHUNK_IDENTIFIER if IDENTIFIERS.contains(&chunk) => {}
            CHUNK_S2 | CHUNK_STORED => {
                let (checksum, block) =
                    chunk.split_first_chunk::<4>().ok_or_else(|| bad("has a chunk without checksum"))?;
                let start = plain.len();
                let room = limit - start;
                if *kind == CHUNK_S2 {
                    read_block(block, &mut plain, room).map_err(|error| error.into_format(limit))?;
                } else if block.len() > room {
                    return Err(too_long(limit));
                } else {
                    plain.extend_from_slice(block);
                }
                if crc32c::masked(&plain[start..]) != u32::from_le_bytes(*checksum) {
                    return Err(bad("has a wrong checksum"));
                }
            }
            // Padding, an index, and whatever else may be passed over.
            0x80..=0xfe => {}
            _ => return Err(bad("has a chunk that is not known")),
        }
    }
    if is_first {
        return Err(bad("is empty"));
    }
    Ok(plain)
}

/// An error of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockError {
    Damaged,
    TooLong,
}

impl BlockError {
    fn into_format(self, limit: usize) -> FormatError {
        match self {
            Self::Damaged => bad("is damaged"),
            Self::TooLong => too_long(limit),
        }
    }
}

/// Appends the plain bytes of a block, at most `room`.
fn read_block(block: &[u8], plain: &mut Vec<u8>, room: usize) -> Result<(), BlockError> {
    let mut input = Input(block);
    let length = input.uvarint().ok_or(BlockError::Damaged)?;
    if length > MAX_BLOCK {
        return Err(BlockError::Damaged);
    }
    if length > room {
        return Err(BlockError::TooLong);
    }
    let start = plain.len();
    plain.reserve(length);
    let end = start + length;
    read_instructions(&mut input, plain, start, end).ok_or(BlockError::Damaged)?;
    if plain.len() == end { Ok(()) } else { Err(BlockError::Damaged) }
}

fn read_instructions(input: &mut Input<'_>, plain: &mut Vec<u8>, start: usize, end: usize) -> Option<()> {
    let mut offset = 0;
    while let Some(tag) = input.byte() {
        let high = usize::from(tag >> 2);
        let length = match tag & 3 {
            0 => {
                let length = match high {
                    60..=63 => input.number(high - 59)?,
                    _ => high,
                };
                let literal = input.take(length.checked_add(1)?)?;
                if literal.len() > end - plain.len() {
                    return None;
                }
                plain.extend_from_slice(literal);
                continue;
            }
            1 => {
                let found = (high >> 3) << 8 | usize::from(input.byte()?);
                let length = high & 7;
                if found != 0 {
                    offset = found;
                    length + 4
                } else {
                    // No distance: the last one again, with lengths of its own. This is what Snappy does not have.
                    match length {
                        5 => input.number(1)? + 8,
                        6 => input.number(2)? + 256 + 4,
                        7 => input.number(3)? + 65_536 + 4,
                        _ => length + 4,
                    }
                }
            }
            2 => {
                offset = input.number(2)?;
                high + 1
            }
            _ => {
                offset = input.number(4)?;
                high + 1
            }
        };
        copy(plain, start, end, offset, length)?;
    }
    Some(())
}

/// Repeats what stands `offset` bytes before the end.
fn copy(plain: &mut Vec<u8>, start: usize, end: usize, offset: usize, length: usize) -> Option<()> {
    if offset == 0 || offset > plain.len() - start || length > end - plain.len() {
        return None;
    }
    let from = plain.len() - offset;
    let mut left = length;
    // The source may reach into what is being written: then it grows with each round.
    while left > 0 {
        let part = left.min(plain.len() - from);
        plain.extend_from_within(from..from + part);
        left -= part;
    }
    Some(())
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
    /// A little-endian number of so many bytes.
    fn number(&mut self, bytes: usize) -> Option<usize> {
        let taken = self.take(bytes)?;
        Some(taken.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte)))
    }
    fn uvarint(&mut self) -> Option<usize> {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            value |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}
