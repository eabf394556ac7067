//! Tests of the union of indexes.

use super::*;
use crate::format::content_id::ContentHash;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn id(prefix: Option<u8>, hash: &[u8]) -> ContentId {
    ContentId::new(prefix, ContentHash::new(hash).unwrap()).unwrap()
}

fn entry(id: ContentId, timestamp: u64, is_deleted: bool, pack: &str) -> Entry {
    Entry {
        id,
        timestamp,
        is_deleted,
        pack: pack.to_owned(),
        offset: 32,
        packed_length: 100,
        original_length: 72,
        compression: 0,
        format_version: 3,
        key: 0,
    }
}

fn memory(bytes: u64) -> IndexMemory {
    IndexMemory { sorting: bytes, records: bytes, pages: bytes }
}

fn build(set: &IndexSet, entries: &[Entry], watermark: u64) -> Arc<IndexSet> {
    let mut builder = set.add();
    for entry in entries {
        builder.add(entry).unwrap();
    }
    Arc::new(builder.finish(watermark).unwrap())
}

fn all(set: &Arc<IndexSet>, prefix: Option<u8>) -> Vec<Entry> {
    set.scan(prefix).collect::<Result<_, _>>().unwrap()
}

#[test]
fn the_later_entry_counts_then_the_live_one_then_the_larger_pack() {
    let scratch = tempfile::tempdir().unwrap();
    let one = id(None, &[7; 16]);
    let order = [
        entry(one, 5, true, "p1"),
        entry(one, 5, true, "p2"),
        entry(one, 5, false, "p1"),
        entry(one, 5, false, "p2"),
        entry(one, 6, true, "p0"),
        entry(one, 6, false, "p0"),
    ];
    for (low, loser) in order.iter().enumerate() {
        for winner in &order[low + 1..] {
            assert!(winner.wins_over(loser) && !loser.wins_over(winner), "{winner:?} {loser:?}");
            for pair in [[winner.clone(), loser.clone()], [loser.clone(), winner.clone()]] {
                let empty = IndexSet::empty(16, scratch.path(), memory(1 << 20));
                // In one load, and in two.
                let set = build(&empty, &pair, 0);
                assert_eq!((set.find(&one).unwrap(), all(&set, None)), (Some(winner.clone()), vec![winner.clone()]));
                let set = build(&build(&empty, &pair[..1], 0), &pair[1..], 0);
                assert_eq!((set.find(&one).unwrap(), all(&set, None)), (Some(winner.clone()), vec![winner.clone()]));
            }
        }
    }
}

#[test]
fn a_deletion_up_to_the_watermark_is_not_there_and_the_watermark_never_moves_back() {
    let scratch = tempfile::tempdir().unwrap();
    let [live, deleted] = [1, 2].map(|n| id(Some(b'k'), &[n; 16]));
    let entries = [entry(live, 5, false, "q1"), entry(deleted, 5, true, "q1")];
    let empty = IndexSet::empty(16, scratch.path(), memory(1 << 20));
    let set = build(&empty, &entries, 4);
    assert_eq!(all(&set, None), entries);
    let set = build(&set, &[], 5);
    assert_eq!((all(&set, None), set.find(&deleted).unwrap()), (vec![entries[0].clone()], None));
    let set = build(&set, &[], 4);
    assert_eq!(set.find(&deleted).unwrap(), None);
    let again = entry(deleted, 6, false, "q2");
    assert_eq!(build(&set, std::slice::from_ref(&again), 5).find(&deleted).unwrap(), Some(again));
}

#[test]
fn a_scan_by_prefix_gives_its_contents_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let ids = [id(None, &[0xff; 16]), id(Some(b'g'), &[0; 16]), id(Some(b'k'), &[0; 16]), id(Some(b'z'), &[9; 16])];
    let entries = ids.map(|id| entry(id, 1, false, "q1"));
    for bytes in [1, 1 << 20] {
        let empty = IndexSet::empty(16, scratch.path(), memory(bytes));
        let set = build(&empty, &entries, 0);
        for (number, prefix) in [Some(0), Some(b'g'), Some(b'k'), Some(b'z')].into_iter().enumerate() {
            assert_eq!(all(&set, prefix), entries[number..=number]);
        }
        assert_eq!((all(&set, Some(b'h')), all(&set, None)), (vec![], entries.to_vec()));
    }
}

#[test]
fn a_hash_of_another_length_is_told_or_kept_apart() {
    let scratch = tempfile::tempdir().unwrap();
    let empty = IndexSet::empty(16, scratch.path(), memory(1 << 20));
    let long = id(None, &[1; 32]);
    let short = entry(id(None, &[1; 8]), 1, false, "p1");
    let zeros = entry(id(None, &[1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]), 1, false, "p2");
    let set = build(&empty, &[zeros.clone(), short.clone()], 0);
    assert_eq!(all(&set, None), [short.clone(), zeros.clone()]);
    assert_eq!([&long, &short.id, &zeros.id].map(|id| set.find(id).unwrap()), [None, Some(short), Some(zeros)]);
    let mut builder = empty.add();
    builder.add(&entry(long, 1, false, "p1")).unwrap();
    let error = builder.finish(0).unwrap_err().to_string();
    assert!(error.contains("its hash is longer than those of this repository"), "{error}");
}

/// Two million entries of 2,000 packs in three loads.
#[test]
fn two_million_entries_take_no_more_memory_than_they_may() {
    let scratch = tempfile::tempdir().unwrap();
    let limit = memory(4 << 20);
    let mut set = Arc::new(IndexSet::empty(16, scratch.path(), limit));
    let hash = |n: u64| (u128::from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 | u128::from(n)).to_be_bytes();
    let packs: Vec<String> = (0..2000).map(|n| format!("p{n:032x}-s4f09cb623e47d272147")).collect();
    let total = 2_000_000;
    for load in 0..3_u64 {
        let mut builder = set.add();
        for n in (load..total).step_by(3) {
            let pack = &packs[usize::try_from(n).unwrap() % packs.len()];
            builder.add(&entry(id(None, &hash(n)), n, false, pack)).unwrap();
            assert!(builder.buffer.capacity() * size_of::<Record>() <= 8 << 20);
        }
        set = Arc::new(builder.finish(0).unwrap());
    }
    for n in (0..total).step_by(997) {
        let found = set.find(&id(None, &hash(n))).unwrap().unwrap();
        assert_eq!((found.timestamp, &found.pack), (n, &packs[usize::try_from(n).unwrap() % packs.len()]));
    }
    assert_eq!(set.find(&id(None, &hash(total))).unwrap(), None);
    let (mut scan, mut count, mut numbers) = (set.scan(None), 0, 0);
    while let Some(found) = scan.next_location().unwrap() {
        count += 1;
        numbers += found.number;
    }
    assert_eq!((count, numbers), (total, total * (total - 1) / 2), "each has a number of its own");
    // Records of 47 bytes: 94 MB on scratch. In memory: one key for each of 5,747 pages, the pages, the table.
    assert!(set.memory() < 5 << 20, "{}", set.memory());
    assert!(set.scratch.page_bytes() <= 4 << 20);
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "files of the scratch space have no names");
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let key = (prop_oneof![Just(None), Just(Some(b'k')), Just(Some(b'm'))], 0..40_u8);
    let one = (key, 0..6_u64, any::<bool>(), 0..4_u8).prop_map(|((prefix, hash), timestamp, is_deleted, pack)| {
        entry(id(prefix, &[hash; 16]), timestamp, is_deleted, &format!("p{pack}"))
    });
    proptest::collection::vec(one, 0..100)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// However the entries come, in memory or on scratch, in one load or in many: the ones that win are there.
    #[test]
    fn a_set_is_the_map_of_the_entries_that_win(loads in proptest::collection::vec(entries(), 1..12), bytes in prop_oneof![Just(300_u64), Just(2_000), Just(5_000), Just(1 << 20)], watermark in 0..6_u64) {
        let scratch = tempfile::tempdir().unwrap();
        let mut set = Arc::new(IndexSet::empty(16, scratch.path(), memory(bytes)));
        let mut expected: BTreeMap<ContentId, Entry> = BTreeMap::new();
        for load in &loads {
            set = build(&set, load, watermark);
            for entry in load {
                if expected.get(&entry.id).is_none_or(|known| entry.wins_over(known)) {
                    expected.insert(entry.id, entry.clone());
                }
            }
        }
        expected.retain(|_, entry| !entry.is_deleted || entry.timestamp > watermark);
        prop_assert_eq!(all(&set, None), expected.values().cloned().collect::<Vec<_>>());
        for hash in 0..40 {
            for prefix in [None, Some(b'k'), Some(b'm')] {
                let id = id(prefix, &[hash; 16]);
                prop_assert_eq!(set.find(&id).unwrap(), expected.get(&id).cloned());
            }
        }
        let mut scan = set.scan(None);
        while let Some(found) = scan.next_location().unwrap() {
            prop_assert_eq!(set.locate(&found.record.id).unwrap(), Some(found));
        }
    }
}
