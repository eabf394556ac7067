//! A bucket that notes what is read.

use async_trait::async_trait;
use lifeboat_bucket::{BlobStore, Body, BucketError, ByteStream, ListOptions, ObjectInfo, Page, PutOptions};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A key, and the range of it that was asked for.
pub(crate) type Read = (String, Option<Range<u64>>);

#[derive(Clone, Debug)]
pub(crate) struct Counting {
    inner: Arc<dyn BlobStore>,
    read: Arc<Mutex<Vec<Read>>>,
}

impl Counting {
    pub(crate) fn new(inner: Arc<dyn BlobStore>) -> Self {
        Self { inner, read: Arc::default() }
    }

    /// Takes the reads since the last call: keys whose names end like this, each with its range.
    pub(crate) fn read(&self, end: &str) -> Vec<Read> {
        let mut read = self.read.lock().unwrap();
        let found = read.iter().filter(|(key, _)| key.ends_with(end)).cloned().collect();
        read.retain(|(key, _)| !key.ends_with(end));
        found
    }
}

#[async_trait]
impl BlobStore for Counting {
    fn describe(&self) -> String {
        self.inner.describe()
    }
    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        self.inner.put(key, body, options).await
    }
    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        self.read.lock().unwrap().push((key.to_owned(), range.clone()));
        self.inner.get(key, range).await
    }
    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        self.inner.head(key).await
    }
    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        self.inner.list(options).await
    }
    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        self.inner.delete(keys).await
    }
    async fn abort_stale_uploads(&self, prefix: &str, age: Duration) -> Result<u64, BucketError> {
        self.inner.abort_stale_uploads(prefix, age).await
    }
    async fn presign(&self, key: &str, valid: Duration) -> Result<Option<String>, BucketError> {
        self.inner.presign(key, valid).await
    }
}
