//! The settings of a repository, and the note of a change of the password that was cut off.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lifeboat_kopia::crypto::Secret;
use lifeboat_kopia::format::repository::{RepositoryFormat, Retention, parse_format, retention_of_note};
use std::sync::LazyLock;

/// A format whose keys open nothing.
static FORMAT: LazyLock<RepositoryFormat> = LazyLock::new(|| {
    let document = include_bytes!("../seeds/kopia_format/document");
    parse_format(document, vec![0; 32], Secret::new(vec![0; 32])).expect("a format")
});

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some(retention)) = Retention::parse(bytes) {
        assert!(retention.period > 0, "a lock that has ended when it begins");
    }
    assert!(retention_of_note(&FORMAT, bytes).is_err(), "nothing was encrypted with these keys");
});
