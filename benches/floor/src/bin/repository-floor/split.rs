//! A splitter: cuts where the hash of the last 64 bytes has 22 zeros at its end.

/// The shortest and the longest chunk.
const MIN: usize = 2 << 20;
pub(crate) const MAX: usize = 8 << 20;
const MASK: u32 = (4 << 20) - 1;
const WINDOW: usize = 64;
/// Parts of a block that are hashed side by side.
const LANES: usize = 4;
const LANE: usize = 8 << 10;
const BLOCK: usize = LANES * LANE;

/// The numbers for which bytes stand, and the bits that are 0 where a chunk ends.
pub(crate) struct Splitter {
    table: [u32; 256],
    mask: u32,
}

impl Splitter {
    pub(crate) fn new() -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let table = std::array::from_fn(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u32
        });
        Self { table, mask: MASK }
    }

    fn roll(&self, hash: u32, leaving: u8, entering: u8) -> u32 {
        hash.rotate_left(1) ^ self.table[usize::from(leaving)] ^ self.table[usize::from(entering)]
    }

    fn start(&self, window: &[u8]) -> u32 {
        window.iter().fold(0, |hash, byte| hash.rotate_left(1) ^ self.table[usize::from(*byte)])
    }

    /// The length of the first chunk of these bytes.
    pub(crate) fn cut(&self, bytes: &[u8]) -> usize {
        let end = bytes.len().min(MAX);
        if end <= MIN {
            return end;
        }
        let mut at = MIN;
        while at + BLOCK <= end {
            if let Some(found) = self.in_block(&bytes[at - WINDOW..at + BLOCK]) {
                return at + found;
            }
            at += BLOCK;
        }
        let mut hash = self.start(&bytes[at - WINDOW..at]);
        for next in at..end {
            hash = self.roll(hash, bytes[next - WINDOW], bytes[next]);
            if hash & self.mask == 0 {
                return next + 1;
            }
        }
        end
    }

    /// The bytes up to the first cut behind the window with which a block begins.
    fn in_block(&self, block: &[u8]) -> Option<usize> {
        let lanes: [&[u8; WINDOW + LANE]; LANES] = [0, 1, 2, 3].map(|lane| {
            // A block has so many bytes.
            block[lane * LANE..].first_chunk().unwrap_or(&[0; WINDOW + LANE])
        });
        let mut hashes = lanes.map(|lane| self.start(&lane[..WINDOW]));
        let mut found = [None; LANES];
        for at in 0..LANE {
            let mut is_any = false;
            for (hash, lane) in hashes.iter_mut().zip(&lanes) {
                *hash = self.roll(*hash, lane[at], lane[at + WINDOW]);
                is_any |= *hash & self.mask == 0;
            }
            if is_any {
                for (found, hash) in found.iter_mut().zip(hashes) {
                    if found.is_none() && hash & self.mask == 0 {
                        *found = Some(at + 1);
                    }
                }
            }
        }
        let lane = found.iter().position(Option::is_some)?;
        found[lane].map(|at| lane * LANE + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_cut_where_a_plain_loop_cuts() {
        let splitter = Splitter { mask: (1 << 15) - 1, ..Splitter::new() };
        let mut state = 1_u64;
        let mut byte = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        };
        let mut cuts = 0;
        for _ in 0..20 {
            let block: Vec<u8> = (0..WINDOW + BLOCK).map(|_| byte()).collect();
            let is_cut = |window: &[u8]| splitter.start(window) & splitter.mask == 0;
            let plain = block.windows(WINDOW).skip(1).position(is_cut).map(|at| at + 1);
            assert_eq!(splitter.in_block(&block), plain);
            cuts += usize::from(plain.is_some());
        }
        assert!((1..20).contains(&cuts), "{cuts}");
    }

    #[test]
    fn a_short_end_is_a_chunk() {
        assert_eq!(Splitter::new().cut(&[1; 1000]), 1000);
    }
}
