//! An index of anybody: rows that fit their members, or refused. What it points to is read by it.
#![no_main]

use flate2::Compression;
use flate2::read::GzEncoder;
use libfuzzer_sys::fuzz_target;
use lifeboat_archive::ReadLimits;
use lifeboat_archive::index::Index;

fuzz_target!(|bytes: &[u8]| {
    let limits = ReadLimits::default();
    let _ = Index::read(bytes, 1 << 13, limits);
    // Packed here: random bytes would hardly ever be a valid gzip file.
    let Ok(index) = Index::read(GzEncoder::new(bytes, Compression::none()), 1 << 13, limits) else { return };
    for row in index.rows() {
        assert!(index.members.get(row.member as usize).is_some(), "a row of no member");
        // The member may be anything, too.
        let _ = index.extract(bytes, row);
    }
});
