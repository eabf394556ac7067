//! A store around another one, for tests that change what some calls do.

use crate::{BlobStore, Body, BucketError, ByteStream, ListOptions, ObjectInfo, Page, PutOptions, Retention};
use async_trait::async_trait;
use std::fmt::Debug;
use std::ops::Range;
use std::time::Duration;

/// A [`BlobStore`] that does what the store beneath it does, but for the calls that it implements itself.
#[async_trait]
pub trait StoreWrapper: Debug + Send + Sync {
    /// The store beneath.
    fn inner(&self) -> &dyn BlobStore;

    /// [`BlobStore::describe`].
    fn describe(&self) -> String {
        self.inner().describe()
    }

    /// [`BlobStore::reads_ranges`].
    fn reads_ranges(&self) -> bool {
        self.inner().reads_ranges()
    }

    /// [`BlobStore::put`].
    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        self.inner().put(key, body, options).await
    }

    /// [`BlobStore::get`].
    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        self.inner().get(key, range).await
    }

    /// [`BlobStore::head`].
    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        self.inner().head(key).await
    }

    /// [`BlobStore::list`].
    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        self.inner().list(options).await
    }

    /// [`BlobStore::delete`].
    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        self.inner().delete(keys).await
    }

    /// [`BlobStore::abort_stale_uploads`].
    async fn abort_stale_uploads(&self, prefix: &str, age: Duration) -> Result<u64, BucketError> {
        self.inner().abort_stale_uploads(prefix, age).await
    }

    /// [`BlobStore::presign`].
    async fn presign(&self, key: &str, valid: Duration) -> Result<Option<String>, BucketError> {
        self.inner().presign(key, valid).await
    }
}

#[async_trait]
impl<W: StoreWrapper> BlobStore for W {
    fn describe(&self) -> String {
        StoreWrapper::describe(self)
    }
    fn reads_ranges(&self) -> bool {
        StoreWrapper::reads_ranges(self)
    }
    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        StoreWrapper::put(self, key, body, options).await
    }
    async fn retain(&self, key: &str, retention: Retention) -> Result<(), BucketError> {
        self.inner().retain(key, retention).await
    }
    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        StoreWrapper::get(self, key, range).await
    }
    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        StoreWrapper::head(self, key).await
    }
    async fn exists(&self, key: &str) -> Result<bool, BucketError> {
        self.inner().exists(key).await
    }
    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        StoreWrapper::list(self, options).await
    }
    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        StoreWrapper::delete(self, keys).await
    }
    async fn abort_stale_uploads(&self, prefix: &str, age: Duration) -> Result<u64, BucketError> {
        StoreWrapper::abort_stale_uploads(self, prefix, age).await
    }
    async fn presign(&self, key: &str, valid: Duration) -> Result<Option<String>, BucketError> {
        StoreWrapper::presign(self, key, valid).await
    }
}
