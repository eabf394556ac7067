//! A store that keeps no condition on puts, for tests of what relies on them.

use super::StoreWrapper;
use crate::{BlobStore, Body, BucketError, ErrorKind, Memory, PutOptions};
use async_trait::async_trait;
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
impl StoreWrapper for Unconditional {
    fn inner(&self) -> &dyn BlobStore {
        &self.inner
    }
    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        if options.if_absent && self.refuses {
            let message = "A header is not implemented".to_owned();
            return Err(BucketError::new(ErrorKind::Unsupported, "put", key, self.inner().describe(), message));
        }
        sleep(self.slow).await;
        self.inner.put(key, body, PutOptions { if_absent: false, ..options }).await
    }
}
