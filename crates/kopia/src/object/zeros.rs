//! Zeros, of which a splitter makes the same chunk again and again.

use crate::format::object_id::ObjectId;
use crate::splitter::SplitterAlgorithm;

static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// The chunk that a splitter makes of zeros when it begins with them.
#[derive(Debug, Clone, Copy)]
pub(super) struct ZeroChunk {
    pub(super) length: u64,
    /// As soon as one is stored.
    pub(super) object: Option<ObjectId>,
}

impl ZeroChunk {
    /// The chunk of an endless stretch; `None` where a splitter makes none of so few zeros.
    pub(super) fn of(algorithm: SplitterAlgorithm, count: u64) -> Option<Self> {
        // No splitter makes shorter ones.
        (count >= u64::from(algorithm.max_chunk() / 4))
            .then(|| Self { length: length_of_zeros(algorithm), object: None })
    }
}

/// Zeros, as many as are wanted or there are.
pub(super) fn stretch(wanted: u64) -> &'static [u8] {
    usize::try_from(wanted).ok().and_then(|wanted| ZEROS.get(..wanted)).unwrap_or(&ZEROS)
}

/// The length of the first chunk of an endless stretch of zeros.
fn length_of_zeros(algorithm: SplitterAlgorithm) -> u64 {
    let (mut splitter, mut length) = (algorithm.begin(), 0);
    loop {
        match splitter.next_cut(&ZEROS) {
            Some(cut) => return length + cut as u64,
            None => length += ZEROS.len() as u64,
        }
    }
}
