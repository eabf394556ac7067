//! Trees, and the names in them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lifeboat_restic::format::quoted::unquote;
use lifeboat_restic::format::tree::read;

fuzz_target!(|bytes: &[u8]| {
    let _ = read(bytes);
    if let Ok(text) = str::from_utf8(bytes)
        && let Ok(name) = unquote(text)
    {
        assert!(name.len() <= text.len(), "a name is longer than its text");
    }
});
