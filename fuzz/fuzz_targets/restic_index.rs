//! Files of `index/`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lifeboat_restic::format::index::read;

fuzz_target!(|bytes: &[u8]| {
    let mut blobs = 0;
    let _ = read(bytes, &mut |pack| {
        blobs += pack.blobs.len();
        for blob in &pack.blobs {
            let _ = blob.plain_length();
        }
        Ok(())
    });
    // Each has an ID of 64 digits.
    assert!(blobs * 64 <= bytes.len(), "more blobs than there is text");
});
