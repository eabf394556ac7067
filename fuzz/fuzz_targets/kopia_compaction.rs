//! The log of a compaction of indexes, and the indexes that count by it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lifeboat_kopia::blobs::BlobInfo;
use lifeboat_kopia::content::legacy::{CompactionLog, index_blobs};

fuzz_target!(|bytes: &[u8]| {
    let Ok(log) = CompactionLog::parse(bytes) else { return };
    let names = log.inputs.iter().chain(&log.outputs).cloned();
    let listing: Vec<BlobInfo> = names.map(|name| BlobInfo { name, length: 1, modified: None }).collect();
    let counted = index_blobs(&listing, &[log]);
    assert!(counted.len() <= listing.len(), "an index that is not there");
});
