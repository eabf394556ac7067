//! A store that does not support conditional puts, for tests of what relies on them.

use super::decorator::StoreDecorator;
use crate::{BlobStore, Body, BucketError, ErrorKind, Memory, PutOptions};
use async_trait::async_trait;
use std::time::Duration;
use tokio::time::sleep;

/// The treatment of a condition on a put by a store that does not support it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutCondition {
    /// The put is refused.
    Refused,
    /// The object is stored in any case.
    Ignored,
}

/// A store in memory that does not support conditional puts.
#[derive(Debug)]
pub struct Unconditional {
    inner: Memory,
    condition: PutCondition,
    slow: Duration,
}

impl Unconditional {
    /// Makes an empty store; each put that it does not refuse takes so long.
    #[must_use]
    pub fn new(condition: PutCondition, slow: Duration) -> Self {
        Self { inner: Memory::default(), condition, slow }
    }
}

#[async_trait]
impl StoreDecorator for Unconditional {
    fn inner(&self) -> &dyn BlobStore {
        &self.inner
    }
    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        if options.if_absent && self.condition == PutCondition::Refused {
            let message = "A header is not implemented".to_owned();
            return Err(BucketError::new(ErrorKind::Unsupported, "put", key, self.inner().describe(), message));
        }
        sleep(self.slow).await;
        self.inner.put(key, body, PutOptions { if_absent: false, ..options }).await
    }
}
