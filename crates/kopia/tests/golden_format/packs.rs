//! Packs: postambles, local indexes, replicas of the format.

use crate::matrix;
use lifeboat_kopia::format::blob_name::{BlobKind, parse};
use lifeboat_kopia::format::index::Index;
use lifeboat_kopia::format::pack::{MAX_REPLICA, Postamble, find_replica, padding, write_replica};

#[test]
fn the_local_index_of_every_pack_is_found_and_tells_the_same_as_the_index_blobs() {
    let mut packs = 0;
    for fixture in matrix::all() {
        let entries = fixture.entries();
        for (name, pack) in &fixture.blobs {
            if !matches!(parse(name), BlobKind::DataPack | BlobKind::MetadataPack) {
                continue;
            }
            let postamble = Postamble::parse(pack).unwrap();
            let start = postamble.index_offset as usize;
            let end = start + postamble.index_length as usize;
            assert_eq!(end + postamble.write().len(), pack.len(), "{} {name}", fixture.name);
            let plain = fixture.crypto.open_local_index(&postamble.iv, &pack[start..end]).unwrap();
            assert_eq!(fixture.crypto.hash(&plain).as_bytes(), postamble.iv);
            let index = Index::open(plain, fixture.crypto.overhead()).unwrap();
            let mut end_of_contents = 0;
            for entry in index.scan() {
                let entry = entry.unwrap();
                if entry.pack == *name && !entry.is_deleted {
                    end_of_contents = end_of_contents.max(u64::from(entry.offset + entry.packed_length));
                }
                // Unless something newer has replaced it, the index blobs have the same entry.
                if let Some(known) = entries.get(&entry.id.to_string()) {
                    assert!(known == &entry || known.wins_over(&entry), "{} {}", fixture.name, entry.id);
                }
            }
            if end_of_contents > 0 {
                let expected = end_of_contents + padding(end_of_contents) as u64;
                assert_eq!(postamble.index_offset, expected, "{} {name}", fixture.name);
            }
            packs += 1;
        }
    }
    assert!(packs > 200, "{packs}");
}

#[test]
fn packs_have_a_replica_of_the_format_where_the_password_cannot_change() {
    let mut replicas = 0;
    for fixture in matrix::all() {
        for (name, pack) in &fixture.blobs {
            if !matches!(parse(name), BlobKind::DataPack | BlobKind::MetadataPack) {
                continue;
            }
            let first = &pack[..pack.len().min(MAX_REPLICA)];
            let last = &pack[pack.len().saturating_sub(MAX_REPLICA)..];
            let replica = find_replica(first, last);
            assert_eq!(replica.is_some(), !fixture.format.enable_password_change, "{} {name}", fixture.name);
            if let Some(replica) = replica {
                assert!(pack.starts_with(&write_replica(replica).unwrap()));
                replicas += 1;
            }
        }
    }
    assert!(replicas > 10, "{replicas}");
}

#[test]
fn the_replica_is_the_format_blob_as_long_as_that_has_not_changed() {
    let fixture = matrix::get("format-v1");
    let pack = fixture.blobs.iter().find(|(name, _)| name.starts_with('p')).unwrap().1;
    assert_eq!(find_replica(pack, b""), Some(fixture.blobs["kopia.repository"].as_slice()));
}
