use super::{Ecc, parameters};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

const PERCENTS: [u8; 9] = [1, 2, 3, 4, 5, 6, 10, 50, 100];

fn counted(length: usize) -> Vec<u8> {
    (0..length).map(|number| (7 * number) as u8).collect()
}

#[test]
fn a_percentage_gives_the_shards_of_kopia() {
    let vectors = [
        (1, (254, 2, 1024)),
        (2, (164, 2, 512)),
        (3, (139, 2, 256)),
        (5, (128, 2, 128)),
        (6, (128, 3, 128)),
        (10, (128, 4, 64)),
        (20, (128, 17, 64)),
        (50, (128, 56, 64)),
        (100, (128, 120, 64)),
    ];
    for (percent, expected) in vectors {
        assert_eq!(parameters(percent), expected, "{percent} %");
    }
}

#[test]
fn few_bytes_are_laid_out_alike_with_any_percentage() {
    let expected = "e3396797edd9807bc47ee4d8c681ff41d91200000063e8428b0b6865aac9b3346c6c6f7a7f0c0a20776f2ba3e4c6726c64ff41d912000000";
    for percent in PERCENTS {
        let stored = Ecc::new(percent).encode(b"hello world");
        assert_eq!(stored.map(hex::encode), Ok(expected.to_owned()));
    }
}

#[test]
fn many_bytes_are_laid_out_as_kopia_does() {
    let vectors = [
        (5000, 5808, "4e48acf923291237343015ef178f7b87b52573c2c7ec26601f2fad16ad975c34"),
        (20_000, 22_072, "cc7ec6b14cd26b87c4b12753275f5141fdb97472660e98d084bba2f0a6a25b55"),
    ];
    for (length, stored_length, hash) in vectors {
        let stored = Ecc::new(10).encode(&counted(length)).expect("few bytes");
        assert_eq!(stored.len(), stored_length);
        assert_eq!(hex::encode(Sha256::digest(&stored)), hash);
    }
}

#[test]
fn all_lengths_around_the_limits_of_layouts_are_read_again() {
    for percent in [1, 5, 10, 100] {
        let (data, parity, max_shard) = parameters(percent);
        let ecc = Ecc::new(percent);
        let limits = [8 * (data + parity), data * max_shard, 2 * data * max_shard];
        let around = limits.iter().flat_map(|limit| limit - 12..limit + 12);
        for length in (0..40).chain(around) {
            let plain = counted(length);
            let stored = ecc.encode(&plain).expect("few bytes");
            assert_eq!(ecc.decode(&stored), Ok(plain), "{percent} % {length}");
        }
    }
}

#[test]
fn as_many_damaged_shards_as_there_is_parity_are_made_anew_and_one_more_is_not() {
    let ecc = Ecc::new(10);
    let plain = counted(5000);
    let stored = ecc.encode(&plain).expect("few bytes");
    let stride = stored.len() / 132;
    let damage = |count: usize| {
        let mut damaged = stored.clone();
        for shard in 0..count {
            damaged[(20 * shard + 3) * stride + 7] ^= 1;
        }
        damaged
    };
    assert_eq!(ecc.decode(&damage(4)), Ok(plain));
    let why = ecc.decode(&damage(5)).map_err(|error| error.why);
    assert_eq!(why, Err("more is damaged than can be made anew".to_owned()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn one_damaged_byte_anywhere_is_made_good(
        length in 0..30_000_usize, percent in prop::sample::select(&PERCENTS[..]), at in any::<prop::sample::Index>(), bit in 0..8_u8,
    ) {
        let ecc = Ecc::new(percent);
        let plain = counted(length);
        let mut stored = ecc.encode(&plain).expect("few bytes");
        let at = at.index(stored.len());
        stored[at] ^= 1 << bit;
        prop_assert_eq!(ecc.decode(&stored), Ok(plain));
    }

    #[test]
    fn other_bytes_never_panic(stored in prop::collection::vec(any::<u8>(), 0..20_000), percent in prop::sample::select(&PERCENTS[..])) {
        let _ = Ecc::new(percent).decode(&stored);
    }
}
