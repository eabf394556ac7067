//! Indexes, packs and contents.

use crate::matrix;
use lifeboat_kopia::compression::decompress;
use lifeboat_kopia::format::content_id::ContentId;
use lifeboat_kopia::format::index::{Entry, Index, build};

#[test]
fn every_content_that_kopia_lists_is_in_the_indexes_with_the_same_values() {
    for fixture in matrix::all() {
        let entries = fixture.entries();
        for content in fixture.expected["contents"].as_array().unwrap() {
            let number = |name: &str| content[name].as_u64().unwrap_or(0);
            let id = content["contentID"].as_str().unwrap();
            let expected = Entry {
                id: ContentId::parse(id).unwrap(),
                timestamp: number("time"),
                is_deleted: content["deleted"].as_bool().unwrap(),
                pack: content["packFile"].as_str().unwrap().to_owned(),
                offset: number("packOffset") as u32,
                packed_length: number("length") as u32,
                original_length: number("originalLength") as u32,
                compression: number("compression") as u32,
                format_version: number("formatVersion") as u8,
                key: 0,
            };
            assert_eq!(entries.get(id), Some(&expected), "{} {id}", fixture.name);
        }
    }
}

#[test]
fn every_content_decrypts_decompresses_and_has_the_hash_and_length_of_its_entry() {
    let mut count = 0;
    for fixture in matrix::all() {
        for (id, entry) in fixture.entries() {
            let Some(stored) = fixture.stored(&entry) else {
                continue;
            };
            let mut plain = fixture.crypto.open_content(&entry.id, stored).unwrap();
            let length = entry.original_length as usize;
            if entry.compression != 0 {
                plain = decompress(entry.compression, &plain, length).unwrap();
            }
            assert_eq!((fixture.crypto.hash(&plain), plain.len()), (*entry.id.hash(), length), "{} {id}", fixture.name);
            count += 1;
        }
    }
    assert!(count > 1000, "{count}");
}

#[test]
fn an_index_that_is_read_and_written_again_has_the_same_bytes() {
    for fixture in matrix::all() {
        for (name, plain) in fixture.indexes() {
            let index = Index::open(plain.as_slice(), fixture.crypto.overhead()).unwrap();
            let entries: Vec<Entry> = index.scan().map(Result::unwrap).collect();
            for (number, entry) in entries.iter().enumerate() {
                assert_eq!(&index.entry(number as u64).unwrap(), entry);
                assert_eq!(index.find(&entry.id).unwrap().as_ref(), Some(entry));
            }
            let written = build(plain[0], &entries).unwrap();
            // Compactions of version 1 have 32 random bytes at the end.
            let random = plain.len() - written.len();
            assert!(random == 0 || (random == 32 && !name.contains('-')), "{name}");
            assert_eq!(written, plain[..written.len()], "{} {name}", fixture.name);
        }
    }
}
