//! A store in memory that knows the time, is full, or dies.

use crate::testing::{Fixture, TestClock, keys};
use async_trait::async_trait;
use bytes::Bytes;
use lifeboat_bucket::{
    BlobStore, Body, BucketError, ByteStream, ErrorKind, ListOptions, Memory, ObjectInfo, Page, PutOptions, Retention,
    collect,
};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};
use tokio::sync::Barrier;

/// The put or delete with which the user of a store is killed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    /// The calls that succeed before.
    pub(super) calls: usize,
    /// True where the call has its effect.
    pub(super) has_effect: bool,
}

/// The calls of which one is the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    PutsAndDeletes,
    All,
}

pub(super) struct Shelf {
    inner: Arc<Memory>,
    clock: TestClock,
    fault: Option<Fault>,
    counted: Counted,
    /// The seconds that a put takes.
    put_takes: AtomicI64,
    /// Keys of puts and deletes.
    calls: Mutex<Vec<String>>,
    is_full: AtomicBool,
    /// The name that is not taken.
    refused: Mutex<Option<&'static str>>,
    /// The name whose lock cannot be extended.
    unretainable: Mutex<Option<String>>,
    /// Puts of claims end together.
    gate: Mutex<Option<Arc<Barrier>>>,
}

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shelf")
    }
}

impl Shelf {
    pub(super) fn new(inner: Arc<Memory>, clock: TestClock) -> Arc<Self> {
        Arc::new(Self::build(inner, clock, None, Counted::PutsAndDeletes))
    }

    fn build(inner: Arc<Memory>, clock: TestClock, fault: Option<Fault>, counted: Counted) -> Self {
        Self {
            inner,
            clock,
            fault,
            counted,
            put_takes: AtomicI64::new(0),
            calls: Mutex::default(),
            is_full: AtomicBool::new(false),
            refused: Mutex::default(),
            unretainable: Mutex::default(),
            gate: Mutex::default(),
        }
    }

    /// The same blobs, for a user who is killed.
    pub(super) fn with_fault(from: &Self, fault: Fault) -> Arc<Self> {
        Arc::new(Self::build(from.inner.clone(), from.clock.clone(), Some(fault), Counted::PutsAndDeletes))
    }

    /// The same blobs, for a user who is killed with any call, reads among them.
    pub(super) fn with_fault_of_any_call(from: &Self, fault: Fault) -> Arc<Self> {
        Arc::new(Self::build(from.inner.clone(), from.clock.clone(), Some(fault), Counted::All))
    }

    /// Lets the clock go on with each put.
    pub(super) fn set_put_takes(&self, seconds: i64) {
        self.put_takes.store(seconds, Ordering::SeqCst);
    }

    pub(super) fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }

    pub(super) fn refuse(&self, name: Option<&'static str>) {
        *self.refused.lock().unwrap() = name;
    }

    pub(super) fn refuse_to_retain(&self, name: &str) {
        *self.unretainable.lock().unwrap() = Some(name.to_owned());
    }

    pub(super) fn set_gate(&self, gate: Option<Arc<Barrier>>) {
        *self.gate.lock().unwrap() = gate;
    }

    /// The number of counted calls.
    pub(super) fn calls(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    pub(super) fn is_dead(&self) -> bool {
        self.fault.is_some_and(|fault| self.calls.lock().unwrap().len() > fault.calls)
    }

    /// A copy with the same times.
    pub(super) async fn copy(&self) -> Arc<Self> {
        let to = Arc::new(Memory::default());
        for key in keys(&*self.inner, "").await {
            let bytes = collect(self.inner.get(&key, None).await.unwrap(), 1 << 30).await.unwrap();
            to.put(&key, bytes.into(), PutOptions::default()).await.unwrap();
            if let Some(time) = self.inner.head(&key).await.unwrap().modified {
                to.set_modified(&key, time);
            }
        }
        Self::new(to, self.clock.clone())
    }

    /// Replaces the bytes of a blob, and leaves its time: what happens to it in the storage.
    pub(super) async fn replace(&self, key: &str, bytes: Bytes) {
        let modified = self.inner.head(key).await.unwrap().modified;
        self.inner.put(key, bytes.into(), PutOptions::default()).await.unwrap();
        if let Some(modified) = modified {
            self.inner.set_modified(key, modified);
        }
    }

    /// The puts and deletes of a run, up to the one of a key that begins so.
    pub(super) async fn calls_until(&self, prefix: &str, fixture: &Fixture) -> usize {
        let copy = self.copy().await;
        super::run(fixture, copy.clone(), 0, 1001).await.unwrap();
        let calls = copy.calls.lock().unwrap();
        calls.iter().position(|key| key.starts_with(prefix)).unwrap()
    }

    pub(super) async fn keys(&self, prefix: &str) -> Vec<String> {
        keys(&*self.inner, prefix).await
    }

    pub(super) async fn bytes(&self, prefix: &str) -> u64 {
        let mut bytes = 0;
        for key in self.keys(prefix).await {
            bytes += self.inner.head(&key).await.unwrap().size;
        }
        bytes
    }

    /// True where the call has an effect, and where it succeeds.
    fn call(&self, key: &str) -> (bool, bool) {
        let mut calls = self.calls.lock().unwrap();
        calls.push(key.to_owned());
        match self.fault {
            Some(fault) if calls.len() == fault.calls + 1 => (fault.has_effect, false),
            Some(fault) if calls.len() > fault.calls => (false, false),
            _ => (true, true),
        }
    }
}

impl Shelf {
    /// Counts a read, where reads are counted.
    fn read(&self, operation: &'static str, key: &str) -> Result<(), BucketError> {
        let (_, succeeds) = if self.counted == Counted::All { self.call(key) } else { (true, true) };
        if succeeds { Ok(()) } else { Err(error(operation, key, "killed")) }
    }
}

fn error(operation: &'static str, key: &str, message: &str) -> BucketError {
    let (key, store, message) = (key.to_owned(), "shelf".to_owned(), message.to_owned());
    BucketError { kind: ErrorKind::Other, operation, key, store, message, source: None }
}

#[async_trait]
impl BlobStore for Shelf {
    fn describe(&self) -> String {
        "shelf".to_owned()
    }

    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        if self.is_full.load(Ordering::SeqCst) {
            return Err(error("put", key, "it is full"));
        }
        if *self.refused.lock().unwrap() == Some(key) {
            return Err(error("put", key, "this name is locked"));
        }
        let (has_effect, succeeds) = self.call(key);
        let mut size = 0;
        if has_effect {
            size = self.inner.put(key, body, options).await?;
            let now = (self.clock.clock())();
            self.inner.set_modified(key, UNIX_EPOCH + Duration::from_nanos(u64::try_from(now.0).unwrap()));
            self.clock.advance(self.put_takes.load(Ordering::SeqCst));
        }
        let gate = self.gate.lock().unwrap().clone();
        if let Some(gate) = gate.filter(|_| key.starts_with("io.")) {
            gate.wait().await;
        }
        if succeeds { Ok(size) } else { Err(error("put", key, "killed")) }
    }

    async fn retain(&self, key: &str, retention: Retention) -> Result<(), BucketError> {
        if self.unretainable.lock().unwrap().as_deref() == Some(key) {
            return Err(BucketError { kind: ErrorKind::Denied, ..error("retain", key, "its lock is of another tool") });
        }
        let (has_effect, succeeds) = self.call(key);
        if has_effect {
            self.inner.retain(key, retention).await?;
        }
        if succeeds { Ok(()) } else { Err(error("retain", key, "killed")) }
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        self.read("get", key)?;
        self.inner.get(key, range).await
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        self.read("head", key)?;
        self.inner.head(key).await
    }

    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        self.read("list", &options.prefix)?;
        self.inner.list(options).await
    }

    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        for key in keys {
            let (has_effect, succeeds) = self.call(key);
            if has_effect {
                self.inner.delete(std::slice::from_ref(key)).await?;
            }
            if !succeeds {
                return Err(error("delete", key, "killed"));
            }
        }
        Ok(())
    }

    async fn abort_stale_uploads(&self, prefix: &str, age: Duration) -> Result<u64, BucketError> {
        self.inner.abort_stale_uploads(prefix, age).await
    }

    async fn presign(&self, _: &str, _: Duration) -> Result<Option<String>, BucketError> {
        Ok(None)
    }
}
