//! Documents that are damaged: an error or another document, never a panic.

use crate::matrix;
use lifeboat_kopia::crypto::Password;
use lifeboat_kopia::format::FormatError;
use lifeboat_kopia::format::maintenance::{MaintenanceParameters, Schedule};
use lifeboat_kopia::format::policy::Policy;
use lifeboat_kopia::format::repository::{OpenFormatError, open_format};
use lifeboat_kopia::format::session::SessionMarker;
use lifeboat_kopia::format::snapshot::SnapshotDocument;
use lifeboat_kopia::format::{directory, listing};
use proptest::prelude::*;

/// Documents that kopia wrote: directories, listings, and the schedule.
fn documents() -> Vec<Vec<u8>> {
    let mut documents = Vec::new();
    for name in ["json-names", "concat", "splitter-fixed-1m-v1"] {
        let objects = matrix::get(name).expected["objects"].as_object().unwrap();
        documents.extend(objects.values().map(|text| text.as_str().unwrap().as_bytes().to_vec()));
    }
    let fixture = matrix::get("default");
    let schedule = Schedule::open(&fixture.format, &fixture.blobs["kopia.maintenance"]).unwrap();
    documents.push(schedule.write());
    documents
}

/// Gives the bytes to all decoders of documents.
fn decode_all(bytes: &[u8]) {
    let _ = listing::parse(bytes);
    let _ = directory::read::<FormatError>(bytes, |_| Ok(()));
    let _ = Schedule::parse(bytes);
    let _ = SessionMarker::parse(bytes);
    let text = String::from_utf8_lossy(bytes);
    let _ = SnapshotDocument::parse(&text);
    let _ = Policy::parse(&text);
    let _ = MaintenanceParameters::parse(&text);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn damaged_documents_never_panic(which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let documents = documents();
        let mut damaged = which.get(&documents).clone();
        let at = at.index(damaged.len());
        damaged[at] = byte;
        decode_all(&damaged);
        damaged.truncate(cut.index(damaged.len()));
        decode_all(&damaged);
    }

    #[test]
    fn a_document_that_is_cut_off_is_refused(which in any::<prop::sample::Index>(), cut in any::<prop::sample::Index>()) {
        let documents = documents();
        let whole = which.get(&documents);
        // The newline at the end is not needed.
        let part = &whole[..cut.index(whole.len() - 1)];
        prop_assert!(listing::parse(part).is_err());
        prop_assert!(directory::read::<FormatError>(part, |_| Ok(())).is_err());
        prop_assert!(Schedule::parse(part).is_err());
    }

    #[test]
    fn other_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        decode_all(&bytes);
    }
}

#[test]
fn a_damaged_format_blob_never_opens_as_another_format() {
    let fixture = matrix::get("kdf-pbkdf2");
    let blob = &fixture.blobs["kopia.repository"];
    let text = String::from_utf8(blob.clone()).unwrap();
    let start = text.find("encryptedBlockFormat").unwrap() + 24;
    let password = Password::new(matrix::PASSWORD.into());
    for at in [start, start + 40, text.len() - 20] {
        let mut damaged = blob.clone();
        damaged[at] = if damaged[at] == b'A' { b'B' } else { b'A' };
        let opened = open_format(&damaged, &password);
        assert!(matches!(opened, Err(OpenFormatError::WrongPassword)), "{at}");
    }
    for cut in [0, 1, 100, blob.len() / 2, blob.len() - 2] {
        assert!(matches!(open_format(&blob[..cut], &password), Err(OpenFormatError::Format(_))), "{cut}");
    }
}
