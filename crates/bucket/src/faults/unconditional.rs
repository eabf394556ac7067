//! A store that keeps no condition on puts, for tests of what relies on them.

use crate::{
    BlobStore, Body, BucketError, ByteStream, ErrorKind, ListOptions, Memory, ObjectInfo, Page, PutOptions, Retention,
};
use async_trait::async_trait;
use std::ops::Range;
use std::time::Duration;
use tokio::time::sleep;

/// A store in memory that keeps no condition: it refuses a put with one, or stores it in any case.
#[derive(Debug)]
pub struct Unconditional {
    inner: Memory,
    refuses: bool,
    slow: Duration,
}

impl Unconditional {
    /// Makes an empty store; each put that it does not refuse takes so long.
    #[must_use]
    pub fn new(refuses: bool, slow: Duration) -> Self {
        Self { inner: Memory::default(), refuses, slow }
    }
}

#[async_trait]
impl BlobStore for Unconditional {
    fn describe(&self) -> String {
        self.inner.describe()
    }
    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        if options.if_absent && self.refuses {
            let message = "A header is not implemented".to_owned();
            return Err(BucketError::new(ErrorKind::Unsupported, "put", key, self.describe(), message));
        }
        sleep(self.slow).await;
        self.inner.put(key, body, PutOptions { if_absent: false, ..options }).await
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
    async fn presign(&self, key: &str, valid: Duration) -> Result<Option<String>, BucketError> {
        self.inner.presign(key, valid).await
    }
}
