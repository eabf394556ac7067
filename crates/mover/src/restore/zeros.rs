//! Blocks of zeros in the bytes of a file.

use std::ops::Range;

/// The blocks that are looked at: what file systems have.
const BLOCK: usize = 4096;
const ZEROS: [u8; BLOCK] = [0; BLOCK];

/// A part of some bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stretch {
    /// The place in the bytes.
    pub(super) range: Range<usize>,
    /// True for whole blocks of zeros.
    pub(super) is_zero: bool,
}

/// Cuts bytes that lie at an offset of a file into stretches of whole blocks of zeros and of everything else.
pub(super) fn stretches(offset: u64, bytes: &[u8]) -> impl Iterator<Item = Stretch> {
    let past = usize::try_from(offset % BLOCK as u64).unwrap_or(0);
    let mut blocks = Blocks { bytes, at: 0, past }.peekable();
    std::iter::from_fn(move || {
        let mut stretch = blocks.next()?;
        while let Some(next) = blocks.next_if(|next| next.is_zero == stretch.is_zero) {
            stretch.range.end = next.range.end;
        }
        Some(stretch)
    })
}

struct Blocks<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The bytes of the first block that lie before these.
    past: usize,
}

impl Iterator for Blocks<'_> {
    type Item = Stretch;

    fn next(&mut self) -> Option<Stretch> {
        let start = self.at;
        let end = (start + BLOCK - self.past).min(self.bytes.len());
        let block = self.bytes.get(start..end).filter(|block| !block.is_empty())?;
        (self.at, self.past) = (end, 0);
        Some(Stretch { range: start..end, is_zero: block == ZEROS.as_slice() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_of_zeros_are_told_from_the_rest() {
        let block = |byte: u8| vec![byte; BLOCK];
        let row = |offset: u64, bytes: &[u8]| {
            stretches(offset, bytes).map(|part| (part.range.start, part.range.end, part.is_zero)).collect::<Vec<_>>()
        };
        assert_eq!(row(0, b""), []);
        assert_eq!(row(0, &[0; 100]), [(0, 100, false)]);
        assert_eq!(row(8192, &block(0)), [(0, 4096, true)]);
        assert_eq!(row(1, &block(0)), [(0, 4096, false)]);
        let mixed = [block(0), block(0), block(1), block(2), block(0), vec![0; 5]].concat();
        assert_eq!(
            row(0, &mixed),
            [(0, 8192, true), (8192, 16384, false), (16384, 20480, true), (20480, 20485, false)]
        );
        // The bytes begin 96 before the end of a block.
        let shifted = [vec![0; 96], block(0), vec![7; 3]].concat();
        assert_eq!(row(4000, &shifted), [(0, 96, false), (96, 4192, true), (4192, 4195, false)]);
        let mut almost = block(0);
        almost[4095] = 1;
        assert_eq!(row(0, &almost), [(0, 4096, false)]);
    }
}
