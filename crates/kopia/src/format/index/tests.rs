use super::*;
use proptest::prelude::*;

const V1: &str = "01110014000000030000112233445566778899aabbccddeeff000065000000032400000077000000200000008000ffeeddccbbaa99887766554433221100000065000001032400000077800000a0000000e46b0123456789abcdef0123456789abcdef00006500000203240000009b00000020000001487030303031303230333034303530363037303830393061306230633064306530662d73317131303131313231333134313531363137313831393161316231633164316531662d7331";
const V2: &str = "02110010000000030000000201000000000000112233445566778899aabbccddeeff6500000000000020000064000080000000ffeeddccbbaa9988776655443322110065000001800000a00000c80000e400006b0123456789abcdef0123456789abcdef650000020000002000012c0001480001240000008424000000a80000000003007030303031303230333034303530363037303830393061306230633064306530662d73317131303131313231333134313531363137313831393161316231633164316531662d7331";
/// With two formats, and lengths beyond 24 bits.
const V2_LONG: &str = "02110013000000050000000202000000000000112233445566778899aabbccddeeff650000000000002000006400008000000000000010112233445566778899aabbccddeeff6500000300012345345678234567000001002100ffeeddccbbaa9988776655443322110065000001800000a00000c80000e400000000006b0123456789abcdef0123456789abcdef650000020000002000012c00014800010000006d0123456789abcdef0123456789abcdef650000030000016800009600005a000101000024000000db24000000ff0000000003000000110103007030303031303230333034303530363037303830393061306230633064306530662d73317131303131313231333134313531363137313831393161316231633164316531662d7331";
/// The index blob of a small repository.
const FIXTURE: &str = "021100110000000c0000000202000000000006feedcaf97524ad79d131d4e70c0e876b00e01c0000006100000100001d0000000027366ff238c0cfa5f69df1f7a3c5b9b46b00e01c0000004500000000001c0000000043b252e336a71dba3cd309070bec67d76b00e01c000002691000000000f4000001004546a6b456ee045cc031ae431558b8c96b00e01c000000a52000000001c40000010054260b1b96e6829b6fb9fadac49c44936b00e01c00000020000009000025000000008193581617239d8beb24dd0f7e29a6336b00e01c0000007e00000b00002700000000972d70cfacbf5000a3360350b40498da6b00e01c0000035d0000040000200000006b31a3d4631cda6956a2f6366875cb96b86b00e01c0000027c0005260002050001016b98f50078a4f8b00fe440fdb1639109526b00e01c0000002000009a0000b60001006ba1099b6e37a3170ec3e18feaa4e9b5df6b00e01c0000018600012c0000f60001016d9d81cef62ac3b7da5ff0bf4793ff3bc26b00e01c000004810003c70003e3000100785b74ed2dee62b83cd7b8042593f271d56b00e01c000000d60000df0000b000010136000001bf36000001f50000000003000000110103007063383665306333613465346262373431666634643463646638383465633864382d73346630396362363233653437643237323134377133386466643433383734346237643833383564353137373732633632643336322d7334663039636236323365343764323732313437";
const P: &str = "p000102030405060708090a0b0c0d0e0f-s1";
const Q: &str = "q101112131415161718191a1b1c1d1e1f-s1";

fn bytes(hex: &str) -> Vec<u8> {
    hex::decode(hex).expect("hex")
}

fn entry(id: &str, timestamp: u64, pack: &str, offset: u32, lengths: (u32, u32)) -> Entry {
    Entry {
        id: ContentId::parse(id).expect("an ID"),
        timestamp,
        is_deleted: false,
        pack: pack.to_owned(),
        offset,
        packed_length: lengths.0,
        original_length: lengths.1,
        compression: 0,
        format_version: 3,
        key: 0,
    }
}

fn three() -> Vec<Entry> {
    let deleted = entry("ffeeddccbbaa99887766554433221100", 0x6500_0001, P, 160, (228, 200));
    vec![
        entry("00112233445566778899aabbccddeeff", 0x6500_0000, P, 32, (128, 100)),
        Entry { is_deleted: true, ..deleted },
        entry("k0123456789abcdef0123456789abcdef", 0x6500_0002, Q, 32, (328, 300)),
    ]
}

fn five() -> Vec<Entry> {
    let mut entries = three();
    let long = entry("10112233445566778899aabbccddeeff", 0x6500_0003, P, 0x12345, (0x123_4567, 0x234_5678));
    let manifest = entry("m0123456789abcdef0123456789abcdef", 0x6500_0003, Q, 360, (90, 150));
    entries.insert(1, Entry { compression: 0x1101, ..long });
    entries.push(Entry { compression: 0x1101, ..manifest });
    entries
}

fn read(bytes: &[u8]) -> Result<Vec<Entry>, FormatError> {
    Index::open(bytes, 28)?.scan().collect()
}

#[test]
fn indexes_of_both_versions_are_those_of_kopia() {
    for (hex, version, entries) in [(V1, 1, three()), (V2, 2, three()), (V2_LONG, 2, five())] {
        assert_eq!(build(version, &entries).map(hex::encode), Ok(hex.to_owned()));
        assert_eq!(read(&bytes(hex)), Ok(entries));
    }
}

#[test]
fn an_index_blob_of_kopia_is_read_and_written_again() {
    let entries = read(&bytes(FIXTURE)).expect("an index");
    assert_eq!(entries.len(), 12);
    assert_eq!(build(2, &entries).map(hex::encode), Ok(FIXTURE.to_owned()));
    let sixth = (entries[8].id.to_string(), entries[8].offset, entries[8].packed_length, entries[8].original_length);
    assert_eq!(sixth, ("k98f50078a4f8b00fe440fdb163910952".to_owned(), 32, 182, 154));
}

#[test]
fn an_entry_is_found_by_its_id_and_an_id_of_another_length_is_not_there() {
    for (hex, entries) in [(V1, three()), (V2_LONG, five())] {
        let index = Index::open(bytes(hex), 28).expect("an index");
        for entry in &entries {
            assert_eq!(index.find(&entry.id), Ok(Some(entry.clone())));
        }
        for id in ["00", "00112233445566778899aabbccddeefe", "z0123456789abcdef0123456789abcdef"] {
            assert_eq!(index.find(&ContentId::parse(id).expect("an ID")), Ok(None), "{id}");
        }
        assert!(index.entry(index.len()).is_err());
    }
}

#[test]
fn the_smallest_value_that_holds_all_entries_is_taken() {
    let size = |entries: &[Entry]| build(2, entries).map(|bytes| bytes[3]);
    let one = [entry("00", 1, P, 1, (1, 1))];
    assert_eq!(size(&one), Ok(16));
    let two_formats = [one[0].clone(), Entry { format_version: 2, ..entry("01", 1, P, 1, (1, 1)) }];
    assert_eq!(size(&two_formats), Ok(17));
    let many_packs: Vec<Entry> =
        (0..65_537_u32).map(|number| entry(&format!("{number:08x}"), 1, &format!("p{number}"), 1, (1, 1))).collect();
    assert_eq!(size(&many_packs[1..]), Ok(16));
    assert_eq!(size(&many_packs), Ok(18));
    assert_eq!(read(&build(2, &many_packs).expect("an index")), Ok(many_packs));
    assert_eq!(size(&[entry("00", 1, P, 1, (1 << 24, 1))]), Ok(19));
    assert_eq!(size(&[entry("00", 1, P, 1, (1, 1 << 24))]), Ok(19));
}

#[test]
fn values_that_do_not_fit_are_refused_before_anything_is_written() {
    let good = || entry("00", 1, P, 1, (29, 1));
    let limits = [
        Entry { packed_length: MAX_LENGTH, ..good() },
        Entry { original_length: MAX_LENGTH, ..good() },
        Entry { offset: MAX_OFFSET, ..good() },
        Entry { pack: "p".repeat(256), ..good() },
        Entry { pack: String::new(), ..good() },
        Entry { timestamp: 1 << 48, ..good() },
    ];
    for entry in limits {
        for version in [1, 2] {
            assert!(build(version, std::slice::from_ref(&entry)).is_err(), "{version} {entry:?}");
        }
    }
    let late = Entry { timestamp: 1 << 32, ..good() };
    assert!(build(1, std::slice::from_ref(&late)).is_ok() && build(2, &[late]).is_err());
    for only_v2 in [Entry { compression: 1, ..good() }, Entry { key: 1, ..good() }] {
        assert!(build(2, std::slice::from_ref(&only_v2)).is_ok() && build(1, &[only_v2]).is_err());
    }
    let other = entry("0000", 1, P, 1, (29, 1));
    for entries in [vec![], vec![good(), good()], vec![entry("01", 1, P, 1, (1, 1)), good()], vec![good(), other]] {
        assert!(build(2, &entries).is_err());
    }
    assert!(build(3, &[good()]).is_err());
}

#[test]
fn a_pack_or_format_that_does_not_exist_damages_one_entry() {
    let mut damaged = bytes(V2_LONG);
    let value = |number: usize| 17 + number * (17 + 19) + 17;
    // The low byte of the pack number of the first, the format number of the third.
    damaged[value(0) + 15] = 9;
    damaged[value(2) + 16] = 9;
    let index = Index::open(damaged, 28).expect("an index");
    let good: Vec<bool> = index.scan().map(|entry| entry.is_ok()).collect();
    assert_eq!(good, [false, true, false, true, true]);
    assert_eq!(index.entry(1), Ok(five()[1].clone()));
}

#[test]
fn an_empty_index_of_an_old_compaction_has_no_entries() {
    assert_eq!(read(&bytes("01ff001400000000")), Ok(Vec::new()));
    assert_eq!(read(&bytes("02ff00100000000000000000000000000000")), Ok(Vec::new()));
}

#[test]
fn bytes_after_the_end_are_accepted_and_a_table_beyond_it_is_not() {
    for hex in [V1, V2, V2_LONG] {
        let entries = read(&bytes(hex)).expect("an index");
        assert_eq!(read(&[bytes(hex), vec![7; 32]].concat()), Ok(entries));
        for length in 0..bytes(hex).len() {
            assert!(read(&bytes(hex)[..length]).is_err(), "{length}");
        }
    }
    let tables = [
        "00ff001400000000",
        "03ff001400000000",
        "0111001300000001",
        "0101001400000001",
        "0122001400000001",
        "01110014ffffffff",
        "0211000f0000000100000001010000000000",
        "021100140000000100000001010000000000",
        "02ff00100000000000ffffff0000000000",
        "0211001000000000000000000100000000",
    ];
    for hex in tables {
        assert!(Index::open(bytes(hex), 28).is_err(), "{hex}");
    }
}

#[test]
fn a_content_shorter_than_its_encryption_is_damaged() {
    let short = build(1, &[entry("00", 1, P, 1, (27, 0))]).expect("an index");
    assert!(read(&short).is_err());
}

#[test]
fn of_two_entries_the_later_wins_then_the_live_one_then_the_larger_pack() {
    let old = entry("00", 1, "pb", 1, (1, 1));
    let deleted = Entry { timestamp: 2, is_deleted: true, ..old.clone() };
    let live = Entry { timestamp: 2, pack: "pa".to_owned(), ..old.clone() };
    let larger = Entry { pack: "pb".to_owned(), ..live.clone() };
    let ascending = [old, deleted, live, larger];
    for (number, entry) in ascending.iter().enumerate() {
        for (other_number, other) in ascending.iter().enumerate() {
            assert_eq!(entry.wins_over(other), number > other_number, "{number} {other_number}");
        }
    }
}

#[test]
fn entries_are_distributed_by_the_hash_of_their_ids() {
    assert_eq!([0, 1, MAX_SHARD, MAX_SHARD + 1, 3 * MAX_SHARD].map(shard_count), [1, 1, 1, 2, 3]);
    // FNV-1a, written out once more: from the offset, each byte is added and the sum multiplied with the prime.
    let by_hand =
        [b'0', b'0'].iter().fold(2_166_136_261_u64, |hash, byte| (hash ^ u64::from(*byte)) * 16_777_619 % (1 << 32));
    let id = ContentId::parse("00").expect("an ID");
    for count in [1, 2, 7, 1000] {
        assert_eq!(shard_of(&id, count) as u64, by_hand % count as u64);
    }
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let id = (prop::option::of(b'g'..=b'z'), any::<[u8; 16]>());
    let numbers = (any::<u32>(), any::<bool>(), 0..MAX_OFFSET, 28..MAX_LENGTH, 0..MAX_LENGTH);
    (id, numbers, 0..4_u8, 1..4_u8).prop_map(|((prefix, hash), numbers, pack, format_version)| {
        let hash = crate::format::content_id::ContentHash::new(&hash).expect("16 bytes");
        Entry {
            id: ContentId::new(prefix, hash).expect("a letter"),
            timestamp: numbers.0.into(),
            is_deleted: numbers.1,
            pack: format!("p{pack}-s1"),
            offset: numbers.2,
            packed_length: numbers.3,
            original_length: numbers.4,
            compression: u32::from(pack % 2) * 0x1101,
            format_version,
            key: 0,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_entries_are_read_as_they_were_written(entries in prop::collection::vec(any_entry(), 1..50)) {
        let mut entries = entries;
        entries.sort_by_key(|entry| entry.id);
        entries.dedup_by_key(|entry| entry.id);
        let written = build(2, &entries).expect("entries that fit");
        prop_assert_eq!(read(&written), Ok(entries.clone()));
        for entry in &mut entries {
            entry.compression = 0;
            entry.original_length = entry.packed_length - 28;
        }
        let written = build(1, &entries).expect("entries that fit");
        prop_assert_eq!(read(&written), Ok(entries));
    }

    #[test]
    fn damaged_indexes_never_panic(which in 0..4_usize, at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let mut damaged = bytes([V1, V2, V2_LONG, FIXTURE][which]);
        let at = at.index(damaged.len());
        damaged[at] = byte;
        damaged.truncate(damaged.len() - cut.index(damaged.len()) / 8);
        if let Ok(index) = Index::open(damaged, 28) {
            let entries: Vec<_> = index.scan().take(1000).collect();
            prop_assert!(entries.len() as u64 <= index.len());
            let _ = index.find(&three()[1].id);
        }
    }

    #[test]
    fn other_bytes_never_panic(version in 1..3_u8, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = bytes;
        bytes.insert(0, version);
        if let Ok(index) = Index::open(bytes, 28) {
            prop_assert!(index.scan().take(1000).count() as u64 <= index.len());
        }
    }
}
