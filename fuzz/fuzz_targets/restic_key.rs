//! Files of `keys/`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lifeboat_restic::format::key_file::KeyFile;

fuzz_target!(|bytes: &[u8]| {
    // What would take all memory is refused; deriving a key from the rest is left out, as it takes long on purpose.
    let _ = KeyFile::parse(bytes);
});
