//! Every compression: the first four bytes choose it, and the output has its bound.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lifeboat_kopia::compression::{Compression, decompress};

/// The most plain bytes.
const LIMIT: usize = 1 << 18;

fuzz_target!(|bytes: &[u8]| {
    let Some((number, stream)) = bytes.split_first() else { return };
    let all: Vec<Compression> = Compression::all().collect();
    let header = all[usize::from(*number) % all.len()].header();
    let stored = [&header.to_be_bytes(), stream].concat();
    if let Ok(plain) = decompress(header, &stored, LIMIT) {
        assert!(plain.len() <= LIMIT, "more than its bound");
    }
});
