//! Error correction around encrypted bytes (kopia: repo/ecc).
//!
//! The bytes, their length before them, are laid out in blocks of data shards; parity shards are computed for each block.
//! Each shard has a checksum, so that it is known which of them are damaged, and as many may be as there are parity shards.
//! First come the parity shards of all blocks, then the data shards.

mod reed_solomon;

use crate::format::FormatError;
use reed_solomon::ReedSolomon;

const STRUCTURE: &str = "error correction";
const LENGTH: usize = 4;
const CHECKSUM: usize = 4;
/// The shards of the layout for few bytes.
const SMALL_DATA: usize = 6;
const SMALL_PARITY: usize = 2;

/// Error correction with the strength of a repository.
#[derive(Debug)]
pub(super) struct Ecc {
    small: ReedSolomon,
    large: ReedSolomon,
    max_shard: usize,
}

/// The blocks into which some bytes are laid out.
struct Layout<'a> {
    code: &'a ReedSolomon,
    shard: usize,
    blocks: usize,
}

impl<'a> Layout<'a> {
    fn new(code: &'a ReedSolomon, shard: usize, blocks: usize) -> Self {
        Self { code, shard, blocks }
    }
}

fn bad(why: &str) -> FormatError {
    FormatError::new(STRUCTURE, why)
}

impl Ecc {
    /// Error correction of so many percent, 1 to 100.
    pub(super) fn new(percent: u8) -> Self {
        let (data, parity, max_shard) = parameters(percent);
        Self { small: ReedSolomon::new(SMALL_DATA, SMALL_PARITY), large: ReedSolomon::new(data, parity), max_shard }
    }

    /// The layout of plain bytes with their length.
    fn layout_of_plain(&self, length: usize) -> Layout<'_> {
        let (data, total) = (self.large.data(), self.large.total());
        if length <= 8 * total {
            Layout::new(&self.small, length.div_ceil(SMALL_DATA), 1)
        } else if length <= data * self.max_shard {
            Layout::new(&self.large, length.div_ceil(data), 1)
        } else {
            Layout::new(&self.large, self.max_shard, length.div_ceil(data * self.max_shard))
        }
    }

    /// The layout of stored bytes, by their number alone.
    fn layout_of_stored(&self, stored: usize) -> Layout<'_> {
        let total = self.large.total();
        let small_total = SMALL_DATA + SMALL_PARITY;
        let shard = |total: usize| stored.div_ceil(total).max(CHECKSUM + 1) - CHECKSUM;
        if stored <= small_total * (CHECKSUM + (8 * total).div_ceil(SMALL_DATA)) {
            Layout::new(&self.small, shard(small_total), 1)
        } else if stored <= total * (CHECKSUM + self.max_shard) {
            Layout::new(&self.large, shard(total), 1)
        } else {
            let block = total * (CHECKSUM + self.max_shard);
            Layout::new(&self.large, self.max_shard, stored.div_ceil(block))
        }
    }

    /// Lays bytes out with their parity.
    pub(super) fn encode(&self, plain: &[u8]) -> Result<Vec<u8>, FormatError> {
        let length = u32::try_from(plain.len()).map_err(|_| bad("too many bytes"))?;
        let layout = self.layout_of_plain(LENGTH + plain.len());
        // Only with several blocks the zeros at the end are left out.
        let is_padded = LENGTH + plain.len() <= self.large.data() * self.max_shard;
        let data = layout.code.data();
        let mut padded = Vec::with_capacity(layout.blocks * data * layout.shard);
        padded.extend_from_slice(&length.to_be_bytes());
        padded.extend_from_slice(plain);
        let unpadded = padded.len();
        padded.resize(layout.blocks * data * layout.shard, 0);
        let mut out = Vec::new();
        for block in padded.chunks_exact(data * layout.shard) {
            let shards: Vec<&[u8]> = block.chunks_exact(layout.shard).collect();
            for parity in layout.code.parity(&shards) {
                push_shard(&mut out, &parity, parity.len());
            }
        }
        for (number, shard) in padded.chunks_exact(layout.shard).enumerate() {
            let stored =
                if is_padded { shard.len() } else { unpadded.saturating_sub(number * layout.shard).min(shard.len()) };
            if stored > 0 {
                push_shard(&mut out, shard, stored);
            }
        }
        Ok(out)
    }

    /// Gives the bytes that were laid out; damaged shards are made anew.
    pub(super) fn decode(&self, stored: &[u8]) -> Result<Vec<u8>, FormatError> {
        let layout = self.layout_of_stored(stored.len());
        let stride = CHECKSUM + layout.shard;
        let (data, parity) = (layout.code.data(), layout.code.parity_count());
        let (parities, data_shards) =
            stored.split_at_checked(layout.blocks * parity * stride).ok_or_else(|| bad("it is cut off"))?;
        let mut plain = Vec::with_capacity(layout.blocks * data * layout.shard);
        for block in 0..layout.blocks {
            let mut damaged = Vec::new();
            let start = plain.len();
            for number in 0..data {
                let at = (block * data + number) * stride;
                let is_good = push_data(&mut plain, data_shards.get(at..).unwrap_or_default(), layout.shard);
                if !is_good {
                    damaged.push(number);
                }
            }
            if !damaged.is_empty() {
                let parities = parities
                    .chunks_exact(stride)
                    .skip(block * parity)
                    .take(parity)
                    .map(|stored| good_shard(stored, layout.shard))
                    .collect::<Vec<_>>();
                layout
                    .code
                    .repair(&mut plain[start..], layout.shard, &damaged, &parities)
                    .ok_or_else(|| bad("more is damaged than can be made anew"))?;
            }
        }
        let (length, plain) = plain.split_first_chunk::<LENGTH>().ok_or_else(|| bad("it is cut off"))?;
        let length = u32::from_be_bytes(*length) as usize;
        let plain = plain.get(..length).ok_or_else(|| bad("its length is wrong"))?;
        Ok(plain.to_vec())
    }
}

fn push_shard(out: &mut Vec<u8>, shard: &[u8], stored: usize) {
    out.extend_from_slice(&crc32fast::hash(shard).to_be_bytes());
    out.extend_from_slice(&shard[..stored]);
}

/// The shard at the beginning of stored bytes, where its checksum is right.
fn good_shard(stored: &[u8], shard: usize) -> Option<&[u8]> {
    let (checksum, rest) = stored.split_first_chunk::<CHECKSUM>()?;
    let rest = rest.get(..shard)?;
    (crc32fast::hash(rest) == u32::from_be_bytes(*checksum)).then_some(rest)
}

/// Appends a data shard with the zeros that are not stored, and tells whether its checksum is right. One that lies wholly in
/// these zeros has none.
fn push_data(plain: &mut Vec<u8>, stored: &[u8], shard: usize) -> bool {
    let start = plain.len();
    let (checksum, rest) = match stored.split_first_chunk::<CHECKSUM>() {
        Some((checksum, rest)) => (Some(*checksum), rest),
        None => (None, &[][..]),
    };
    plain.extend_from_slice(&rest[..shard.min(rest.len())]);
    plain.resize(start + shard, 0);
    match checksum {
        Some(checksum) => crc32fast::hash(&plain[start..]) == u32::from_be_bytes(checksum),
        None => stored.is_empty(),
    }
}

/// The numbers of data and parity shards and the longest shard, for a percentage.
fn parameters(percent: u8) -> (usize, usize, usize) {
    let percent = percent.clamp(1, 100);
    let max_shard: u16 = match percent {
        1 => 1024,
        2 => 512,
        3 => 256,
        4..=6 => 128,
        _ => 64,
    };
    let free = (f32::from(percent) - 400.0 / f32::from(max_shard)).max(0.01);
    let parity = (128.0 * free / 100.0).floor() as usize;
    let parity = parity.clamp(1, 128);
    if parity > 1 {
        return (128, parity, max_shard.into());
    }
    let data = (2.0 * 100.0 / free).floor() as usize;
    (data.clamp(128, 254), 2, max_shard.into())
}

#[cfg(test)]
mod tests;
