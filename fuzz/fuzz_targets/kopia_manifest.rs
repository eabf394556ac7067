//! Contents with manifests, and the documents of snapshots in them.
#![no_main]

use flate2::Compression;
use flate2::read::GzEncoder;
use libfuzzer_sys::fuzz_target;
use lifeboat_kopia::format::manifest::{parse, write};
use lifeboat_kopia::format::snapshot::SnapshotDocument;
use std::io::Read;

/// The most plain bytes of a content.
const LIMIT: usize = 1 << 20;

fn snapshot(text: &str) {
    let Ok(document) = SnapshotDocument::parse(text) else { return };
    let written = document.write();
    let text = str::from_utf8(&written).expect("text");
    let again = SnapshotDocument::parse(text).expect("what was written can be read");
    assert_eq!(again.write(), written);
}

fuzz_target!(|bytes: &[u8]| {
    let _ = parse(bytes, LIMIT);
    if let Ok(text) = str::from_utf8(bytes) {
        snapshot(text);
    }
    // Packed here: random bytes would hardly ever be a valid gzip file.
    let mut packed = Vec::new();
    GzEncoder::new(bytes, Compression::none()).read_to_end(&mut packed).expect("memory");
    let Ok(manifests) = parse(&packed, LIMIT) else { return };
    let again = parse(&write(&manifests), 16 * LIMIT).expect("what was written can be read");
    assert_eq!(again.len(), manifests.len());
    for manifest in manifests {
        snapshot(manifest.data.get());
    }
});
