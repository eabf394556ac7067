//! A store in memory, for tests and the demo.

use crate::page::page_of;
use crate::{BlobStore, Body, BucketError, ByteStream, ErrorKind, ListOptions, Listed, ObjectInfo, Page, PutOptions};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt};
use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A store in memory.
#[derive(Debug, Default)]
pub struct Memory {
    objects: Mutex<BTreeMap<String, Bytes>>,
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Bytes>> {
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
        options.refuse_retention(key, self)?;
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
        objects.insert(key.to_owned(), bytes.freeze());
        Ok(size)
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        let bytes =
            self.lock().get(key).cloned().ok_or_else(|| fail(ErrorKind::NotFound, "get", key, "it does not exist"))?;
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
        let bytes = objects.get(key).ok_or_else(|| fail(ErrorKind::NotFound, "head", key, "it does not exist"))?;
        Ok(ObjectInfo { key: key.to_owned(), size: bytes.len() as u64, modified: None })
    }

    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        let objects = self.lock();
        page_of(&options, |mark| {
            let from = mark.name().max(options.prefix.as_str());
            let beyond =
                objects.range::<str, _>((Bound::Included(from), Bound::Unbounded)).find(|(key, _)| !mark.is_past(key));
            let found = beyond.filter(|(key, _)| key.starts_with(&options.prefix));
            Ok(found.map(|(key, bytes)| Listed { key: key.clone(), size: Some(bytes.len() as u64), modified: None }))
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
}
