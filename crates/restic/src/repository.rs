//! A repository that is open.

pub(crate) mod open;
mod trees;

use crate::cache::BlobCache;
use crate::crypto::Key;
use crate::format::snapshot::SnapshotDocument;
use crate::format::stored;
use crate::index::BlobIndex;
use crate::limits::ReadLimits;
use crate::tasks::blocking;
use crate::{Id, Location, ResticError, paths};
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use lifeboat_bucket::{BlobStore, collect};
use std::ops::Range;
use std::sync::Arc;

/// The blobs of a file whose places are looked up at once.
const LOOKED_UP: usize = 1024;
/// The pieces that are read ahead of the caller.
const AHEAD: usize = 4;

/// An open repository. Everything that reads it shares one.
#[derive(Debug, Clone)]
pub struct Repository {
    inner: Arc<Opened>,
}

#[derive(Debug)]
struct Opened {
    store: Arc<dyn BlobStore>,
    key: Key,
    index: BlobIndex,
    cache: BlobCache,
    limits: ReadLimits,
}

/// A snapshot of the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its ID, of which users see the first eight digits.
    pub id: Id,
    /// Its document, or the reason for which that cannot be read.
    pub document: Result<SnapshotDocument, String>,
}

impl Snapshot {
    /// The time at which it was taken; that of no snapshot where nobody can say.
    #[must_use]
    pub fn time(&self) -> Timestamp {
        self.document.as_ref().map_or(Timestamp::MIN, |document| document.time)
    }
}

/// A piece of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The offset in the file.
    pub start: u64,
    /// Its bytes.
    pub length: u64,
    /// The blob.
    pub blob: Id,
}

impl Repository {
    /// The location, as its store describes itself.
    #[must_use]
    pub fn location(&self) -> String {
        self.inner.store.describe()
    }

    /// The limits of reading.
    #[must_use]
    pub fn limits(&self) -> ReadLimits {
        self.inner.limits
    }

    /// Finds a blob in the index. This may read from the scratch space.
    pub(crate) fn find(&self, id: &Id) -> Result<Location, ResticError> {
        self.inner.index.find(id)?.ok_or_else(|| ResticError::Missing { what: format!("blob {id}") })
    }

    /// Reads a range of a pack.
    pub(crate) async fn pack_range(&self, pack: u32, range: Range<u64>) -> Result<Bytes, ResticError> {
        let Some(id) = self.inner.index.pack(pack) else {
            return Err(ResticError::Missing { what: format!("pack number {pack}") });
        };
        let wanted = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let stream = match self.inner.store.get(&paths::pack(id), Some(range)).await {
            Ok(stream) => stream,
            Err(error) if error.is_not_found() => return Err(ResticError::Missing { what: format!("pack {id}") }),
            // The range lies beyond the end.
            Err(error) if error.kind == lifeboat_bucket::ErrorKind::Invalid => {
                return Err(ResticError::damaged(format!("pack {id}"), error));
            }
            Err(error) => return Err(error.into()),
        };
        let bytes = collect(stream, wanted).await?;
        if bytes.len() != wanted {
            let why = format!("it ends early: {} of {wanted} bytes of a range are there", bytes.len());
            return Err(ResticError::damaged(format!("pack {id}"), why));
        }
        Ok(bytes)
    }

    /// Decrypts a blob, decompresses it, and compares it with its name.
    pub(crate) fn decode(&self, id: &Id, location: &Location, encrypted: &[u8]) -> Result<Bytes, ResticError> {
        let damaged = |why: &dyn std::fmt::Display| ResticError::damaged(format!("blob {id}"), why);
        let mut bytes = encrypted.to_vec();
        let range = self.inner.key.open(&mut bytes).map_err(|e| damaged(&e))?;
        let plain = if location.is_compressed {
            let packed = bytes.get(range).unwrap_or_default();
            Bytes::from(stored::blob(packed, location.plain_length as usize).map_err(|e| damaged(&e))?)
        } else {
            Bytes::from(bytes).slice(range)
        };
        if Id::of(&plain) == *id { Ok(plain) } else { Err(damaged(&"its bytes have another SHA-256 than its name")) }
    }

    /// Reads a blob.
    ///
    /// # Errors
    /// A blob that is missing or damaged; errors of the bucket and of the scratch space.
    pub async fn blob(&self, id: &Id) -> Result<Bytes, ResticError> {
        let (repository, id) = (self.clone(), *id);
        let location = blocking(move || repository.find(&id)).await?;
        let encrypted = self.pack_range(location.pack, location.range()).await?;
        let repository = self.clone();
        blocking(move || repository.decode(&id, &location, &encrypted)).await
    }

    /// Gives the pieces of a file in their order.
    ///
    /// # Errors
    /// Of the stream: a piece that no index has; the scratch space.
    pub fn extents(&self, content: Arc<[Id]>) -> BoxStream<'static, Result<Extent, ResticError>> {
        let state = (self.clone(), content, 0_usize, 0_u64);
        let batches = futures::stream::try_unfold(state, |(repository, content, first, start)| async move {
            if first >= content.len() {
                return Ok::<_, ResticError>(None);
            }
            let (next, end, extents) = blocking({
                let (repository, content) = (repository.clone(), content.clone());
                move || {
                    let ids = content.get(first..).unwrap_or_default();
                    let mut extents = Vec::with_capacity(ids.len().min(LOOKED_UP));
                    let mut start = start;
                    for id in ids.iter().take(LOOKED_UP) {
                        let length = u64::from(repository.find(id)?.plain_length);
                        extents.push(Extent { start, length, blob: *id });
                        start = start.saturating_add(length);
                    }
                    Ok((first + extents.len(), start, extents))
                }
            })
            .await?;
            let extents = futures::stream::iter(extents.into_iter().map(Ok::<_, ResticError>));
            Ok(Some((extents, (repository, content, next, end))))
        });
        batches.try_flatten().boxed()
    }

    /// Reads the bytes of a file in their order.
    ///
    /// # Errors
    /// Of the stream: a piece that is missing or damaged; errors of the bucket.
    pub fn bytes(&self, content: Arc<[Id]>) -> BoxStream<'static, Result<Bytes, ResticError>> {
        let repository = self.clone();
        let read = move |id: Id| {
            let repository = repository.clone();
            async move { repository.blob(&id).await }
        };
        let count = content.len();
        let ids = futures::stream::iter((0..count).filter_map(move |at| content.get(at).copied()));
        ids.map(read).buffered(AHEAD).boxed()
    }
}
