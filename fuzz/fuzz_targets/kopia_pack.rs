//! The ends of a pack: the postamble, and the replica of the format at either end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lifeboat_kopia::format::blob_name;
use lifeboat_kopia::format::pack::{MAX_POSTAMBLE, Postamble, find_replica};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(postamble) = Postamble::parse(bytes) {
        let written = postamble.write();
        assert!(written.len() <= MAX_POSTAMBLE);
        assert_eq!(Postamble::parse(&written), Ok(postamble));
    }
    // Sealed here: random bytes would hardly ever have their checksum.
    let body = &bytes[..bytes.len().min(250)];
    let length = u8::try_from(body.len() + 4).expect("at most 254");
    let sealed = [body, &crc32fast::hash(body).to_be_bytes(), &[length]].concat();
    let _ = Postamble::parse(&sealed);
    let (first, last) = bytes.split_at(bytes.len() / 2);
    let _ = find_replica(first, last);
    if let Ok(name) = str::from_utf8(bytes) {
        let _ = blob_name::parse(name);
        let _ = blob_name::session_of(name);
    }
});
