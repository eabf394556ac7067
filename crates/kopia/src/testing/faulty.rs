//! A store in which one call fails, waits, or kills its user.

use async_trait::async_trait;
use lifeboat_bucket::{
    BlobStore, Body, BucketError, ByteStream, ErrorKind, ListOptions, Memory, ObjectInfo, Page, PutOptions,
};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// The trouble that befalls a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The call fails; the next one works again.
    Fails,
    /// The call never ends, and its user is killed.
    Kills,
    /// The call waits until it is let go.
    Pauses,
}

/// A store in which one call has trouble, before or after its effect.
#[derive(Debug)]
pub(crate) struct Faulty {
    inner: Arc<Memory>,
    trouble: Trouble,
    /// The number of the call.
    at: usize,
    after_effect: bool,
    calls: AtomicUsize,
    /// The call that failed.
    pub(crate) failed: Mutex<Option<String>>,
    pub(crate) killed: Notify,
    /// Lets the call go that pauses.
    pub(crate) go_on: Notify,
}

impl Faulty {
    pub(crate) fn new(inner: Arc<Memory>, trouble: Trouble, at: usize, after_effect: bool) -> Arc<Self> {
        let (calls, failed, killed, go_on) = (AtomicUsize::new(0), Mutex::default(), Notify::new(), Notify::new());
        Arc::new(Self { inner, trouble, at, after_effect, calls, failed, killed, go_on })
    }

    /// True where the history came to the call.
    pub(crate) fn is_reached(&self) -> bool {
        self.calls.load(Ordering::SeqCst) > self.at
    }

    async fn call<T>(
        &self,
        operation: &'static str,
        key: &str,
        effect: impl Future<Output = Result<T, BucketError>> + Send,
    ) -> Result<T, BucketError> {
        if self.calls.fetch_add(1, Ordering::SeqCst) != self.at {
            return effect.await;
        }
        let note = || *self.failed.lock().unwrap() = Some(format!("{operation} {key}"));
        if self.trouble == Trouble::Pauses {
            let pause = async {
                note();
                self.killed.notify_one();
                self.go_on.notified().await;
            };
            if !self.after_effect {
                pause.await;
                return effect.await;
            }
            let result = effect.await;
            pause.await;
            return result;
        }
        if self.after_effect {
            effect.await?;
        }
        note();
        if self.trouble == Trouble::Kills {
            self.killed.notify_one();
            std::future::pending::<()>().await;
        }
        let (key, store, message) = (key.to_owned(), "faulty".to_owned(), "it fails".to_owned());
        Err(BucketError { kind: ErrorKind::Other, operation, key, store, message, source: None })
    }
}

#[async_trait]
impl BlobStore for Faulty {
    fn describe(&self) -> String {
        "faulty".to_owned()
    }
    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        self.call("put", key, self.inner.put(key, body, options)).await
    }
    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        self.call("get", key, self.inner.get(key, range)).await
    }
    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        self.call("head", key, self.inner.head(key)).await
    }
    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        let prefix = options.prefix.clone();
        self.call("list", &prefix, self.inner.list(options)).await
    }
    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        self.call("delete", &keys.join(" "), self.inner.delete(keys)).await
    }
    async fn abort_stale_uploads(&self, prefix: &str, age: Duration) -> Result<u64, BucketError> {
        self.inner.abort_stale_uploads(prefix, age).await
    }
    async fn presign(&self, key: &str, valid: Duration) -> Result<Option<String>, BucketError> {
        self.inner.presign(key, valid).await
    }
}
