//! An index of both versions: each entry alone, all in a row, and found by its ID.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lifeboat_kopia::format::index::{Index, build};

fuzz_target!(|bytes: &[u8]| {
    let Ok(index) = Index::open(bytes, 28) else { return };
    let mut entries = Vec::new();
    for (number, entry) in index.scan().enumerate() {
        assert!((number as u64) < index.len(), "more entries than it says");
        let Ok(entry) = entry else { continue };
        assert_eq!(index.entry(number as u64).as_ref(), Ok(&entry));
        let _ = index.find(&entry.id);
        entries.push(entry);
    }
    // What can be written again is read as it was.
    entries.sort_by(|a, b| a.id.cmp(&b.id));
    entries.dedup_by(|a, b| a.id == b.id);
    if let Ok(again) = build(2, &entries) {
        let read: Result<Vec<_>, _> = Index::open(again.as_slice(), 28).expect("an index").scan().collect();
        assert_eq!(read.expect("entries"), entries);
    }
});
