//! Trees of kopia's format.

use super::entry::{Attributes, EntryKind, Extent, Object, SourceEntry, Stored};
use super::reader::Reader;
use crate::RepositoryError;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};
use lifeboat_kopia::content::read_plan::{self, ReadLimits, Sink, Wanted};
use lifeboat_kopia::format::directory::{DirectoryEntry, EntryType};
use lifeboat_kopia::format::object_id::ObjectId;
use lifeboat_kopia::snapshot::{self, TreeEntry};
use lifeboat_kopia::{KopiaError, Repository, object};
use std::ffi::OsString;
use std::sync::Arc;

/// The listings that are read ahead at once.
const LISTINGS_AHEAD: usize = 32;

impl From<&DirectoryEntry> for SourceEntry {
    fn from(entry: &DirectoryEntry) -> Self {
        TreeEntry::new(entry.clone()).into()
    }
}

impl From<TreeEntry> for SourceEntry {
    fn from(TreeEntry { entry, state }: TreeEntry) -> Self {
        let summary = entry.summary.as_ref();
        let is_complete = summary.is_none_or(|summary| {
            summary.incomplete.is_none() && summary.failed == 0 && summary.ignored == 0 && summary.errors.is_empty()
        });
        Self {
            name: OsString::from(entry.name.as_str()),
            is_lossy: entry.name.is_lossy(),
            kind: match entry.entry_type {
                EntryType::File => EntryKind::File,
                EntryType::Directory => EntryKind::Directory,
                EntryType::Symlink => EntryKind::Symlink,
                EntryType::Unknown(ref word) => EntryKind::Unknown(word.clone()),
            },
            size: entry.size,
            attributes: Some(Attributes {
                mode: entry.mode,
                uid: entry.uid,
                gid: entry.gid,
                modified: entry.modified,
                extended: None,
            }),
            object: entry.object.map(Object::Kopia),
            state,
            is_complete,
            missing: summary.map_or(0, |summary| summary.failed.saturating_add(summary.ignored)),
            expected: summary.map(|summary| (summary.files, summary.size)),
            hard_link: None,
        }
    }
}

pub(super) fn entries(
    repository: &Repository,
    directory: &ObjectId,
) -> BoxStream<'static, Result<SourceEntry, RepositoryError>> {
    snapshot::entries(repository.contents(), directory).map_ok(SourceEntry::from).err_into().boxed()
}

pub(super) fn bytes(repository: &Repository, object: &ObjectId) -> BoxStream<'static, Result<Bytes, RepositoryError>> {
    object::bytes(repository.contents(), object).err_into().boxed()
}

pub(super) fn extents(
    repository: &Repository,
    object: &ObjectId,
) -> BoxStream<'static, Result<Extent, RepositoryError>> {
    extents_from(repository, object, 0)
}

pub(super) fn extents_from(
    repository: &Repository,
    object: &ObjectId,
    at: u64,
) -> BoxStream<'static, Result<Extent, RepositoryError>> {
    let extent = |extent: object::Extent| {
        let object::Extent { start, length, is_compressed, content } = extent;
        Extent { start, length, stored: Stored::Kopia { content, is_compressed } }
    };
    object::extents_from(repository.contents(), object, at).map_ok(extent).err_into().boxed()
}

pub(super) async fn read_ahead(repository: &Repository, directories: impl Iterator<Item = &Object> + Send) {
    let contents = repository.contents();
    let ids = directories.filter_map(|object| match object {
        Object::Kopia(object) if object.levels == 0 => Some(object.content),
        _ => None,
    });
    let ids: Vec<_> = ids.collect();
    if ids.len() > 1 {
        let read = |id| async move {
            let _ = contents.read(&id).await;
        };
        futures::stream::iter(ids).for_each_concurrent(LISTINGS_AHEAD, read).await;
    }
}

/// Gives what is read to a reader.
struct Forward<R>(Arc<R>);

fn go_on(goes_on: bool) -> Result<(), KopiaError> {
    if goes_on { Ok(()) } else { Err(KopiaError::Cancelled) }
}

impl<T: Send + Sync + 'static, R: Reader<T>> Sink<T> for Forward<R> {
    fn take(&self, bytes: &Bytes, tags: Vec<T>) -> Result<(), KopiaError> {
        go_on(self.0.take(bytes, tags))
    }

    fn fail(&self, error: KopiaError, tags: Vec<T>) -> Result<(), KopiaError> {
        go_on(self.0.fail(&error.into(), tags))
    }
}

pub(super) async fn read<T: Send + Sync + 'static>(
    repository: &Repository,
    wanted: impl Stream<Item = (Extent, T)> + Send,
    window: usize,
    reader: Arc<impl Reader<T>>,
) -> Result<(), RepositoryError> {
    let limits = repository.contents().limits();
    let limits = ReadLimits { window: limits.window.min(window), ..limits };
    let wanted = wanted.map(|(extent, tag)| match extent.stored {
        Stored::Kopia { content, is_compressed } => Ok(Wanted { content, is_compressed, length: extent.length, tag }),
        Stored::Restic(blob) => Err(KopiaError::Missing { what: format!("blob {blob} of another repository") }),
    });
    Ok(read_plan::read(repository.contents(), wanted, limits, Arc::new(Forward(reader))).await?)
}
