//! A store in memory, for tests and the demo.

use crate::page::page_of;
use crate::{
    BlobStore, Body, BucketError, ByteStream, ErrorKind, ListOptions, Listed, ObjectInfo, Page, PutOptions, Retention,
};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt};
use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// A store in memory. Its objects have no times, but for those that are set.
#[derive(Debug, Default)]
pub struct Memory {
    objects: Mutex<BTreeMap<String, MemoryObject>>,
    notes_retention: bool,
}

#[derive(Debug)]
struct MemoryObject {
    bytes: Bytes,
    modified: Option<SystemTime>,
    retention: Option<Retention>,
}

impl Memory {
    /// Sets the time at which an object was written, for tests of what goes by the storage's clock. Without such an object
    /// it does nothing.
    pub fn set_modified(&self, key: &str, time: SystemTime) {
        if let Some(stored) = self.lock().get_mut(key) {
            stored.modified = Some(time);
        }
    }

    /// A store that notes until when objects are to be kept, for tests of who asks for that. It has no clock, and deletes them
    /// all the same.
    #[must_use]
    pub fn noting_retention() -> Self {
        Self { notes_retention: true, ..Self::default() }
    }

    /// The retention of an object; `None` without such an object, too.
    pub fn retention(&self, key: &str) -> Option<Retention> {
        self.lock().get(key)?.retention
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, MemoryObject>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fail(kind: ErrorKind, operation: &'static str, key: &str, message: &str) -> BucketError {
    BucketError {
        kind,
        operation,
        key: key.to_owned(),
        store: "memory".to_owned(),
        message: message.to_owned(),
        source: None,
    }
}

#[async_trait]
impl BlobStore for Memory {
    fn describe(&self) -> String {
        "memory".to_owned()
    }

    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        if !self.notes_retention {
            options.refuse_retention(key, self)?;
        }
        let mut stream = body.into_stream();
        let mut bytes = BytesMut::new();
        while let Some(piece) = stream.try_next().await? {
            bytes.extend_from_slice(&piece);
        }
        let mut objects = self.lock();
        if options.if_absent && objects.contains_key(key) {
            return Err(fail(ErrorKind::Exists, "put", key, "it exists"));
        }
        let size = bytes.len() as u64;
        let stored = MemoryObject { bytes: bytes.freeze(), modified: None, retention: options.retention };
        objects.insert(key.to_owned(), stored);
        Ok(size)
    }

    async fn retain(&self, key: &str, retention: Retention) -> Result<(), BucketError> {
        if !self.notes_retention {
            let message = "nothing here keeps an object from being deleted: use a bucket with object lock";
            return Err(fail(ErrorKind::Unsupported, "retain", key, message));
        }
        let mut objects = self.lock();
        let stored =
            objects.get_mut(key).ok_or_else(|| fail(ErrorKind::NotFound, "retain", key, "it does not exist"))?;
        stored.retention = Some(stored.retention.map_or(retention, |before| before.extended(retention)));
        Ok(())
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        let stored = self.lock().get(key).map(|stored| stored.bytes.clone());
        let bytes = stored.ok_or_else(|| fail(ErrorKind::NotFound, "get", key, "it does not exist"))?;
        let bytes = match range {
            None => bytes,
            Some(range) => {
                let size = bytes.len() as u64;
                if range.start > range.end || range.end > size {
                    return Err(fail(ErrorKind::Invalid, "get", key, "the range is beyond the end"));
                }
                // Both ends are at most the length of a buffer in memory.
                bytes.slice(usize::try_from(range.start).unwrap_or(0)..usize::try_from(range.end).unwrap_or(0))
            }
        };
        Ok(futures::stream::once(async { Ok(bytes) }).boxed())
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        let objects = self.lock();
        let stored = objects.get(key).ok_or_else(|| fail(ErrorKind::NotFound, "head", key, "it does not exist"))?;
        Ok(ObjectInfo { key: key.to_owned(), size: stored.bytes.len() as u64, modified: stored.modified })
    }

    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        let objects = self.lock();
        page_of(&options, |mark| {
            let from = mark.name().max(options.prefix.as_str());
            let beyond =
                objects.range::<str, _>((Bound::Included(from), Bound::Unbounded)).find(|(key, _)| !mark.is_past(key));
            let found = beyond.filter(|(key, _)| key.starts_with(&options.prefix));
            Ok(found.map(|(key, stored)| Listed {
                key: key.clone(),
                size: Some(stored.bytes.len() as u64),
                modified: stored.modified,
            }))
        })
    }

    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        let mut objects = self.lock();
        for key in keys {
            objects.remove(key);
        }
        Ok(())
    }

    async fn abort_stale_uploads(&self, _prefix: &str, _age: Duration) -> Result<u64, BucketError> {
        Ok(0)
    }

    async fn presign(&self, _key: &str, _valid: Duration) -> Result<Option<String>, BucketError> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn conforms() {
        crate::conformance::run(Arc::new(Memory::default())).await;
    }

    #[tokio::test]
    async fn what_is_to_be_kept_is_noted_where_that_is_wanted() {
        let store = Memory::noting_retention();
        let until = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
        let kept = async |key: &str, retention| store.retention(key) == Some(retention);
        crate::conformance::retention_is_honoured(&store, until, kept).await;
    }

    #[derive(Debug)]
    struct Silent;

    impl crate::Meter for Silent {
        fn ended(&self, _: &crate::MeasuredCall<'_>) {}
    }

    #[tokio::test]
    async fn every_wrapper_hands_on_until_when_an_object_is_to_be_kept() {
        use crate::{Deadlined, Deadlines, Limited, Limits, Measured, Prefixed, Retried};
        let memory = Arc::new(Memory::noting_retention());
        let inner: Arc<dyn BlobStore> = memory.clone();
        let deadlines = Deadlines { answer: Duration::from_secs(9), silence: Duration::from_secs(9) };
        let wrapped: [Arc<dyn BlobStore>; 6] = [
            Arc::new(Prefixed::new(Arc::clone(&inner), "")),
            Arc::new(Retried::new(Arc::clone(&inner), Duration::ZERO)),
            Arc::new(Deadlined::new(Arc::clone(&inner), deadlines)),
            Arc::new(Limited::new(Arc::clone(&inner), Limits::default())),
            Arc::new(Measured::new(Arc::clone(&inner), Arc::new(Silent))),
            Arc::new(crate::marker::Marked::new(Arc::clone(&inner), "id".to_owned(), |_| {})),
        ];
        memory.put("k", vec![1].into(), PutOptions::default()).await.unwrap();
        for (second, wrapper) in (1..).zip(&wrapped) {
            let until = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            let retention = Retention { mode: crate::RetentionMode::Compliance, until };
            wrapper.retain("k", retention).await.unwrap();
            assert_eq!(memory.retention("k"), Some(retention), "{wrapper:?}");
        }
    }

    #[tokio::test]
    async fn an_object_has_the_time_that_was_set_until_it_is_written_again() {
        let store = Memory::default();
        let time = SystemTime::UNIX_EPOCH + Duration::new(7, 1);
        store.set_modified("k", time);
        store.put("k", vec![1].into(), PutOptions::default()).await.unwrap();
        assert_eq!(store.head("k").await.unwrap().modified, None);
        store.set_modified("k", time);
        assert_eq!(store.head("k").await.unwrap().modified, Some(time));
        let listed = Listed { key: "k".to_owned(), size: Some(1), modified: Some(time) };
        assert_eq!(store.list(ListOptions::default()).await.unwrap().entries, [crate::Entry::Object(listed)]);
        store.put("k", vec![2].into(), PutOptions::default()).await.unwrap();
        assert_eq!(store.head("k").await.unwrap().modified, None);
    }
}
