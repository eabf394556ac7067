//! Decrypted files and blobs that may be compressed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lifeboat_restic::format::stored::{blob, file};

/// The plain bytes of a blob.
const LENGTH: usize = 1 << 12;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(plain) = blob(bytes, LENGTH) {
        assert_eq!(plain.len(), LENGTH);
    }
    // A stream that is a gigabyte when it is decompressed would tell nothing new.
    if bytes.first() != Some(&2) {
        let _ = file(bytes.to_vec().into());
    }
});
