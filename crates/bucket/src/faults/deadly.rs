//! A store at whose n-th put its user dies, for tests of what is published step by step.

use crate::{
    BlobStore, Body, BucketError, ByteStream, ErrorKind, ListOptions, ObjectInfo, Page, PutOptions, Retention,
};
use async_trait::async_trait;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Takes so many more puts; with the next one its user is killed, before or after that had its effect.
#[derive(Debug)]
pub struct Deadly {
    inner: Arc<dyn BlobStore>,
    /// Nothing when the user is dead.
    left: Mutex<Option<usize>>,
    takes_last: bool,
}

impl Deadly {
    /// Makes a store that lets so many puts through. The next put fails, but has its effect first when `takes_last`;
    /// every later one fails without an effect.
    pub fn new(inner: Arc<dyn BlobStore>, puts: usize, takes_last: bool) -> Self {
        Self { inner, left: Mutex::new(Some(puts)), takes_last }
    }
}

#[async_trait]
impl BlobStore for Deadly {
    fn describe(&self) -> String {
        self.inner.describe()
    }
    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        let left = {
            let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
            let before = *left;
            *left = before.and_then(|puts| puts.checked_sub(1));
            before
        };
        match left {
            Some(1..) => return self.inner.put(key, body, options).await,
            Some(0) if self.takes_last => drop(self.inner.put(key, body, options).await?),
            _ => {}
        }
        let (key, store, message) = (key.to_owned(), self.describe(), "killed".to_owned());
        Err(BucketError { kind: ErrorKind::Other, operation: "put", key, store, message, source: None })
    }
    async fn retain(&self, key: &str, retention: Retention) -> Result<(), BucketError> {
        self.inner.retain(key, retention).await
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
        self.inner.delete(keys).await
    }
    async fn abort_stale_uploads(&self, prefix: &str, age: Duration) -> Result<u64, BucketError> {
        self.inner.abort_stale_uploads(prefix, age).await
    }
    async fn presign(&self, _: &str, _: Duration) -> Result<Option<String>, BucketError> {
        Ok(None)
    }
}
