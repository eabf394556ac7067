//! A store in memory, for tests and the demo.

use crate::{BlobStore, Body, BucketError, ByteStream, Entry, ErrorKind, ListOptions, ObjectInfo, Page, PutOptions};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt};
use std::collections::BTreeMap;
use std::ops::Range;
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
        let all = objects.iter().map(|(key, bytes)| ObjectInfo {
            key: key.clone(),
            size: bytes.len() as u64,
            modified: None,
        });
        Ok(page_of(all, &options))
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

/// Cuts a page out of all objects in key order.
pub(crate) fn page_of(all: impl Iterator<Item = ObjectInfo>, options: &ListOptions) -> Page {
    let most = if options.page_size == 0 { 1000 } else { options.page_size };
    let mut page = Page::default();
    let mut last = String::new();
    for info in all.filter(|info| info.key.starts_with(&options.prefix)) {
        let rest = &info.key[options.prefix.len()..];
        let rolled = options
            .delimiter
            .as_deref()
            .filter(|d| !d.is_empty())
            .and_then(|d| rest.find(d).map(|at| info.key[..options.prefix.len() + at + d.len()].to_owned()));
        let name = rolled.clone().unwrap_or_else(|| info.key.clone());
        if name == last && rolled.is_some() || options.continuation.as_ref().is_some_and(|c| name <= *c) {
            continue;
        }
        if page.entries.len() == most {
            page.continuation = Some(last);
            return page;
        }
        last = name;
        page.entries.push(match rolled {
            Some(prefix) => Entry::Prefix(prefix),
            None => Entry::Object(info),
        });
    }
    page
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
