//! The format blob of a repository, its decrypted document, and the other small documents that are read from blobs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lifeboat_kopia::crypto::Secret;
use lifeboat_kopia::format::maintenance::{MaintenanceParameters, Schedule};
use lifeboat_kopia::format::repository::{FormatBlob, parse_format};
use lifeboat_kopia::format::session::SessionMarker;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(blob) = FormatBlob::parse(bytes) {
        let written = blob.write();
        assert_eq!(FormatBlob::parse(&written).expect("what was written can be read"), blob);
    }
    // The key derivation stands between the two: random bytes would never come through it.
    if let Ok(format) = parse_format(bytes, vec![0; 32], Secret::new(vec![0; 32])) {
        assert!(format.max_pack_size > 0 && !format.splitter.is_empty(), "a value without its default");
    }
    let _ = Schedule::parse(bytes);
    let _ = SessionMarker::parse(bytes);
    if let Ok(text) = str::from_utf8(bytes) {
        let _ = MaintenanceParameters::parse(text);
    }
});
