//! New repositories.

use crate::blobs::layout::Layout;
use crate::format::blob_name::CREATION_CLAIM;
use crate::format::repository::{NewRepository, Retention, RetentionMode};
use crate::testing::{Fixture, keys, password, seeded};
use crate::{KopiaError, Random, Repository};
use async_trait::async_trait;
use bytes::Bytes;
use lifeboat_bucket::faults::Deadly;
use lifeboat_bucket::{
    BlobStore, Body, BucketError, ByteStream, Directory, ErrorKind, ListOptions, Memory, ObjectInfo, Page, PutOptions,
};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

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

#[tokio::test(start_paused = true)]
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

/// A store in which another creation comes between two calls of a first one.
#[derive(Debug)]
struct Crowded {
    inner: Arc<Memory>,
    /// The number of the call before which another repository is made.
    at: usize,
    calls: AtomicUsize,
    other: Mutex<Option<bool>>,
    knows_conditions: bool,
    /// The time that passes before the format is put.
    format_takes: Duration,
    /// The listings of claims so far, and how many of them are older than all puts.
    listings: AtomicUsize,
    late_listings: usize,
}

impl Crowded {
    fn new(at: usize, knows_conditions: bool) -> Arc<Self> {
        Arc::new(Self::over(Arc::default(), at, knows_conditions))
    }

    fn over(inner: Arc<Memory>, at: usize, knows_conditions: bool) -> Self {
        let (calls, other) = (AtomicUsize::new(0), Mutex::default());
        let (listings, late_listings) = (AtomicUsize::new(0), 0);
        Self { inner, at, calls, other, knows_conditions, format_takes: Duration::ZERO, listings, late_listings }
    }

    async fn call(&self) {
        // All calls of two that run side by side are mixed.
        tokio::task::yield_now().await;
        if self.calls.fetch_add(1, Ordering::SeqCst) == self.at {
            let other = create_with(self.inner.clone(), 2).await;
            *self.other.lock().unwrap() = Some(other.is_ok());
        }
    }
}

#[async_trait]
impl BlobStore for Crowded {
    fn describe(&self) -> String {
        "crowded".to_owned()
    }
    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        self.call().await;
        if options.if_absent && !self.knows_conditions {
            let (key, store, message) = (key.to_owned(), self.describe(), "no conditions".to_owned());
            let kind = ErrorKind::Unsupported;
            return Err(BucketError { kind, operation: "put", key, store, message, source: None });
        }
        if key == "kopia.repository" {
            tokio::time::sleep(self.format_takes).await;
        }
        self.inner.put(key, body, options).await
    }
    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        self.call().await;
        self.inner.get(key, range).await
    }
    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        self.call().await;
        self.inner.head(key).await
    }
    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        self.call().await;
        if options.prefix == CREATION_CLAIM && self.listings.fetch_add(1, Ordering::SeqCst) < self.late_listings {
            return Ok(Page::default());
        }
        self.inner.list(options).await
    }
    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        self.call().await;
        self.inner.delete(keys).await
    }
    async fn abort_stale_uploads(&self, prefix: &str, age: Duration) -> Result<u64, BucketError> {
        self.inner.abort_stale_uploads(prefix, age).await
    }
    async fn presign(&self, key: &str, valid: Duration) -> Result<Option<String>, BucketError> {
        self.inner.presign(key, valid).await
    }
}

async fn create_with(store: Arc<dyn BlobStore>, seed: u64) -> Result<(), KopiaError> {
    Repository::create(store, &password(), &NewRepository::default(), &seeded(seed), &Layout::Flat).await
}

async fn opens_for_writing(store: Arc<Memory>, name: &str) {
    let fixture = Fixture::usual();
    let repository = Repository::open(store, password(), fixture.options()).await;
    let repository = repository.unwrap_or_else(|e| panic!("{name}: {e}"));
    repository.writer(fixture.write_options(1)).await.unwrap_or_else(|e| panic!("{name}: {e}"));
}

#[tokio::test(start_paused = true)]
async fn a_repository_that_another_creation_crosses_opens_for_one_of_them() {
    for has_rest in [false, true] {
        // The calls before these look at the place; each round derives three keys.
        for at in 4.. {
            let store = Crowded::new(at, true);
            if has_rest {
                store.inner.put("kopia.blobcfg", b"rest".to_vec().into(), PutOptions::default()).await.unwrap();
            }
            let first = create_with(store.clone(), 1).await.is_ok();
            let Some(other) = *store.other.lock().unwrap() else { break };
            let name = format!("{has_rest} {at}");
            assert_ne!(first, other, "{name}");
            opens_for_writing(store.inner.clone(), &name).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_creations_where_puts_know_no_conditions_one_succeeds() {
    let store = Crowded::new(usize::MAX, false);
    let (a, b) = tokio::join!(create_with(store.clone(), 1), create_with(store.clone(), 2));
    assert_eq!([&a, &b].iter().filter(|result| result.is_ok()).count(), 1, "{a:?} {b:?}");
    opens_for_writing(store.inner.clone(), "no conditions").await;
}

/// Listings of some gateways are older than the last puts.
#[tokio::test(start_paused = true)]
async fn two_creations_that_listings_do_not_show_yet_wait_for_a_newer_listing() {
    for (late_listings, succeeded) in [(1, 1), (3, 1), (usize::MAX, 0)] {
        let memory: Arc<Memory> = Arc::default();
        let late = || Arc::new(Crowded { late_listings, ..Crowded::over(memory.clone(), usize::MAX, false) });
        let (a, b) = tokio::join!(create_with(late(), 1), create_with(late(), 2));
        assert_eq!([&a, &b].iter().filter(|result| result.is_ok()).count(), succeeded, "{late_listings}: {a:?} {b:?}");
        assert_eq!(keys(&*memory, "io.").await, [""; 0]);
        if succeeded == 0 {
            assert!(a.unwrap_err().to_string().contains("does not list what was put"));
            assert_eq!(keys(&*memory, "").await, [""; 0]);
        }
    }
}

/// A creation looks for a repository, finds none, and puts its own so late that another one has long said that it is done.
#[tokio::test(start_paused = true)]
async fn a_creation_that_is_slow_does_not_replace_one_that_has_succeeded() {
    let memory: Arc<Memory> = Arc::default();
    let slow = Crowded { format_takes: Duration::from_secs(600), ..Crowded::over(memory.clone(), usize::MAX, false) };
    let fast = Crowded::over(memory.clone(), usize::MAX, false);
    let later = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        create_with(Arc::new(fast), 2).await
    };
    let (a, b) = tokio::join!(create_with(Arc::new(slow), 1), later);
    assert_eq!([&a, &b].iter().filter(|result| result.is_ok()).count(), 1, "{a:?} {b:?}");
    opens_for_writing(memory.clone(), "slow").await;
    assert_eq!(keys(&*memory, "io.").await, [""; 0]);
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
