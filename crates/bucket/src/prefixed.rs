//! Shows the part of a store below a prefix.

use crate::{
    BlobStore, Body, BucketError, ByteStream, Entry, ListOptions, Listed, ObjectInfo, Page, PutOptions, Retention,
};
use async_trait::async_trait;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Shows the part of a store below a prefix as a store of its own.
#[derive(Clone, Debug)]
pub struct Prefixed {
    inner: Arc<dyn BlobStore>,
    prefix: String,
}

impl Prefixed {
    /// `prefix` is used as it is; end it with a slash to mean a folder.
    pub fn new(inner: Arc<dyn BlobStore>, prefix: impl Into<String>) -> Self {
        Self { inner, prefix: prefix.into() }
    }

    fn full(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    fn cut(&self, key: String) -> String {
        key.strip_prefix(&self.prefix).map(str::to_owned).unwrap_or(key)
    }
}

#[async_trait]
impl BlobStore for Prefixed {
    fn describe(&self) -> String {
        format!("{}/{}", self.inner.describe(), self.prefix.trim_end_matches('/'))
    }

    fn reads_ranges(&self) -> bool {
        self.inner.reads_ranges()
    }

    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        self.inner.put(&self.full(key), body, options).await
    }

    async fn retain(&self, key: &str, retention: Retention) -> Result<(), BucketError> {
        self.inner.retain(&self.full(key), retention).await
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        self.inner.get(&self.full(key), range).await
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        let info = self.inner.head(&self.full(key)).await?;
        Ok(ObjectInfo { key: self.cut(info.key), ..info })
    }

    async fn exists(&self, key: &str) -> Result<bool, BucketError> {
        self.inner.exists(&self.full(key)).await
    }

    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        let prefix = self.full(&options.prefix);
        let page = self.inner.list(ListOptions { prefix, ..options }).await?;
        let entries = page
            .entries
            .into_iter()
            .map(|entry| match entry {
                Entry::Object(listed) => Entry::Object(Listed { key: self.cut(listed.key), ..listed }),
                Entry::Prefix(prefix) => Entry::Prefix(self.cut(prefix)),
            })
            .collect();
        Ok(Page { entries, ..page })
    }

    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        let keys: Vec<String> = keys.iter().map(|k| self.full(k)).collect();
        self.inner.delete(&keys).await
    }

    async fn abort_stale_uploads(&self, prefix: &str, age: Duration) -> Result<u64, BucketError> {
        self.inner.abort_stale_uploads(&self.full(prefix), age).await
    }

    async fn presign(&self, key: &str, valid: Duration) -> Result<Option<String>, BucketError> {
        self.inner.presign(&self.full(key), valid).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;

    #[tokio::test]
    async fn conforms() {
        crate::conformance::run(Arc::new(Prefixed::new(Arc::new(Memory::default()), "deep/er/"))).await;
    }
}
