//! A directory: read entry by entry, and written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lifeboat_kopia::format::FormatError;
use lifeboat_kopia::format::directory::{Directory, read, write};
use lifeboat_kopia::snapshot::TreeEntry;

fn directory(bytes: &[u8]) -> Option<Directory> {
    let mut entries = Vec::new();
    let summary = read::<FormatError>(bytes, |entry| {
        entries.push(entry);
        Ok(())
    });
    Some(Directory { entries, summary: summary.ok()? })
}

fuzz_target!(|bytes: &[u8]| {
    let Some(first) = directory(bytes) else { return };
    for entry in &first.entries {
        let _ = TreeEntry::new(entry.clone());
    }
    // Writing rounds what kopia would not write; after that nothing changes any more.
    let written = write(&first);
    let second = directory(&written).expect("what was written can be read");
    assert_eq!(second.entries.len(), first.entries.len());
    assert_eq!(write(&second), written);
});
