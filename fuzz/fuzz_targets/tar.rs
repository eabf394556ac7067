//! An archive of anybody: read to its end or refused, within its bounds, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lifeboat_archive::gzip::capped;
use lifeboat_archive::{ReadLimits, TarReader};
use lifeboat_object::{Head, nesting};
use std::io::Read;

const LIMITS: ReadLimits = ReadLimits { total: 1 << 20, entry: 1 << 16, entries: 1000, extension: 1 << 12 };

fn read(tar: impl Read) {
    let mut reader = TarReader::new(tar, LIMITS);
    let mut body = Vec::new();
    while let Ok(Some(_)) = reader.next_file(&mut body) {
        assert!(body.len() as u64 <= LIMITS.entry, "an entry beyond its bound");
        let _ = nesting(&body);
        let _ = Head::parse(&body);
    }
}

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    read(capped(bytes, LIMITS.total));
});
