//! Cuts of all splitters.

use crate::matrix;
use lifeboat_kopia::splitter::SplitterAlgorithm;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::OnceLock;

/// Appends the hashes of the numbers from 0, each after the seed.
fn push_counted(bytes: &mut Vec<u8>, seed: &[u8], hashes: u64) {
    let seeded = Sha256::new().chain_update(seed);
    for number in 0..hashes {
        bytes.extend_from_slice(&seeded.clone().chain_update(number.to_be_bytes()).finalize());
    }
}

fn random() -> &'static [u8] {
    static X: OnceLock<Vec<u8>> = OnceLock::new();
    X.get_or_init(|| {
        let mut bytes = Vec::with_capacity(64 << 20);
        push_counted(&mut bytes, b"", 2 << 20);
        bytes
    })
}

/// Blocks of 4096 bytes, about a quarter of them of one byte only.
fn with_constant_blocks() -> &'static [u8] {
    static Y: OnceLock<Vec<u8>> = OnceLock::new();
    Y.get_or_init(|| {
        let length = 50_343_993;
        let mut bytes = Vec::with_capacity(length + 4096);
        for number in 0.. {
            if bytes.len() >= length {
                break;
            }
            let seed = Sha256::new().chain_update(b"Y").chain_update(u64::to_be_bytes(number)).finalize();
            if seed[0] < 64 {
                bytes.extend_from_slice(&[seed[1]; 4096]);
            } else {
                push_counted(&mut bytes, &seed, 128);
            }
        }
        bytes.truncate(length);
        bytes
    })
}

/// The ends of all chunks, where the stream is fed in pieces of the given lengths in turn.
fn cuts(algorithm: SplitterAlgorithm, bytes: &[u8], pieces: &[usize]) -> Vec<usize> {
    let mut splitter = algorithm.begin();
    let mut cuts = Vec::new();
    let mut at = 0;
    let mut pieces = pieces.iter().cycle();
    while at < bytes.len() {
        let end = (at + pieces.next().unwrap()).min(bytes.len());
        while let Some(length) = splitter.next_cut(&bytes[at..end]) {
            at += length;
            cuts.push(at);
        }
        at = end;
    }
    if cuts.last() != Some(&bytes.len()) {
        cuts.push(bytes.len());
    }
    cuts
}

#[test]
fn all_23_splitters_cut_where_kopia_cuts() {
    let expected = matrix::read_json(&matrix::folder().join("splits.json.gz"));
    let expected = expected.as_object().unwrap();
    assert_eq!(expected.len(), 23);
    let mut names = SplitterAlgorithm::names();
    names.sort();
    assert_eq!(names.iter().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, of_inputs) in expected {
        let algorithm = SplitterAlgorithm::parse(name).unwrap();
        for (input, bytes) in [("X", random()), ("Y", with_constant_blocks())] {
            let ends = cuts(algorithm, bytes, &[bytes.len()]);
            let ends: Value = ends.into();
            assert_eq!(ends, of_inputs[input], "{name} {input}");
        }
    }
}

#[test]
fn cuts_do_not_depend_on_the_pieces_in_which_a_stream_comes() {
    let pieces: [&[usize]; 4] = [&[1 << 20], &[63, 64, 65, 1, 127, 40_000, 2, 70_001], &[131_071, 131_073], &[7]];
    let bytes = &with_constant_blocks()[..6 << 20];
    for name in ["DYNAMIC-128K-BUZHASH", "DYNAMIC-128K-RABINKARP", "FIXED-256K"] {
        let algorithm = SplitterAlgorithm::parse(name).unwrap();
        let whole = cuts(algorithm, bytes, &[bytes.len()]);
        for pieces in pieces {
            assert_eq!(cuts(algorithm, bytes, pieces), whole, "{name} {pieces:?}");
        }
    }
}

#[test]
fn bytes_without_change_are_cut_at_the_minimum_and_a_counter_at_the_maximum() {
    let algorithm = SplitterAlgorithm::parse("DYNAMIC-4M-BUZHASH").unwrap();
    let minimum: Vec<usize> = (1..=10).map(|number| number << 21).collect();
    for byte in [0, 0xff] {
        assert_eq!(cuts(algorithm, &vec![byte; 20 << 20], &[1 << 16]), minimum);
    }
    let counter: Vec<u8> = (0..20 << 20).map(|number: usize| number as u8).collect();
    assert_eq!(cuts(algorithm, &counter, &[1 << 16]), [8 << 20, 16 << 20, 20 << 20]);
}
