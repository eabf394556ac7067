//! Every JSON file of a backup or restore, plain and packed.
#![no_main]

use flate2::Compression;
use flate2::read::GzEncoder;
use libfuzzer_sys::fuzz_target;
use lifeboat_api::{Backup, Restore};
use lifeboat_archive::sidecar::{BackupClaim, Manifest, ResourceList, decode};
use lifeboat_archive::volume_info::{BackupVolumeInfo, RestoreVolumeInfo};
use lifeboat_object::{ListSplitter, Results};
use std::io::Read;

/// Largest content of a packed file.
const LIMIT: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(backup) = serde_json::from_slice::<Backup>(bytes) {
        let text = serde_json::to_vec(&backup).expect("what was read can be written");
        assert_eq!(serde_json::from_slice::<Backup>(&text).expect("and read again"), backup);
    }
    let _ = serde_json::from_slice::<Restore>(bytes);
    let _ = serde_json::from_slice::<BackupClaim>(bytes);
    let _ = serde_json::from_slice::<Manifest>(bytes);
    // Packed here: random bytes would hardly ever be a valid gzip file.
    let mut packed = Vec::new();
    GzEncoder::new(bytes, Compression::none()).read_to_end(&mut packed).expect("memory");
    let _ = decode::<Results>(&packed, LIMIT);
    let _ = decode::<ResourceList>(&packed, LIMIT);
    let _ = decode::<Vec<BackupVolumeInfo>>(&packed, LIMIT);
    let _ = decode::<Vec<RestoreVolumeInfo>>(&packed, LIMIT);
    // A list arrives in pieces: where they are cut must not matter.
    let whole = split(&[bytes]);
    let (left, right) = bytes.split_at(bytes.len() / 3);
    assert_eq!(split(&[left, right]), whole);
});

/// The elements of a list; `None` when it is refused.
fn split(pieces: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
    let mut splitter = ListSplitter::default();
    let mut out = Vec::new();
    for piece in pieces {
        splitter.feed(piece, &mut out).ok()?;
    }
    splitter.finish().ok()?;
    Some(out.iter().map(|body| body.to_vec()).collect())
}
