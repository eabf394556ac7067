//! New repositories.

use crate::blobs::layout::Layout;
use crate::format::repository::{NewRepository, Retention, RetentionMode};
use crate::testing::{Fixture, keys, password, seeded};
use crate::{KopiaError, Random, Repository};
use bytes::Bytes;
use lifeboat_bucket::faults::Deadly;
use lifeboat_bucket::{BlobStore, Directory, Memory, PutOptions};
use std::sync::Arc;

async fn create(store: Arc<dyn BlobStore>, layout: &Layout) -> Result<(), KopiaError> {
    Repository::create(store, &password(), &NewRepository::default(), &seeded(1), layout).await
}

#[tokio::test]
async fn a_new_repository_opens_with_its_password_and_takes_contents() {
    let fixture = Fixture::usual();
    let root = tempfile::tempdir().unwrap();
    let folder: Arc<dyn BlobStore> = Arc::new(Directory::open(root.path()).unwrap());
    for (store, layout, expected) in [
        (
            Arc::new(Memory::default()) as Arc<dyn BlobStore>,
            Layout::Flat,
            ["kopia.blobcfg", "kopia.repository"].as_slice(),
        ),
        (folder, Layout::sharded(), &[".shards", "kopia.blobcfg.f", "kopia.repository.f"]),
    ] {
        create(store.clone(), &layout).await.unwrap();
        assert_eq!(keys(&*store, "").await, expected);
        let repository = Repository::open(store.clone(), password(), fixture.options()).await.unwrap();
        let writer = repository.writer(fixture.write_options(7)).await.unwrap();
        let id = writer.contents().write(None, Bytes::from_static(b"data"), None).await.unwrap();
        writer.flush().await.unwrap();
        let again = Repository::open(store.clone(), password(), fixture.options()).await.unwrap();
        assert_eq!(
            (again.contents().read(&id).await.unwrap(), again.blobs().layout()),
            (Bytes::from_static(b"data"), &layout)
        );
        // In either layout.
        for layout in [Layout::Flat, Layout::sharded()] {
            let error = create(store.clone(), &layout).await.unwrap_err();
            assert!(matches!(error, KopiaError::RepositoryExists { .. }), "{error}");
        }
    }
    assert_eq!(
        std::fs::read_to_string(root.path().join(".shards")).unwrap(),
        "{\"default\":[1,3],\"maxNonShardedLength\":20}\n"
    );
    assert!(root.path().join("x/n0_").is_dir());
}

#[tokio::test]
async fn a_place_with_other_data_gets_no_repository() {
    let store = Arc::new(Memory::default());
    store.put("p00", vec![1].into(), PutOptions::default()).await.unwrap();
    let error = create(store.clone(), &Layout::Flat).await.unwrap_err();
    let expected = "memory holds other data, such as \"p00\": a repository is made only in an empty place";
    assert_eq!((error.to_string().as_str(), keys(&*store, "").await.len()), (expected, 1));
    let other = NewRepository { max_pack_size: 1, ..NewRepository::default() };
    let random: Random = seeded(1);
    let empty = Arc::new(Memory::default());
    let error = Repository::create(empty.clone(), &password(), &other, &random, &Layout::Flat).await.unwrap_err();
    assert!(error.to_string().contains("packs have 10 MiB to 120 MiB"), "{error}");
    assert_eq!(keys(&*empty, "").await, [""; 0]);
}

#[tokio::test]
async fn a_creation_that_was_cut_off_is_done_again() {
    for (puts, takes_last) in [(0, false), (0, true), (1, false)] {
        let store = Arc::new(Memory::default());
        let deadly = Arc::new(Deadly::new(store.clone(), puts, takes_last));
        create(deadly, &Layout::Flat).await.unwrap_err();
        create(store.clone(), &Layout::Flat).await.unwrap();
        let fixture = Fixture::usual();
        let repository = Repository::open(store, password(), fixture.options()).await.unwrap();
        repository.writer(fixture.write_options(1)).await.unwrap();
    }
}

#[tokio::test]
async fn of_two_that_make_a_repository_at_once_one_succeeds() {
    let store = Arc::new(Memory::default());
    let one = |seed| {
        let store = store.clone();
        async move { Repository::create(store, &password(), &NewRepository::default(), &seeded(seed), &Layout::Flat).await }
    };
    let (a, b) = tokio::join!(one(1), one(2));
    assert_eq!([&a, &b].iter().filter(|result| result.is_ok()).count(), 1, "{a:?} {b:?}");
    let fixture = Fixture::usual();
    let repository = Repository::open(store, password(), fixture.options()).await.unwrap();
    repository.writer(fixture.write_options(1)).await.unwrap();
}

/// Memory cannot keep an object, and says so.
#[tokio::test]
async fn blobs_carry_the_object_lock_of_the_repository() {
    let retention = Some(Retention { mode: RetentionMode::Governance, period: 86_400_000_000_000 });
    let fixture = Fixture::new(&NewRepository { retention, ..NewRepository::default() });
    let repository = fixture.open(fixture.store().await).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    writer.contents().write(None, Bytes::from_static(b"data"), None).await.unwrap();
    let error = writer.flush().await.unwrap_err();
    assert!(error.to_string().contains("nothing here keeps an object from being deleted"), "{error}");
}
