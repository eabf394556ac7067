//! Flushes and creations beside which something else happens.

use crate::blobs::layout::Layout;
use crate::format::repository::NewRepository;
use crate::testing::{Fixture, keys, password, seeded};
use crate::{KopiaError, Repository};
use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use lifeboat_bucket::{
    BlobStore, Body, BucketError, ByteStream, ErrorKind, ListOptions, Memory, ObjectInfo, Page, PutOptions,
};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A store in which something happens before each deletion.
struct BeforeDeletion {
    inner: Arc<Memory>,
    before: Box<dyn Fn() -> BoxFuture<'static, Result<(), BucketError>> + Send + Sync>,
}

impl std::fmt::Debug for BeforeDeletion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BeforeDeletion").finish_non_exhaustive()
    }
}

fn denied() -> BucketError {
    let (key, store, message) = ("key".to_owned(), "store".to_owned(), "access denied".to_owned());
    BucketError { kind: ErrorKind::Denied, operation: "delete", key, store, message, source: None }
}

#[async_trait]
impl BlobStore for BeforeDeletion {
    fn describe(&self) -> String {
        self.inner.describe()
    }
    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        self.inner.put(key, body, options).await
    }
    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        self.inner.get(key, range).await
    }
    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        self.inner.head(key).await
    }
    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        self.inner.list(options).await
    }
    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        (self.before)().await?;
        self.inner.delete(keys).await
    }
    async fn abort_stale_uploads(&self, prefix: &str, age: Duration) -> Result<u64, BucketError> {
        self.inner.abort_stale_uploads(prefix, age).await
    }
    async fn presign(&self, key: &str, valid: Duration) -> Result<Option<String>, BucketError> {
        self.inner.presign(key, valid).await
    }
}

fn text(bytes: &str) -> Bytes {
    Bytes::copy_from_slice(bytes.as_bytes())
}

#[tokio::test]
async fn no_index_tells_of_packs_that_may_be_deleted_since_they_were_put() {
    let fixture = Fixture::usual();
    let store = fixture.store().await;
    for (hours, is_written) in [(12, true), (13, false)] {
        let repository = fixture.open(store.clone()).await.unwrap();
        let writer = repository.writer(fixture.write_options(7)).await.unwrap();
        writer.contents().write(None, text(&format!("{hours}")), None).await.unwrap();
        fixture.clock.advance(hours * 3600 - 60);
        let before = keys(&*store, "xn").await.len();
        let flushed = writer.flush().await.map_err(|e| e.to_string());
        assert_eq!((flushed.is_ok(), keys(&*store, "xn").await.len()), (is_written, before + usize::from(is_written)));
        if let Err(refused) = flushed {
            assert!(refused.contains("more than 12 hours have passed"), "{refused}");
        }
    }
}

/// The upgrade comes while the packs of a flush are put.
#[tokio::test]
async fn an_index_goes_where_an_upgraded_repository_has_its_indexes() {
    let before = Fixture::new(&NewRepository { version: 1, ..NewRepository::default() });
    let upgraded = Fixture::usual();
    let store = before.store().await;
    let repository = Repository::open(store.clone(), password(), before.options()).await.unwrap();
    let writer = repository.writer(before.write_options(7)).await.unwrap();
    writer.contents().write(None, text("data"), None).await.unwrap();
    let format = upgraded.open(upgraded.store().await).await.unwrap();
    let format = format.blobs().read("kopia.repository", 1 << 20).await.unwrap();
    store.put("kopia.repository", format.into(), PutOptions::default()).await.unwrap();
    writer.flush().await.unwrap();
    assert_eq!((keys(&*store, "n").await.len(), keys(&*store, "xn").await.len()), (0, 1));
}

#[tokio::test]
async fn a_marker_that_cannot_be_deleted_stays_and_the_next_flush_deletes_it() {
    let fixture = Fixture::usual();
    let inner = fixture.store().await;
    let is_closed = Arc::new(AtomicBool::new(true));
    let denying = is_closed.clone();
    let before = move || {
        let is_denied = denying.load(Ordering::SeqCst);
        async move { if is_denied { Err(denied()) } else { Ok(()) } }.boxed()
    };
    let store = Arc::new(BeforeDeletion { inner: inner.clone(), before: Box::new(before) });
    let repository = fixture.open(store.clone()).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    let mut seen = Vec::new();
    for (content, is_denied) in [("1", true), ("2", true), ("3", false)] {
        is_closed.store(is_denied, Ordering::SeqCst);
        writer.contents().write(None, text(content), None).await.unwrap();
        writer.flush().await.unwrap();
        seen.push((writer.contents().left_markers(), keys(&*inner, "s").await.len()));
    }
    assert_eq!(seen, [(1, 1), (2, 2), (0, 0)]);
}

/// The other creation begins and ends between the look at the place and the first deletion of this one.
#[tokio::test]
async fn a_creation_that_comes_too_late_leaves_the_other_repository_usable() {
    let make = |store: Arc<dyn BlobStore>, seed| async move {
        Repository::create(store, &password(), &NewRepository::default(), &seeded(seed), &Layout::Flat).await
    };
    let inner = Arc::new(Memory::default());
    let (place, is_first) = (inner.clone(), AtomicBool::new(true));
    let before = move || {
        let (place, is_first) = (place.clone(), is_first.swap(false, Ordering::SeqCst));
        async move {
            if is_first {
                make(place, 1).await.unwrap();
            }
            Ok(())
        }
        .boxed()
    };
    let late = Arc::new(BeforeDeletion { inner: inner.clone(), before: Box::new(before) });
    let error = make(late, 2).await.unwrap_err();
    assert!(matches!(error, KopiaError::RepositoryExists { .. }), "{error}");
    let fixture = Fixture::usual();
    let repository = Repository::open(inner, password(), fixture.options()).await.unwrap();
    repository.writer(fixture.write_options(1)).await.unwrap();
}
