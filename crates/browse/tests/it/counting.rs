//! A bucket that notes what is read.

use async_trait::async_trait;
use lifeboat_bucket::faults::StoreDecorator;
use lifeboat_bucket::{BlobStore, BucketError, ByteStream};
use std::ops::Range;
use std::sync::{Arc, Mutex};

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
impl StoreDecorator for Counting {
    fn inner(&self) -> &dyn BlobStore {
        &*self.inner
    }
    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        self.read.lock().unwrap().push((key.to_owned(), range.clone()));
        self.inner.get(key, range).await
    }
}
