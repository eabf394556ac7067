//! The description of the folders in which blobs lie.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lifeboat_kopia::blobs::layout::Layout;

const NAMES: [&str; 4] = [
    "kopia.repository",
    "x",
    "p00000000000000000000000000000001-s0000000000000000148",
    "xn0_00000000000000000000000000000001-c1",
];

fuzz_target!(|bytes: &[u8]| {
    let Ok(layout) = Layout::parse(bytes) else { return };
    for name in NAMES {
        assert_eq!(layout.name(&layout.key(name)).as_deref(), Some(name), "a blob is found under its key");
    }
});
