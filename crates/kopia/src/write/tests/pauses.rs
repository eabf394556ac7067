//! The process stands still, the repository is upgraded, or an index is withdrawn while a writer works.

use super::manifests::document;
use crate::crypto::Password;
use crate::format::blob_name::FORMAT;
use crate::format::repository::NewRepository;
use crate::testing::{Fixture, keys, password, seeded};
use crate::{KopiaError, Repository, RepositoryWriter};
use async_trait::async_trait;
use bytes::Bytes;
use lifeboat_bucket::faults::StoreDecorator;
use lifeboat_bucket::{BlobStore, Body, BucketError, ErrorKind, Memory, PutOptions, collect};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const HOUR: i64 = 3600;

/// A function that comes before a call with a key; an error is the call's.
type Hook = dyn Fn(&'static str, &str) -> Before + Send + Sync;

/// The event before a call.
enum Before {
    Nothing,
    Put(&'static str, Vec<u8>),
    Fails,
}

/// A store in which something comes before some calls.
struct Hooked {
    inner: Arc<Memory>,
    hook: Box<Hook>,
}

impl std::fmt::Debug for Hooked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooked").finish_non_exhaustive()
    }
}

impl Hooked {
    fn new(inner: &Arc<Memory>, hook: impl Fn(&'static str, &str) -> Before + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { inner: inner.clone(), hook: Box::new(hook) })
    }

    async fn call(&self, operation: &'static str, key: &str) -> Result<(), BucketError> {
        match (self.hook)(operation, key) {
            Before::Nothing => Ok(()),
            Before::Put(other, bytes) => self.inner.put(other, bytes.into(), PutOptions::default()).await.map(drop),
            Before::Fails => {
                let (key, store, message) = (key.to_owned(), "hooked".to_owned(), "it is denied".to_owned());
                Err(BucketError { kind: ErrorKind::Denied, operation, key, store, message, source: None })
            }
        }
    }
}

#[async_trait]
impl StoreDecorator for Hooked {
    fn inner(&self) -> &dyn BlobStore {
        &*self.inner
    }
    fn describe(&self) -> String {
        "hooked".to_owned()
    }
    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        self.call("put", key).await?;
        self.inner.put(key, body, options).await
    }
    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        self.call("delete", &keys.join(" ")).await?;
        self.inner.delete(keys).await
    }
}

async fn writer(fixture: &Fixture, store: Arc<dyn BlobStore>, seed: u64) -> RepositoryWriter {
    fixture.open(store).await.unwrap().writer(fixture.write_options(seed)).await.unwrap()
}

async fn write(writer: &RepositoryWriter, text: &'static str) -> Result<(), KopiaError> {
    writer.contents().write(None, Bytes::from_static(text.as_bytes()), None).await.map(drop)
}

#[tokio::test]
async fn a_snapshot_after_a_long_pause_of_its_process_is_refused() {
    let fixture = Fixture::usual();
    let store = fixture.store().await;
    let writer = writer(&fixture, store.clone(), 7).await;
    write(&writer, "reused").await.unwrap();
    writer.save_snapshot(&document(None)).unwrap();
    writer.flush().await.unwrap();
    write(&writer, "reused").await.unwrap();
    fixture.clock.advance(5 * HOUR);
    writer.save_snapshot(&document(None)).unwrap();
    let error = writer.flush().await.unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot save a manifest: this process stood still for 300 minutes since the last one that it saved, or the clock was \
         set on: maintenance may have deleted meanwhile what it refers to. Run it again: what an earlier snapshot or \
         checkpoint has is taken over"
    );
    assert_eq!(write(&writer, "more").await.unwrap_err().to_string(), error);
    assert_eq!(fixture.open(store).await.unwrap().snapshots().await.unwrap().len(), 1);
}

/// The process stands still after the packs are put.
#[tokio::test]
async fn a_pause_in_the_middle_of_a_flush_refuses_its_snapshot_too() {
    let fixture = Fixture::usual();
    let store = fixture.store().await;
    let clock = fixture.clock.clone();
    let hooked = Hooked::new(&store, move |operation, key| {
        if operation == "put" && key.starts_with('q') {
            clock.advance(2 * HOUR);
        }
        Before::Nothing
    });
    let writer = writer(&fixture, hooked, 7).await;
    write(&writer, "data").await.unwrap();
    writer.save_snapshot(&document(None)).unwrap();
    let error = writer.flush().await.unwrap_err().to_string();
    assert!(error.contains("stood still for 120 minutes"), "{error}");
    assert_eq!(keys(&*store, "xn").await, [""; 0]);
}

#[tokio::test]
async fn days_of_work_with_checkpoints_and_short_pauses_are_saved() {
    let fixture = Fixture::usual();
    let store = fixture.store().await;
    let writer = writer(&fixture, store.clone(), 7).await;
    for round in 0..60_u8 {
        // Work without a manifest in between, and a pause of an hour.
        for minute in 0..20_u8 {
            fixture.clock.advance(240);
            writer.contents().write(None, vec![round, minute].into(), None).await.unwrap();
        }
        fixture.clock.advance(HOUR);
        writer.save_snapshot(&document(None)).unwrap();
        writer.flush().await.unwrap();
    }
    assert_eq!(fixture.open(store).await.unwrap().snapshots().await.unwrap().len(), 60);
}

#[tokio::test]
async fn packs_whose_session_is_half_a_day_old_get_no_index() {
    let fixture = Fixture::usual();
    let store = fixture.store().await;
    let writer = writer(&fixture, store.clone(), 7).await;
    write(&writer, "data").await.unwrap();
    fixture.clock.advance(97 * HOUR);
    let error = writer.contents().flush().await.unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot write an index: its packs were begun 97 hours ago and may be deleted by now, since this process stood still \
         or the clock was set on: run it again"
    );
    assert_eq!(keys(&*store, "xn").await, [""; 0]);
}

#[tokio::test]
async fn markers_that_cannot_be_deleted_end_no_writer_and_go_later() {
    let fixture = Fixture::usual();
    let store = fixture.store().await;
    let denied = Arc::new(AtomicUsize::new(3));
    let hooked = Hooked::new(&store, move |operation, _| {
        let denies = |left: usize| left.checked_sub(1);
        let is_denied =
            operation == "delete" && denied.fetch_update(Ordering::SeqCst, Ordering::SeqCst, denies).is_ok();
        if is_denied { Before::Fails } else { Before::Nothing }
    });
    let writer = writer(&fixture, hooked, 7).await;
    for (round, expected) in [1, 2, 3, 0].into_iter().enumerate() {
        writer.contents().write(None, vec![round as u8].into(), None).await.unwrap();
        writer.flush().await.unwrap();
        let left = (writer.contents().undeleted_markers(), keys(&*store, "s").await.len());
        assert_eq!(left, (expected, expected), "{round}");
    }
}

/// A repository of version 1, and its format after an upgrade.
async fn before_upgrade() -> (Arc<Memory>, Vec<u8>) {
    let password: Password = password();
    let [old, new] =
        [1, 3].map(|version| (Arc::new(Memory::default()), NewRepository { version, ..NewRepository::default() }));
    for (store, new) in [&old, &new] {
        let layout = crate::blobs::layout::Layout::Flat;
        Repository::create(store.clone(), &password, new, &seeded(1), &layout).await.unwrap();
    }
    let upgraded = crate::blobs::Blobs::open(new.0).await.unwrap().read(FORMAT, 1 << 20).await.unwrap();
    (old.0, upgraded.to_vec())
}

#[tokio::test]
async fn an_index_after_an_upgrade_goes_where_everybody_reads_it() {
    let fixture = Fixture::usual();
    let (store, upgraded) = before_upgrade().await;
    let repository = Repository::open(store.clone(), password(), fixture.options()).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    write(&writer, "data").await.unwrap();
    writer.save_snapshot(&document(None)).unwrap();
    store.put(FORMAT, upgraded.into(), PutOptions::default()).await.unwrap();
    writer.flush().await.unwrap();
    assert_eq!((keys(&*store, "n").await.len(), keys(&*store, "xn0_").await.len()), (0, 1));
    let again = Repository::open(store, password(), fixture.options()).await.unwrap();
    assert_eq!(again.snapshots().await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_index_that_an_upgrade_overtakes_is_withdrawn_and_the_flush_fails() {
    let fixture = Fixture::usual();
    let (store, upgraded) = before_upgrade().await;
    let hooked = Hooked::new(&store, move |operation, key| {
        let is_index = operation == "put" && key.starts_with('n');
        if is_index { Before::Put(FORMAT, upgraded.clone()) } else { Before::Nothing }
    });
    let repository = Repository::open(hooked, password(), fixture.options()).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    write(&writer, "data").await.unwrap();
    let error = writer.flush().await.unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot write an index: the repository was upgraded while it was written: try again, after the upgrade"
    );
    assert_eq!(keys(&*store, "n").await, [""; 0]);
}

/// Two repositories with the same password, as all of Velero have.
async fn two_repositories() -> [Arc<Memory>; 2] {
    let stores = [Arc::new(Memory::default()), Arc::new(Memory::default())];
    for (store, seed) in stores.iter().zip([1, 2]) {
        let (new, layout) = (NewRepository::default(), crate::blobs::layout::Layout::Flat);
        Repository::create(store.clone(), &password(), &new, &seeded(seed), &layout).await.unwrap();
    }
    stores
}

#[tokio::test]
async fn a_repository_that_was_made_anew_gets_nothing_of_the_old_one() {
    let fixture = Fixture::usual();
    let [store, another] = two_repositories().await;
    let repository = Repository::open(store.clone(), password(), fixture.options()).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    write(&writer, "data").await.unwrap();
    store.delete(&keys(&*store, "").await).await.unwrap();
    let new = keys(&*another, "").await;
    for key in &new {
        let bytes = collect(another.get(key, None).await.unwrap(), 1 << 20).await.unwrap();
        store.put(key, bytes.into(), PutOptions::default()).await.unwrap();
    }
    let error = writer.flush().await.unwrap_err().to_string();
    assert!(error.contains("was replaced by another one since it was opened"), "{error}");
    assert_eq!(keys(&*store, "").await, new);
}

#[tokio::test]
async fn a_repository_that_is_made_anew_during_a_flush_gets_no_index() {
    let fixture = Fixture::usual();
    let [store, another] = two_repositories().await;
    let format = collect(another.get(FORMAT, None).await.unwrap(), 1 << 20).await.unwrap().to_vec();
    let hooked = Hooked::new(&store, move |operation, key| {
        let is_pack = operation == "put" && key.starts_with('p');
        if is_pack { Before::Put(FORMAT, format.clone()) } else { Before::Nothing }
    });
    let repository = Repository::open(hooked, password(), fixture.options()).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    write(&writer, "data").await.unwrap();
    let error = writer.flush().await.unwrap_err().to_string();
    assert!(error.contains("was replaced by another one since it was opened"), "{error}");
    assert_eq!((keys(&*store, "p").await.len(), keys(&*store, "x").await.len()), (1, 0));
    // The pack of the one before does not make the new one look as if its indexes were lost.
    store.delete(&keys(&*store, "s").await).await.unwrap();
    let opened = Repository::open(store, password(), fixture.options()).await.unwrap();
    assert_eq!(opened.contents().scan(None).count(), 0);
}

#[tokio::test]
async fn contents_of_an_index_that_was_withdrawn_are_stored_again() {
    for (version, prefix) in [(3, "xn"), (1, "n")] {
        let fixture = Fixture::new(&NewRepository { version, ..NewRepository::default() });
        let store = fixture.store().await;
        let writer = writer(&fixture, store.clone(), 7).await;
        write(&writer, "kept").await.unwrap();
        writer.flush().await.unwrap();
        let kept = keys(&*store, prefix).await;
        let other = self::writer(&fixture, store.clone(), 8).await;
        let id = other.contents().write(None, Bytes::from_static(b"data"), None).await.unwrap();
        other.flush().await.unwrap();
        let contents = writer.repository().contents();
        contents.refresh().await.unwrap();
        assert!(contents.find(&id).unwrap().is_some());
        let withdrawn: Vec<String> =
            keys(&*store, prefix).await.into_iter().filter(|key| !kept.contains(key)).collect();
        store.delete(&withdrawn).await.unwrap();
        contents.refresh().await.unwrap();
        assert_eq!((contents.find(&id).unwrap(), contents.scan(None).count()), (None, 1));
        write(&writer, "data").await.unwrap();
        assert_eq!(writer.flush().await.unwrap().new_contents, 1);
        assert_eq!(fixture.open(store).await.unwrap().contents().read(&id).await.unwrap(), "data");
    }
}
