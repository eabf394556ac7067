use super::{ALL, Compression, Compressor, decompress, header_of};
use proptest::prelude::*;

/// `hello world ` twenty times, as kopia compresses it.
const VECTORS: &[(&str, &str)] = &[
    ("deflate-best-compression", "00001502ca48cdc9c95728cf2fca495118096cc000"),
    ("deflate-best-speed", "00001501ca48cdc9c95728cf2fca495118096cc000"),
    ("deflate-default", "00001500ca48cdc9c95728cf2fca495118096cc000"),
    ("gzip", "000010001f8b08000000000000ffca48cdc9c95728cf2fca495118096c40000000ffffbce00908f0000000"),
    ("gzip-best-compression", "000010021f8b08000000000002ffca48cdc9c95728cf2fca495118096c40000000ffffbce00908f0000000"),
    (
        "gzip-best-speed",
        "000010011f8b08000000000004ffe4c6b10900000803c155329c82c543c0c6f51d24dd4d83755e4a09fe000000ffffbce00908f0000000",
    ),
    ("pgzip", "000013001f8b080000096e8800ffca48cdc9c95728cf2fca495118096c00000000ffff0300bce00908f0000000"),
    (
        "pgzip-best-compression",
        "000013021f8b080000096e8802ffca48cdc9c95728cf2fca495118096c00000000ffff0300bce00908f0000000",
    ),
    ("pgzip-best-speed", "000013011f8b080000096e8804ffca48cdc9c95728cf2fca495118096c00000000ffff0300bce00908f0000000"),
    ("s2-better", "00001201ff06000053327354774f001800002dad91def0012c68656c6c6f20776f726c6420110c1500d4"),
    ("s2-default", "00001200ff06000053327354774f001800002dad91def0012c68656c6c6f20776f726c6420110c1500d4"),
    ("s2-parallel-4", "00001202ff06000053327354774f001800002dad91def0012c68656c6c6f20776f726c6420110c1500d4"),
    ("s2-parallel-8", "00001203ff06000053327354774f001800002dad91def0012c68656c6c6f20776f726c6420110c1500d4"),
    ("zstd", "0000110028b52ffd0400a500006068656c6c6f20776f726c642001540c032be107d5a08904"),
    ("zstd-best-compression", "0000110328b52ffd0400a500006068656c6c6f20776f726c642001540c032be107d5a08904"),
    ("zstd-better-compression", "0000110228b52ffd0400a500006068656c6c6f20776f726c642001540c032be107d5a08904"),
    ("zstd-fastest", "0000110128b52ffd0400a500006068656c6c6f20776f726c642001540c032be107d5a08904"),
];

fn vectors() -> impl Iterator<Item = (Compression, Vec<u8>)> {
    VECTORS.iter().map(|(name, stored)| {
        let compression = Compression::from_name(name).expect("a known name");
        (compression, hex::decode(stored).expect("hex"))
    })
}

fn writable() -> impl Iterator<Item = Compression> {
    Compression::all().filter(|compression| compression.is_writable())
}

#[test]
fn the_table_is_in_the_order_of_the_definition() {
    for (number, (compression, header, name)) in ALL.into_iter().enumerate() {
        assert_eq!(compression as usize, number);
        assert_eq!((compression.header(), compression.name()), (header, name));
    }
}

#[test]
fn streams_of_kopia_are_read() {
    let plain = "hello world ".repeat(20).into_bytes();
    for (compression, stored) in vectors() {
        let read = decompress(compression.header(), &stored, plain.len());
        assert_eq!(read, Ok(plain.clone()), "{}", compression.name());
        let without_limit = decompress(compression.header(), &stored, usize::MAX);
        assert_eq!(without_limit, Ok(plain.clone()), "{}", compression.name());
    }
}

#[test]
fn a_stream_that_is_longer_than_allowed_is_refused() {
    for (compression, stored) in vectors() {
        let read = decompress(compression.header(), &stored, 239);
        assert!(read.is_err(), "{}", compression.name());
    }
}

#[test]
fn a_stream_that_is_cut_off_never_gives_the_whole() {
    let plain = "hello world ".repeat(20).into_bytes();
    for (compression, stored) in vectors() {
        for length in 0..stored.len() {
            let read = decompress(compression.header(), &stored[..length], 1000);
            // Blocks of S2 stand for themselves, so that less than all may come out, but never all.
            assert_ne!(read, Ok(plain.clone()), "{} {length}", compression.name());
        }
    }
}

#[test]
fn another_header_than_that_of_the_index_is_refused() {
    let (compression, stored) = vectors().next().expect("vectors");
    assert_eq!(header_of(&stored), Some(compression.header()));
    let read = decompress(Compression::Zstd.header(), &stored, 1000);
    let why = read.map_err(|error| error.to_string());
    let expected = "compressed content: it begins with 0x1502 and should with 0x1100";
    assert_eq!(why, Err(expected.to_owned()));
    assert!(decompress(0x1600, &[0, 0, 0x16, 0, 1], 1000).is_err());
    assert!(decompress(0x1000, &[0, 0, 0x10], 1000).is_err());
}

#[test]
fn bytes_that_do_not_become_shorter_are_not_compressed() {
    for compression in writable() {
        let mut compressor = Compressor::new(compression).expect("writable");
        assert_eq!(compressor.compress(b""), Ok(None));
        assert_eq!(compressor.compress(b"abc"), Ok(None), "{}", compression.name());
    }
}

#[test]
fn lz4_is_read_and_not_written() {
    assert!(Compressor::new(Compression::Lz4).is_err());
}

#[test]
fn an_s2_copy_that_reaches_before_the_block_is_refused() {
    let stream = |block: &[u8]| {
        let mut stream = vec![0, 0, 0x12, 0, 0xff, 6, 0, 0];
        stream.extend_from_slice(b"S2sTwO");
        stream.extend_from_slice(&[0, block.len() as u8 + 4, 0, 0, 0, 0, 0, 0]);
        stream.extend_from_slice(block);
        stream
    };
    let blocks: [&[u8]; 7] = [
        // A copy with nothing before it; the last distance without one; a distance that is too far.
        &[4, 0b0000_0001, 1],
        &[4, 0b0000_0001, 0],
        &[5, 0, b'a', 0b0000_0001, 2],
        // More bytes than announced; less; a literal that is cut off; a length that is no number.
        &[1, 4, b'a', b'b'],
        &[3, 0, b'a'],
        &[3, 8, b'a'],
        &[0xff, 0xff, 0xff, 0xff, 0xff],
    ];
    for block in blocks {
        let why = decompress(0x1200, &stream(block), 1000).map_err(|error| error.to_string());
        let expected = "compressed content: the S2 stream is damaged";
        assert_eq!(why, Err(expected.to_owned()), "{block:?}");
    }
}

fn plain_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..3000),
        (prop::collection::vec(any::<u8>(), 1..20), 1..2000_usize).prop_map(|(unit, times)| unit.repeat(times)),
        prop::collection::vec(0..4_u8, 0..5000),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_compressed_is_read_again(plain in plain_bytes()) {
        for compression in writable() {
            let mut compressor = Compressor::new(compression).expect("writable");
            if let Some(stored) = compressor.compress(&plain).expect("compressed") {
                prop_assert!(stored.len() < plain.len());
                let read = decompress(compression.header(), &stored, plain.len());
                prop_assert_eq!(read, Ok(plain.clone()), "{}", compression.name());
            }
        }
    }

    #[test]
    fn damaged_streams_never_panic_and_never_exceed_the_limit(
        index in 0..VECTORS.len(), at in any::<prop::sample::Index>(), bit in 0..8_u8, rest in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let (compression, mut stored) = vectors().nth(index).expect("vector");
        let at = 4 + at.index(stored.len() - 4);
        stored[at] ^= 1 << bit;
        stored.extend_from_slice(&rest);
        if let Ok(plain) = decompress(compression.header(), &stored, 500) {
            prop_assert!(plain.len() <= 500);
        }
    }
}
