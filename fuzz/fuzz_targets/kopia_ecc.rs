//! Error correction, which comes before the bytes are authenticated: the first byte chooses its share.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lifeboat_kopia::crypto::{Crypto, Secret};
use lifeboat_kopia::format::content_id::{ContentHash, ContentId};
use lifeboat_kopia::format::repository::parse_format;
use std::sync::LazyLock;

static ALL: LazyLock<Vec<Crypto>> = LazyLock::new(|| {
    let document = include_bytes!("../seeds/kopia_format/document");
    let with = |percent| {
        let mut format = parse_format(document, vec![0; 32], Secret::new(vec![0; 32])).expect("a format");
        format.ecc_overhead_percent = percent;
        Crypto::new(&format).expect("keys")
    };
    [1, 2, 5, 10, 50, 100].map(with).into()
});

fuzz_target!(|bytes: &[u8]| {
    let Some((number, stored)) = bytes.split_first() else { return };
    let id = ContentId::new(None, ContentHash::new(&[7; 16]).expect("a hash")).expect("an ID");
    let opened = ALL[usize::from(*number) % ALL.len()].open_content(&id, stored);
    assert!(opened.is_err(), "nothing was encrypted with these keys");
});
