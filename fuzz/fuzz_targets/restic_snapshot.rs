//! The documents `config`, of `snapshots/` and of `locks/`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lifeboat_restic::format::config::Config;
use lifeboat_restic::format::lock::LockDocument;
use lifeboat_restic::format::snapshot::SnapshotDocument;

fuzz_target!(|bytes: &[u8]| {
    let _ = Config::parse(bytes);
    let _ = SnapshotDocument::parse(bytes);
    let _ = LockDocument::parse(bytes);
});
