//! A store at whose n-th put its user dies, for tests of what is published step by step.

use super::decorator::StoreDecorator;
use crate::{BlobStore, Body, BucketError, ErrorKind, PutOptions};
use async_trait::async_trait;
use std::sync::{Arc, Mutex, PoisonError};

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
impl StoreDecorator for Deadly {
    fn inner(&self) -> &dyn BlobStore {
        &*self.inner
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
        let (key, store, message) = (key.to_owned(), self.inner().describe(), "killed".to_owned());
        Err(BucketError { kind: ErrorKind::Other, operation: "put", key, store, message, source: None })
    }
}
