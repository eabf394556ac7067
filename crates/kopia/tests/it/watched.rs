//! A store that counts what is asked of it and changes while it is read.

use async_trait::async_trait;
use lifeboat_bucket::faults::StoreDecorator;
use lifeboat_bucket::{BlobStore, BucketError, ByteStream, Entry, ErrorKind, ListOptions, Listed, Memory, Page};
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A store in memory behind counters.
pub(crate) struct Watched {
    pub(crate) inner: Arc<Memory>,
    /// Keys and ranges of all gets.
    pub(crate) gets: Mutex<Vec<(String, Option<Range<u64>>)>>,
    pub(crate) most_at_once: AtomicUsize,
    at_once: AtomicUsize,
    /// Keys that listings with a prefix show though they are gone, one for each of the next listings.
    pub(crate) phantoms: Mutex<(String, VecDeque<String>)>,
    /// The error of all gets of keys that begin so.
    pub(crate) failing: Mutex<Option<(String, ErrorKind)>>,
    /// Of keys that begin so this many gets are answered, and the next one never.
    pub(crate) hanging: Mutex<Option<(String, usize)>>,
    hung: AtomicUsize,
}

impl Watched {
    pub(crate) fn new(inner: Arc<Memory>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            gets: Mutex::default(),
            most_at_once: AtomicUsize::new(0),
            at_once: AtomicUsize::new(0),
            phantoms: Mutex::default(),
            failing: Mutex::default(),
            hanging: Mutex::default(),
            hung: AtomicUsize::new(0),
        })
    }

    /// Waits until a get hangs; false where none does for a minute.
    pub(crate) async fn hangs(&self) -> bool {
        for _ in 0..60_000 {
            if self.hung.load(Ordering::SeqCst) > 0 {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        false
    }

    /// True for a get that is never answered.
    fn is_hanging(&self, key: &str) -> bool {
        let mut hanging = self.hanging.lock().unwrap();
        let Some((_, left)) = hanging.as_mut().filter(|(prefix, _)| key.starts_with(prefix.as_str())) else {
            return false;
        };
        let is_over = *left == 0;
        *left = left.saturating_sub(1);
        is_over
    }

    /// Takes the keys of the gets since the last time.
    pub(crate) fn take_gets(&self) -> Vec<String> {
        std::mem::take(&mut *self.gets.lock().unwrap()).into_iter().map(|(key, _)| key).collect()
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}

fn error(kind: ErrorKind, key: &str) -> BucketError {
    let (key, store, message) = (key.to_owned(), "watched".to_owned(), "it fails".to_owned());
    BucketError { kind, operation: "get", key, store, message, source: None }
}

#[async_trait]
impl StoreDecorator for Watched {
    fn inner(&self) -> &dyn BlobStore {
        &*self.inner
    }
    fn describe(&self) -> String {
        "watched".to_owned()
    }
    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        self.gets.lock().unwrap().push((key.to_owned(), range.clone()));
        let failing = self.failing.lock().unwrap().clone();
        if let Some((_, kind)) = failing.filter(|(prefix, _)| key.starts_with(prefix)) {
            return Err(error(kind, key));
        }
        if self.is_hanging(key) {
            self.hung.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>().await;
        }
        let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(now, Ordering::SeqCst);
        // Others come to their turn while this one waits.
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        self.inner.get(key, range).await
    }
    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        let phantom = {
            let mut phantoms = self.phantoms.lock().unwrap();
            if options.prefix == phantoms.0 { phantoms.1.pop_front() } else { None }
        };
        let mut page = self.inner.list(options).await?;
        if let Some(key) = phantom {
            page.entries.push(Entry::Object(Listed { key, size: Some(100), modified: None }));
        }
        Ok(page)
    }
}
