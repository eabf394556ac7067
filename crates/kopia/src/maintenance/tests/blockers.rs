//! Parts of a repository that may refer to contents and cannot be read: each stops the collection. Kopia passes over most of
//! them, and deletes the contents to which only they refer.

use super::shelf::Shelf;
use super::{DAY, document, entry, forget, new_repository, run, snapshot, store_object};
use crate::Repository;
use crate::format::content_id::{ContentHash, ContentId};
use crate::format::directory::{Directory, DirectoryEntry, EntryType, Summary, write};
use crate::format::index::build_shards;
use crate::format::object_id::ObjectId;
use crate::object::writer::ObjectOptions;
use crate::splitter::SplitterAlgorithm;
use crate::testing::{Fixture, noise};
use std::sync::Arc;

/// The part of a repository that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    Nothing,
    Directory,
    MissingDirectory,
    Listing,
    MissingContent,
    UnknownType,
    NoObject,
    IndexEntry,
    Marker,
}

const ALL: [Harm; 9] = [
    Harm::Nothing,
    Harm::Directory,
    Harm::MissingDirectory,
    Harm::Listing,
    Harm::MissingContent,
    Harm::UnknownType,
    Harm::NoObject,
    Harm::IndexEntry,
    Harm::Marker,
];

impl Harm {
    /// A part of the blocker that names it.
    fn blocker(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Directory | Self::Listing => Some(" is damaged: "),
            Self::MissingDirectory | Self::MissingContent => Some(" is missing in the repository"),
            Self::UnknownType => Some("its type \"z\" is not known"),
            Self::NoObject => Some("it refers to no object that can be read"),
            Self::IndexEntry => Some("1 entries of indexes cannot be read"),
            Self::Marker => Some("the marker of a session, blob s"),
        }
    }

    /// Saves a snapshot of which something cannot be read, and harms it.
    async fn save(self, fixture: &Fixture, shelf: &Arc<Shelf>) {
        let repository = fixture.open(shelf.clone()).await.unwrap();
        let writer = repository.writer(fixture.write_options(9)).await.unwrap();
        let file = store_object(&writer, None, noise(70, 9000)).await.unwrap();
        let splitter = Some(SplitterAlgorithm::Fixed(1000));
        let mut long = writer.object(ObjectOptions { splitter, ..ObjectOptions::default() });
        long.write(noise(71, 5000).into()).await.unwrap();
        let long = long.finish().await.unwrap();
        assert_eq!(long.levels, 1);
        let child = match self {
            Self::MissingDirectory => entry("x", EntryType::Directory, missing(Some(b'k'))),
            Self::MissingContent => entry("x", EntryType::File, missing(None)),
            Self::UnknownType => entry("x", EntryType::Unknown("z".to_owned()), file),
            Self::NoObject => DirectoryEntry { object: None, ..entry("x", EntryType::File, file) },
            _ => entry("x", EntryType::File, long),
        };
        let directory = Directory { entries: vec![child], summary: Some(Summary::default()) };
        let root = store_object(&writer, Some(b'k'), write(&directory)).await.unwrap();
        writer.save_snapshot(&document(root, (fixture.clock.clock())())).unwrap();
        writer.flush().await.unwrap();
        match self {
            Self::Directory => spoil(&repository, &root.content).await,
            Self::Listing => spoil(&repository, &long.content).await,
            Self::IndexEntry => put_damaged_index(&repository, &root.content).await,
            Self::Marker => {
                let marker = "s00000000000000000000000000000000-s1";
                repository.blobs().put(marker, noise(72, 100).into()).await.unwrap();
            }
            _ => {}
        }
    }
}

/// An object that no index has.
fn missing(prefix: Option<u8>) -> ObjectId {
    ObjectId::direct(ContentId::new(prefix, ContentHash::new(&[7; 16]).unwrap()).unwrap())
}

/// Changes a bit of a content where it is stored.
async fn spoil(repository: &Repository, content: &ContentId) {
    let found = repository.contents().find(content).unwrap().unwrap();
    let mut pack = repository.blobs().read(&found.pack, 1 << 20).await.unwrap().to_vec();
    pack[found.offset as usize + 20] ^= 1;
    repository.blobs().put(&found.pack, pack.into()).await.unwrap();
}

/// Puts an index whose only entry lies in a pack that the index does not name.
async fn put_damaged_index(repository: &Repository, content: &ContentId) {
    let found = repository.contents().find(content).unwrap().unwrap();
    let mut plain = build_shards(2, &[found]).unwrap().remove(0);
    // Behind the header and the key; the number of the pack is there.
    let value = 17 + usize::from(plain[1]);
    plain[value + 15] = 9;
    let (hash, stored) = repository.crypto().seal_blob(&plain, [3; 12]).unwrap();
    repository.blobs().put(&format!("xn0_{hash}-s1-c1"), stored.into()).await.unwrap();
}

#[tokio::test]
async fn whatever_cannot_be_read_stops_the_collection_and_nothing_goes() {
    for harmed in ALL {
        let (fixture, shelf) = new_repository().await;
        let gone = snapshot(&fixture, shelf.clone(), &[1, 2, 3, 4, 5, 6, 7, 8], 2).await;
        harmed.save(&fixture, &shelf).await;
        forget(&fixture, shelf.clone(), &gone).await;
        let before = shelf.keys("p").await;
        for day in 0..6 {
            fixture.clock.advance(DAY);
            let blockers = run(&fixture, shelf.clone(), 0, 100 + day).await.unwrap().plan.unwrap().blockers;
            let is_named = harmed.blocker().is_none_or(|named| blockers.iter().any(|one| one.contains(named)));
            assert!(is_named && blockers.is_empty() == (harmed == Harm::Nothing), "{harmed:?}: {blockers:?}");
        }
        let after = shelf.keys("p").await;
        let all_stay = before.iter().all(|pack| after.contains(pack));
        assert_eq!(all_stay, harmed != Harm::Nothing, "{harmed:?}");
        let repository = fixture.open(shelf.clone()).await.unwrap();
        let entries = repository.contents().scan(None).map(Result::unwrap);
        let deleted = entries.filter(|entry| entry.is_deleted && entry.id.prefix() != Some(b'm')).count();
        assert!(deleted == 0 || harmed == Harm::Nothing, "{harmed:?}: {deleted}");
    }
}
