//! Compresses archives, most bytes of which repeat bytes that stand shortly before them.
//!
//! An object stands in an archive twice, and its headers hardly differ from those of the object before it. The writer of the
//! tar says so ([`Likeness`]), and the compressor does not search for these bytes. A general compressor searches for every
//! byte: it took twice the time for the same size. The format is RFC 1951, and RFC 1952 around it.

mod block;
mod huffman;

use block::Block;
use std::ops::Range;

/// Bytes that are mostly the same as the bytes at a distance before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Likeness {
    /// The offset at which these bytes begin.
    pub(crate) at: usize,
    /// The number of these bytes.
    pub(crate) length: usize,
    /// The distance from these bytes back to the bytes that they are like.
    pub(crate) distance: usize,
}

/// The largest distance of a match.
pub(crate) const WINDOW: usize = 32 << 10;
/// The longest match, and the shortest that is worth one.
const LONGEST: usize = 258;
const SHORTEST: usize = 4;
/// Places of a match that are noted.
const NOTED: usize = 16;
/// Searches in vain after which one more place is passed over at a time, and the most of those.
const PATIENCE: usize = 8;
const MOST_SKIPPED: usize = 3;
/// Tokens of a block: enough that its codes cost little, and few enough that they fit.
const TOKENS: usize = 24 << 10;
/// Bits of a place in the table.
const PLACES: u32 = 14;

/// Compresses one text after the other, in the same memory.
pub(crate) struct Deflater {
    /// The last two offsets of four bytes with this hash, plus one.
    table: Vec<[u32; 2]>,
    block: Block,
}

impl Deflater {
    pub(crate) fn new() -> Self {
        Self { table: vec![[0; 2]; 1 << PLACES], block: Block::new(TOKENS + MOST_SKIPPED + 1) }
    }

    /// Appends one gzip member of these bytes. It compares the bytes that are said to be alike, so that a wrong [`Likeness`]
    /// costs size and nothing else.
    pub(crate) fn member(&mut self, bytes: &[u8], alike: &[Likeness], out: &mut Vec<u8>) {
        // Magic, deflate, no flags, no time, fastest, unknown system.
        out.extend_from_slice(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 0xff]);
        self.table.fill([0; 2]);
        let mut from = 0;
        for one in alike {
            let (at, end) = (one.at.min(bytes.len()), one.at.saturating_add(one.length).min(bytes.len()));
            if at < from || one.distance > at.min(WINDOW) || one.distance == 0 {
                continue;
            }
            self.search(bytes, from, at, out);
            self.compare(bytes, at..end, one.distance, out);
            from = end;
        }
        self.search(bytes, from, bytes.len(), out);
        self.block.write(out, true);
        let mut crc = libdeflater::Crc::new();
        crc.update(bytes);
        out.extend_from_slice(&crc.sum().to_le_bytes());
        // Modulo 2^32, as the format has it.
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    }

    /// Takes up bytes that are mostly like those at this distance before them.
    fn compare(&mut self, bytes: &[u8], range: Range<usize>, distance: usize, out: &mut Vec<u8>) {
        let mut at = range.start;
        while at < range.end {
            let length = same(bytes, at - distance, at, range.end);
            if length >= SHORTEST {
                self.block.copy(length, distance);
                at += length;
            } else {
                self.block.literal(bytes[at]);
                at += 1;
            }
            self.write_when_full(out);
        }
    }

    /// Takes up bytes of which nothing is known.
    fn search(&mut self, bytes: &[u8], from: usize, end: usize, out: &mut Vec<u8>) {
        let (mut at, mut missed) = (from, 0_usize);
        while at < end {
            let (length, distance) = self.find(bytes, at, end);
            if length >= SHORTEST {
                missed = 0;
                self.block.copy(length, distance);
                // What begins deep inside a long match is mostly found by what stood before it.
                for inside in at + 1..at + length.min(NOTED) {
                    self.note(bytes, inside);
                }
                at += length;
            } else {
                // Where nothing was found for a while, not every place is searched.
                let next = (at + 1 + (missed / PATIENCE).min(MOST_SKIPPED)).min(end);
                bytes[at..next].iter().for_each(|byte| self.block.literal(*byte));
                missed += 1;
                at = next;
            }
            self.write_when_full(out);
        }
    }

    /// Gives length and distance of the longer of the two matches that it tries, and notes the place.
    fn find(&mut self, bytes: &[u8], at: usize, end: usize) -> (usize, usize) {
        let Some((four, seen)) = self.note(bytes, at) else { return (0, 0) };
        let mut best = (0, 0);
        for place in seen {
            let Some(place) = (place as usize).checked_sub(1) else { break };
            if at - place > WINDOW {
                break;
            }
            if four_at(bytes, place) != Some(four) {
                continue;
            }
            let length = same(bytes, place, at, end);
            if length > best.0 {
                best = (length, at - place);
            }
        }
        best
    }

    /// Notes where the next four bytes stand; gives them, and where they, or others of their hash, stood before.
    fn note(&mut self, bytes: &[u8], at: usize) -> Option<(u32, [u32; 2])> {
        let four = four_at(bytes, at)?;
        let place = &mut self.table[(four.wrapping_mul(0x9e37_79b1) >> (32 - PLACES)) as usize];
        let seen = *place;
        // A text of 4 GiB would find nothing of its beginning.
        *place = [(at as u32).wrapping_add(1), seen[0]];
        Some((four, seen))
    }

    fn write_when_full(&mut self, out: &mut Vec<u8>) {
        if self.block.len() >= TOKENS {
            self.block.write(out, false);
        }
    }
}

fn four_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|four| u32::from_le_bytes(*four))
}

/// The number of bytes that are the same in both places, before the end and within one match.
fn same(bytes: &[u8], before: usize, at: usize, end: usize) -> usize {
    let most = LONGEST.min(end - at);
    let (one, other) = (&bytes[before..before + most], &bytes[at..at + most]);
    let mut length = 0;
    for (a, b) in one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0) {
        let differing = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differing != 0 {
            return length + differing.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    length + one[length..].iter().zip(&other[length..]).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gzip::unpack;
    use proptest::prelude::*;

    fn packed(bytes: &[u8], alike: &[Likeness]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut deflater = Deflater::new();
        // What is left of one text must not be found in the next.
        deflater.member(b"something that stands before, something that stands before", &[], &mut Vec::new());
        deflater.member(bytes, alike, &mut out);
        out
    }

    fn comes_back(bytes: &[u8], alike: &[Likeness]) -> bool {
        let packed = packed(bytes, alike);
        // Both readers: of streams and of whole texts.
        let mut whole = vec![0; bytes.len()];
        let read = libdeflater::Decompressor::new().gzip_decompress(&packed, &mut whole);
        unpack(&packed, u64::MAX).unwrap() == bytes && read == Ok(bytes.len()) && whole == bytes
    }

    #[test]
    fn texts_of_any_kind_come_back() {
        let random: Vec<u8> = (0_u64..200_000).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 29) as u8).collect();
        let words = "every word of it comes again, now and then; ".repeat(5000).into_bytes();
        let far: Vec<u8> = [&random[..WINDOW], &random[..WINDOW], &random[..WINDOW + 1], &random[..]].concat();
        for text in [&b""[..], b"a", b"abc", b"aaaa", &[0; 300_000], &random, &words, &far] {
            assert!(comes_back(text, &[]), "{} bytes", text.len());
        }
    }

    #[test]
    fn what_is_said_to_be_alike_costs_next_to_nothing() {
        let body: Vec<u8> = (0_u64..20_000).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 29) as u8).collect();
        let mut twice = [&body[..], &body].concat();
        let alike = [Likeness { at: body.len(), length: body.len(), distance: body.len() }];
        let once = packed(&body, &[]).len();
        assert!(packed(&twice, &alike).len() - once < 300);
        // A difference is no mistake.
        twice[30_000] ^= 1;
        assert!(comes_back(&twice, &alike));
        assert!(packed(&twice, &alike).len() - once < 300);
    }

    #[test]
    fn a_wrong_word_about_likeness_does_no_harm() {
        let text = "every word of it comes again, now and then; ".repeat(50).into_bytes();
        let likeness = |at, length, distance| Likeness { at, length, distance };
        for alike in [
            likeness(0, 100, 1),
            likeness(10, 100, 11),
            likeness(10, 100, 10),
            likeness(100, 50, 0),
            likeness(100, usize::MAX, 3),
            likeness(usize::MAX, usize::MAX, 3),
            likeness(1000, 100, WINDOW + 1),
        ] {
            assert!(comes_back(&text, &[alike]), "{alike:?}");
            assert!(comes_back(&text, &[alike, likeness(120, 10, 50), alike]), "{alike:?}, twice");
        }
    }

    proptest! {
        #[test]
        fn every_text_comes_back(
            pieces in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..60), 1_usize..200), 0..40),
            alike in proptest::collection::vec((0_usize..20_000, 0_usize..3000, 0_usize..40_000), 0..6),
        ) {
            let bytes: Vec<u8> = pieces.iter().flat_map(|(piece, times)| piece.repeat(*times)).collect();
            let alike: Vec<Likeness> = alike.into_iter().map(|(at, length, distance)| Likeness { at, length, distance }).collect();
            prop_assert!(comes_back(&bytes, &alike));
        }
    }
}
