//! Trees of restic's format.

use super::entry::{Attributes, EntryKind, ExtendedAttribute, Extent, Object, SourceEntry, SpecialFile, Stored};
use super::reader::Reader;
use crate::RepositoryError;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};
use lifeboat_kopia::format::time::UnixNanos;
use lifeboat_kopia::snapshot::EntryState;
use lifeboat_restic::format::tree::{Node, NodeKind};
use lifeboat_restic::read_plan::{self, ReadLimits, Sink, Wanted};
use lifeboat_restic::{Id, Repository, ResticError};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

impl SourceEntry {
    /// The root of a snapshot of restic. Of the folder itself restic keeps no mode, owner or time.
    pub fn root_of_restic(tree: Id) -> Self {
        Self { object: Some(Object::Tree(tree)), ..Self::directory(OsString::new()) }
    }
}

impl From<Node> for SourceEntry {
    fn from(node: Node) -> Self {
        let (kind, object) = match node.kind {
            NodeKind::File(pieces) => (EntryKind::File, Some(Object::Pieces(pieces.into()))),
            NodeKind::Directory(tree) => (EntryKind::Directory, Some(Object::Tree(tree))),
            NodeKind::Symlink(target) => (EntryKind::Symlink, Some(Object::Target(target))),
            NodeKind::Pipe => (EntryKind::Special(SpecialFile::Pipe), None),
            NodeKind::Socket => (EntryKind::Special(SpecialFile::Socket), None),
            NodeKind::CharacterDevice(number) => (EntryKind::Special(SpecialFile::CharacterDevice(number)), None),
            NodeKind::BlockDevice(number) => (EntryKind::Special(SpecialFile::BlockDevice(number)), None),
            NodeKind::Unknown(word) => (EntryKind::Unknown(word), None),
        };
        let state = match &kind {
            EntryKind::Unknown(word) => EntryState::Unreadable { why: format!("its type {word:?} is not known") },
            _ => EntryState::Whole,
        };
        let nanoseconds = node.modified.as_nanosecond().clamp(i64::MIN.into(), i64::MAX.into());
        let modified = UnixNanos(i64::try_from(nanoseconds).unwrap_or_default());
        let extended = node.extended_attributes.into_iter().map(|(name, value)| ExtendedAttribute { name, value });
        let extended: Arc<[ExtendedAttribute]> = extended.collect();
        let extended = (!extended.is_empty()).then_some(extended);
        Self {
            name: OsString::from_vec(node.name),
            is_lossy: false,
            kind,
            size: node.size,
            attributes: Some(Attributes { mode: node.mode, uid: node.uid, gid: node.gid, modified, extended }),
            object,
            state,
            is_complete: true,
            missing: 0,
            expected: None,
            hard_link: node.hard_link,
        }
    }
}

pub(super) fn entries(repository: &Repository, tree: Id) -> BoxStream<'static, Result<SourceEntry, RepositoryError>> {
    let repository = repository.clone();
    let nodes = async move {
        let nodes = repository.tree(&tree).await?;
        Ok::<_, RepositoryError>(futures::stream::iter(nodes.into_iter().map(|node| Ok(SourceEntry::from(node)))))
    };
    futures::stream::once(nodes).try_flatten().boxed()
}

pub(super) fn bytes(repository: &Repository, pieces: Arc<[Id]>) -> BoxStream<'static, Result<Bytes, RepositoryError>> {
    repository.bytes(pieces).err_into().boxed()
}

pub(super) fn extents(
    repository: &Repository,
    pieces: Arc<[Id]>,
) -> BoxStream<'static, Result<Extent, RepositoryError>> {
    let extent = |extent: lifeboat_restic::Extent| {
        let lifeboat_restic::Extent { start, length, blob } = extent;
        Extent { start, length, stored: Stored::Restic(blob) }
    };
    repository.extents(pieces).map_ok(extent).err_into().boxed()
}

pub(super) async fn read_ahead(repository: &Repository, directories: impl Iterator<Item = &Object> + Send) {
    let trees = directories.filter_map(|object| match object {
        Object::Tree(tree) => Some(*tree),
        _ => None,
    });
    let trees: Vec<Id> = trees.collect();
    repository.read_ahead(trees).await;
}

/// Gives what is read to a reader.
struct Forward<R>(Arc<R>);

fn go_on(goes_on: bool) -> Result<(), ResticError> {
    if goes_on { Ok(()) } else { Err(ResticError::Cancelled) }
}

impl<T: Send + Sync + 'static, R: Reader<T>> Sink<T> for Forward<R> {
    fn take(&self, bytes: &Bytes, tags: Vec<T>) -> Result<(), ResticError> {
        go_on(self.0.take(bytes, tags))
    }

    fn fail(&self, error: ResticError, tags: Vec<T>) -> Result<(), ResticError> {
        go_on(self.0.fail(&error.into(), tags))
    }
}

pub(super) async fn read<T: Send + Sync + 'static>(
    repository: &Repository,
    wanted: impl Stream<Item = (Extent, T)> + Send,
    window: usize,
    reader: Arc<impl Reader<T>>,
) -> Result<(), RepositoryError> {
    let limits = repository.limits();
    let limits = ReadLimits { window: limits.window.min(window), ..limits };
    let wanted = wanted.map(|(extent, tag)| match extent.stored {
        Stored::Restic(id) => Ok(Wanted { id, tag }),
        Stored::Kopia { content, .. } => {
            Err(ResticError::Missing { what: format!("content {content} of another repository") })
        }
    });
    Ok(read_plan::read(repository, wanted, limits, Arc::new(Forward(reader))).await?)
}
