//! A decorator of a store, for tests that change what some calls do.

use crate::{BlobStore, Body, BucketError, ByteStream, ListOptions, ObjectInfo, Page, PutOptions, Retention};
use async_trait::async_trait;
use std::fmt::Debug;
use std::ops::Range;
use std::time::Duration;

/// A store that passes each call to another store, unless it overrides that call.
#[async_trait]
pub trait StoreDecorator: Debug + Send + Sync {
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

    /// [`BlobStore::retain`].
    async fn retain(&self, key: &str, retention: Retention) -> Result<(), BucketError> {
        self.inner().retain(key, retention).await
    }

    /// [`BlobStore::get`].
    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        self.inner().get(key, range).await
    }

    /// [`BlobStore::head`].
    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        self.inner().head(key).await
    }

    /// [`BlobStore::exists`]. It does not go by [`StoreDecorator::head`]: the other store may know it for less.
    async fn exists(&self, key: &str) -> Result<bool, BucketError> {
        self.inner().exists(key).await
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
impl<D: StoreDecorator> BlobStore for D {
    fn describe(&self) -> String {
        StoreDecorator::describe(self)
    }
    fn reads_ranges(&self) -> bool {
        StoreDecorator::reads_ranges(self)
    }
    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        StoreDecorator::put(self, key, body, options).await
    }
    async fn retain(&self, key: &str, retention: Retention) -> Result<(), BucketError> {
        StoreDecorator::retain(self, key, retention).await
    }
    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        StoreDecorator::get(self, key, range).await
    }
    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        StoreDecorator::head(self, key).await
    }
    async fn exists(&self, key: &str) -> Result<bool, BucketError> {
        StoreDecorator::exists(self, key).await
    }
    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        StoreDecorator::list(self, options).await
    }
    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        StoreDecorator::delete(self, keys).await
    }
    async fn abort_stale_uploads(&self, prefix: &str, age: Duration) -> Result<u64, BucketError> {
        StoreDecorator::abort_stale_uploads(self, prefix, age).await
    }
    async fn presign(&self, key: &str, valid: Duration) -> Result<Option<String>, BucketError> {
        StoreDecorator::presign(self, key, valid).await
    }
}
