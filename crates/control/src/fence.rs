//! A bucket that a deposed leader cannot publish into.

use async_trait::async_trait;
use futures::StreamExt;
use lifeboat_bucket::{
    BlobStore, Body, BucketError, ByteStream, ErrorKind, ListOptions, ObjectInfo, Page, PutOptions, Retention,
};
use lifeboat_reconcile::{Leadership, LostLease};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Asks for the leadership before each write: at its beginning, and at the end of a stream before it becomes visible.
#[derive(Debug)]
pub(crate) struct Fenced {
    pub(crate) inner: Arc<dyn BlobStore>,
    pub(crate) leadership: Leadership,
}

impl Fenced {
    fn check(&self, operation: &'static str, key: &str) -> Result<(), BucketError> {
        self.leadership.check().map_err(|lost| refused(lost, operation, key, self.inner.describe()))
    }
}

fn refused(lost: LostLease, operation: &'static str, key: &str, store: String) -> BucketError {
    BucketError {
        kind: ErrorKind::Other,
        operation,
        key: key.to_owned(),
        store,
        message: lost.to_string(),
        source: None,
    }
}

#[async_trait]
impl BlobStore for Fenced {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn reads_ranges(&self) -> bool {
        self.inner.reads_ranges()
    }

    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        self.check("put", key)?;
        let body = match body {
            Body::Stream(stream) => {
                let (leadership, key, store) = (self.leadership.clone(), key.to_owned(), self.describe());
                let last = futures::stream::once(async move {
                    leadership.check().map_err(|lost| refused(lost, "put", &key, store)).map(|()| bytes::Bytes::new())
                });
                Body::Stream(stream.chain(last).boxed())
            }
            whole => whole,
        };
        self.inner.put(key, body, options).await
    }

    async fn retain(&self, key: &str, retention: Retention) -> Result<(), BucketError> {
        self.check("retain", key)?;
        self.inner.retain(key, retention).await
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        self.inner.get(key, range).await
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        self.inner.head(key).await
    }

    async fn exists(&self, key: &str) -> Result<bool, BucketError> {
        self.inner.exists(key).await
    }

    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        self.inner.list(options).await
    }

    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        self.check("delete", keys.first().map_or("", String::as_str))?;
        self.inner.delete(keys).await
    }

    async fn abort_stale_uploads(&self, prefix: &str, age: Duration) -> Result<u64, BucketError> {
        self.check("abort uploads", prefix)?;
        self.inner.abort_stale_uploads(prefix, age).await
    }

    async fn presign(&self, key: &str, valid: Duration) -> Result<Option<String>, BucketError> {
        self.inner.presign(key, valid).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_bucket::Memory;

    #[tokio::test]
    async fn who_no_longer_leads_changes_nothing() {
        let inner: Arc<dyn BlobStore> = Arc::new(Memory::default());
        let leading = Fenced { inner: Arc::clone(&inner), leadership: Leadership::for_ever() };
        leading.put("kept", b"1".to_vec().into(), PutOptions::default()).await.unwrap();
        let deposed = Fenced { inner: Arc::clone(&inner), leadership: Leadership::lost() };
        let put = deposed.put("new", b"1".to_vec().into(), PutOptions::default()).await.unwrap_err();
        assert!(put.message.contains("was lost"), "{put}");
        assert!(deposed.delete(&["kept".to_owned()]).await.is_err());
        assert!(deposed.abort_stale_uploads("", Duration::ZERO).await.is_err());
        assert!(deposed.head("kept").await.is_ok());

        // Lost between the first byte and the last: nothing becomes visible.
        let leadership = Leadership::for_ever();
        let fenced = Fenced { inner, leadership: leadership.clone() };
        let piece = futures::stream::once(async move {
            leadership.lose();
            Ok(bytes::Bytes::from_static(b"half"))
        });
        let put = fenced.put("new", Body::Stream(piece.boxed()), PutOptions::default()).await;
        assert!(put.is_err() && fenced.head("new").await.is_err_and(|e| e.is_not_found()));
    }
}
