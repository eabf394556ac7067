//! Hashes of the last 64 bytes, found along a slice.

/// The length of the window.
pub(super) const WINDOW: usize = 64;
/// The bytes of each of the four lanes of a block.
const LANE: usize = 8 << 10;
const LANES: usize = 4;
const BLOCK: usize = LANES * LANE;

/// A hash over the last 64 bytes that is carried on byte by byte.
pub(super) trait Rolling {
    /// The hash.
    type Hash: Copy;
    /// The hash of 64 zeros.
    const ZERO: Self::Hash;
    /// Carries the hash on: `leaving` is the byte 64 before `entering`.
    fn roll(hash: Self::Hash, leaving: u8, entering: u8) -> Self::Hash;
    /// True where the bits of the mask are 0.
    fn is_cut(hash: Self::Hash, mask: u32) -> bool;
}

/// The last bytes of a chunk, where the stream comes in pieces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    bytes: [u8; WINDOW],
    length: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self { bytes: [0; WINDOW], length: 0 }
    }
}

impl Window {
    /// Appends bytes that follow, of which the last 64 are kept.
    pub(super) fn keep(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(WINDOW)..];
        let kept = self.length.min(WINDOW - bytes.len());
        self.bytes.copy_within(self.length - kept..self.length, 0);
        self.bytes[kept..kept + bytes.len()].copy_from_slice(bytes);
        self.length = kept + bytes.len();
    }

    /// Finds the first byte, not among the first `untested`, whose window has the bits of the mask 0, and gives the number
    /// of bytes up to it and with it. What was kept and what is untested are 64 bytes less one at least.
    pub(super) fn find<H: Rolling>(&self, bytes: &[u8], untested: usize, mask: u32) -> Option<usize> {
        // Windows that begin in what was kept.
        let head = bytes.len().min(WINDOW);
        let mut joined = [0; 2 * WINDOW];
        joined[..self.length].copy_from_slice(&self.bytes[..self.length]);
        joined[self.length..self.length + head].copy_from_slice(&bytes[..head]);
        let joined = &joined[..self.length + head];
        let skipped = untested.min(head) + self.length;
        let found = find_from::<H>(joined, skipped, mask);
        if let Some(end) = found {
            return Some(end - self.length);
        }
        // All others lie in `bytes`.
        let mut at = head.max(untested);
        while let Some(block) = bytes.get(at - WINDOW.min(at)..).and_then(<[u8]>::first_chunk::<{ WINDOW + BLOCK }>) {
            if let Some(end) = find_in_lanes::<H>(block, mask) {
                return Some(at + end);
            }
            at += BLOCK;
        }
        find_from::<H>(bytes, at, mask)
    }
}

/// Finds the first cut at or after the byte number `at`.
fn find_from<H: Rolling>(bytes: &[u8], at: usize, mask: u32) -> Option<usize> {
    let tested = bytes.get(at..)?;
    let mut hash = start::<H>(&bytes[..at]);
    // Where there is no window of 64 bytes yet, zeros stand before the stream.
    let zeros = WINDOW.saturating_sub(at);
    let leaving = std::iter::repeat_n(&0, zeros).chain(&bytes[at.saturating_sub(WINDOW)..]);
    for (number, (entering, leaving)) in tested.iter().zip(leaving).enumerate() {
        hash = H::roll(hash, *leaving, *entering);
        if H::is_cut(hash, mask) {
            return Some(at + number + 1);
        }
    }
    None
}

/// The hash of the last 64 bytes of `before`.
fn start<H: Rolling>(before: &[u8]) -> H::Hash {
    let window = &before[before.len().saturating_sub(WINDOW)..];
    window.iter().fold(H::ZERO, |hash, entering| H::roll(hash, 0, *entering))
}

/// Finds the first cut after the 64 bytes with which the block begins. Four parts of it are hashed side by side: the
/// processor waits for the table of one while it works on the others.
fn find_in_lanes<H: Rolling>(block: &[u8; WINDOW + BLOCK], mask: u32) -> Option<usize> {
    let lane =
        |number: usize| -> &[u8; WINDOW + LANE] { block[number * LANE..].first_chunk().unwrap_or(&[0; WINDOW + LANE]) };
    let lanes = [lane(0), lane(1), lane(2), lane(3)];
    let mut hashes = lanes.map(|lane| start::<H>(&lane[..WINDOW]));
    let mut found = [None; LANES];
    for at in 0..LANE {
        let mut any = false;
        for (hash, lane) in hashes.iter_mut().zip(&lanes) {
            *hash = H::roll(*hash, lane[at], lane[at + WINDOW]);
            any |= H::is_cut(*hash, mask);
        }
        if any {
            for (found, hash) in found.iter_mut().zip(hashes) {
                if found.is_none() && H::is_cut(hash, mask) {
                    *found = Some(at);
                }
            }
            if found[0].is_some() {
                break;
            }
        }
    }
    let number = found.iter().position(Option::is_some)?;
    found[number].map(|at| number * LANE + at + 1)
}
