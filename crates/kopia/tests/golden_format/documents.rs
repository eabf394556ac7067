//! Directories, listings, manifests and snapshots.

use crate::matrix;
use lifeboat_kopia::format::FormatError;
use lifeboat_kopia::format::directory::{self, Directory};
use lifeboat_kopia::format::listing;
use lifeboat_kopia::format::manifest;
use lifeboat_kopia::format::snapshot::SnapshotDocument;

fn is_listing(text: &str) -> bool {
    text.starts_with("{\"stream\":\"kopia:indirect\"")
}

fn read_directory(text: &[u8]) -> Directory {
    let mut entries = Vec::new();
    let summary = directory::read::<FormatError>(text, |entry| {
        entries.push(entry);
        Ok(())
    })
    .unwrap();
    Directory { entries, summary }
}

#[test]
fn a_directory_or_listing_that_is_read_and_written_again_has_the_bytes_of_kopia() {
    let mut count = 0;
    for fixture in matrix::all() {
        let Some(objects) = fixture.expected["objects"].as_object() else {
            continue;
        };
        for (id, text) in objects {
            let text = text.as_str().unwrap();
            let written = if is_listing(text) {
                listing::write(&listing::parse(text.as_bytes()).unwrap())
            } else {
                directory::write(&read_directory(text.as_bytes()))
            };
            assert_eq!(str::from_utf8(&written).unwrap(), text, "{} {id}", fixture.name);
            count += 1;
        }
    }
    assert!(count > 200, "{count}");
}

#[test]
fn entries_of_kopia_are_in_the_order_in_which_we_sort_them() {
    for fixture in matrix::all() {
        let Some(objects) = fixture.expected["objects"].as_object() else {
            continue;
        };
        for (id, text) in objects {
            let text = text.as_str().unwrap();
            if is_listing(text) {
                continue;
            }
            let mut read = read_directory(text.as_bytes());
            if read.entries.iter().any(|entry| entry.name.is_lossy()) {
                continue;
            }
            let before = read.entries.clone();
            directory::sort(&mut read.entries);
            assert_eq!(read.entries, before, "{} {id}", fixture.name);
        }
    }
}

#[test]
fn every_manifest_is_read_and_written_again_and_snapshots_have_the_bytes_of_kopia() {
    let mut snapshots = 0;
    for fixture in matrix::all() {
        for (id, entry) in fixture.entries() {
            let Some(stored) = fixture.stored(&entry) else {
                continue;
            };
            if entry.id.prefix() != Some(b'm') {
                continue;
            }
            let plain = fixture.crypto.open_content(&entry.id, stored).unwrap();
            let plain = if entry.compression == 0 {
                plain
            } else {
                let length = entry.original_length as usize;
                lifeboat_kopia::compression::decompress(entry.compression, &plain, length).unwrap()
            };
            let manifests = manifest::parse(&plain, 1 << 20).unwrap();
            let again = manifest::parse(&manifest::write(&manifests), 1 << 20).unwrap();
            assert_eq!(again, manifests, "{} {id}", fixture.name);
            for manifest in manifests {
                if manifest.labels.get("type").map(String::as_str) != Some("snapshot") {
                    continue;
                }
                let text = manifest.data.get();
                let document = SnapshotDocument::parse(text).unwrap();
                let written = String::from_utf8(document.write()).unwrap();
                assert_eq!(written, text, "{} {}", fixture.name, manifest.id);
                snapshots += 1;
            }
        }
    }
    assert!(snapshots >= 59, "{snapshots}");
}
