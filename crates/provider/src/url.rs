//! URLs that name buckets.

use async_trait::async_trait;
use lifeboat_bucket::{BlobStore, BucketError};
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A bucket that a URL names, or a part of it.
#[async_trait]
pub trait UrlBucket: Debug + Send + Sync {
    /// The directory, where the URL names one of this machine.
    fn directory(&self) -> Option<&Path> {
        None
    }

    /// Opens the bucket as it is. A directory is made when it is missing. One request may take `patience`, with all attempts
    /// that the client makes by itself; whole calls are not repeated.
    ///
    /// # Errors
    /// The errors of the provider.
    async fn open(&self, patience: Duration) -> Result<Arc<dyn BlobStore>, BucketError>;
}

/// A URL that names no bucket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{flag}{text}")]
pub struct UrlError {
    /// The flag that has the URL.
    flag: String,
    /// The message after the name of the flag.
    text: String,
}

impl UrlError {
    /// Of a URL that is not repeated, because it may hold a secret.
    pub(crate) fn new(why: &str) -> Self {
        Self { flag: String::new(), text: format!(": {why}") }
    }

    /// Of a URL of which this much is repeated.
    pub(crate) fn of(url: &str, why: &str) -> Self {
        Self { flag: String::new(), text: format!(" {url}: {why}") }
    }

    /// Of a flag without a value, with the forms that one can have.
    pub(crate) fn empty(forms: &str) -> Self {
        Self { flag: String::new(), text: format!(" is empty; {forms}") }
    }

    /// The same, of this flag.
    pub(crate) fn of_flag(self, flag: &str) -> Self {
        Self { flag: flag.to_owned(), ..self }
    }
}
