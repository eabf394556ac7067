//! Snapshots into a bucket that is away for a while.

use crate::tree::rows;
use crate::written::Written;
use async_trait::async_trait;
use lifeboat_bucket::faults::StoreDecorator;
use lifeboat_bucket::{
    BlobStore, Body, BucketError, ByteStream, ErrorKind, ListOptions, Memory, ObjectInfo, Page, PutOptions, Retried,
};
use lifeboat_mover::protocol::BUCKET_PATIENCE;
use lifeboat_mover::snapshot::snapshot;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// A store that does not answer until a time.
#[derive(Debug)]
struct Away {
    inner: Arc<Memory>,
    until: Mutex<Instant>,
}

impl Away {
    fn go(&self, seconds: u64) {
        *self.until.lock().unwrap() = Instant::now() + Duration::from_secs(seconds);
    }

    fn ask(&self, operation: &'static str, key: &str) -> Result<(), BucketError> {
        if Instant::now() >= *self.until.lock().unwrap() {
            return Ok(());
        }
        let (key, store, message) = (key.to_owned(), "the store".to_owned(), "it is away".to_owned());
        Err(BucketError { kind: ErrorKind::Transient, operation, key, store, message, source: None })
    }
}

#[async_trait]
impl StoreDecorator for Away {
    fn inner(&self) -> &dyn BlobStore {
        &*self.inner
    }
    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        self.ask("put", key)?;
        self.inner.put(key, body, options).await
    }
    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        self.ask("get", key)?;
        self.inner.get(key, range).await
    }
    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        self.ask("head", key)?;
        self.inner.head(key).await
    }
    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        self.ask("list", "")?;
        self.inner.list(options).await
    }
    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        self.ask("delete", "")?;
        self.inner.delete(keys).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_is_away_is_waited_for_and_a_later_snapshot_goes_on() {
    let ground = Written::new().await;
    let tree = ground.tree();
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join("file"), "bytes").unwrap();
    let store = Arc::new(Away { inner: ground.store.clone(), until: Mutex::new(Instant::now()) });
    let repository = ground.open_over(Arc::new(Retried::new(store.clone(), BUCKET_PATIENCE))).await.unwrap();
    let writer = ground.writer(&repository).await;
    store.go(600);
    let first = snapshot(&writer, &tree, ground.options(), &Arc::default()).await.unwrap();
    assert!(first.is_whole());
    std::fs::write(tree.join("other"), "more bytes").unwrap();
    let writer = ground.writer(&repository).await;
    let began = Instant::now();
    store.go(3600);
    let error = snapshot(&writer, &tree, ground.options(), &Arc::default()).await.unwrap_err();
    assert!(error.is_bucket_unavailable(), "{error}");
    assert!(began.elapsed() > Duration::from_secs(600), "{:?}", began.elapsed());
    store.go(0);
    let repository = ground.open().await;
    let again = ground.take(&repository).await;
    let restored = ground.restored(&repository, again.document.root.as_ref().unwrap()).await;
    assert_eq!(restored, rows(&tree));
}
