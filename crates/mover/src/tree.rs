//! Trees of snapshots, as both formats of repositories give them: what is listed, printed and restored.

mod entry;
mod kopia;
mod reader;
mod restic;

pub use entry::{Attributes, EntryKind, ExtendedAttribute, Object, SourceEntry, SpecialFile};

use crate::RepositoryError;
use bytes::Bytes;
use entry::Extent;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};
use lifeboat_kopia::Repository;
use std::sync::Arc;

pub(crate) use entry::{Extent as TreeExtent, Stored};
pub(crate) use reader::Reader;

/// An open repository of either format.
#[derive(Debug, Clone)]
pub enum Source {
    /// A repository in kopia's format.
    Kopia(Arc<Repository>),
    /// A repository in restic's format.
    Restic(lifeboat_restic::Repository),
}

impl Source {
    /// Gives the entries of a directory in the order of the repository.
    ///
    /// # Errors
    /// Of the stream: a directory that is missing or damaged. An entry that cannot be restored is none of them.
    pub fn entries(&self, directory: &Object) -> BoxStream<'static, Result<SourceEntry, RepositoryError>> {
        match (self, directory) {
            (Self::Kopia(repository), Object::Kopia(object)) => kopia::entries(repository, object),
            (Self::Restic(repository), Object::Tree(tree)) => restic::entries(repository, *tree),
            _ => mismatch(),
        }
    }

    /// Reads the bytes of a file, or the target of a symlink, in their order.
    ///
    /// # Errors
    /// Of the stream: bytes that are missing or damaged.
    pub fn bytes(&self, object: &Object) -> BoxStream<'static, Result<Bytes, RepositoryError>> {
        match (self, object) {
            (Self::Kopia(repository), Object::Kopia(object)) => kopia::bytes(repository, object),
            (Self::Restic(repository), Object::Pieces(pieces)) => restic::bytes(repository, pieces.clone()),
            (_, Object::Target(target)) => {
                let target = Bytes::copy_from_slice(target);
                futures::stream::once(async { Ok(target) }).boxed()
            }
            _ => mismatch(),
        }
    }

    /// Gives the extents of a file that end after a place, in their order.
    pub(crate) fn extents_from(&self, object: &Object, at: u64) -> BoxStream<'static, Result<Extent, RepositoryError>> {
        match (self, object) {
            (Self::Kopia(repository), Object::Kopia(object)) => kopia::extents_from(repository, object, at),
            _ => {
                let ends_after = move |extent: &Extent| extent.start.saturating_add(extent.length) > at;
                self.extents(object).try_filter(move |extent| std::future::ready(ends_after(extent))).boxed()
            }
        }
    }

    /// Reads the bytes of an extent.
    pub(crate) async fn read_extent(&self, extent: &Extent) -> Result<Bytes, RepositoryError> {
        match (self, extent.stored) {
            (Self::Kopia(repository), Stored::Kopia { content, is_compressed }) => {
                let Extent { start, length, .. } = *extent;
                let extent = lifeboat_kopia::object::Extent { start, length, is_compressed, content };
                Ok(lifeboat_kopia::object::read_extent(repository.contents(), &extent).await?)
            }
            (Self::Restic(repository), Stored::Restic(blob)) => Ok(repository.blob(&blob).await?),
            _ => Err(mismatched()),
        }
    }

    /// Gives the extents of a file in their order.
    pub(crate) fn extents(&self, object: &Object) -> BoxStream<'static, Result<Extent, RepositoryError>> {
        match (self, object) {
            (Self::Kopia(repository), Object::Kopia(object)) => kopia::extents(repository, object),
            (Self::Restic(repository), Object::Pieces(pieces)) => restic::extents(repository, pieces.clone()),
            _ => mismatch(),
        }
    }

    /// Returns true if these are the bytes of an extent, by their hash.
    pub(crate) fn are_bytes_of(&self, extent: &Extent, bytes: &[u8]) -> bool {
        match (self, extent.stored) {
            (Self::Kopia(repository), Stored::Kopia { content, .. }) => {
                repository.crypto().hash(bytes) == *content.hash()
            }
            (Self::Restic(_), Stored::Restic(blob)) => lifeboat_restic::Id::of(bytes) == blob,
            _ => false,
        }
    }

    /// Reads directories into the memory of the repository while nobody waits for each of them. What fails is told when they
    /// are listed.
    pub(crate) async fn read_ahead(&self, directories: impl Iterator<Item = &Object> + Send) {
        match self {
            Self::Kopia(repository) => kopia::read_ahead(repository, directories).await,
            Self::Restic(repository) => restic::read_ahead(repository, directories).await,
        }
    }

    /// The threads that decrypt.
    pub(crate) fn threads(&self) -> usize {
        match self {
            Self::Kopia(repository) => repository.contents().limits().threads,
            Self::Restic(repository) => repository.limits().threads,
        }
        .max(1)
    }

    /// Reads extents by a plan, with windows of at most so many.
    pub(crate) async fn read<T: Send + Sync + 'static>(
        &self,
        wanted: impl Stream<Item = (Extent, T)> + Send,
        window: usize,
        reader: Arc<impl Reader<T>>,
    ) -> Result<(), RepositoryError> {
        match self {
            Self::Kopia(repository) => kopia::read(repository, wanted, window, reader).await,
            Self::Restic(repository) => restic::read(repository, wanted, window, reader).await,
        }
    }
}

/// The error of an object that belongs to a repository of the other format.
fn mismatched() -> RepositoryError {
    lifeboat_kopia::KopiaError::Missing { what: "an object of another repository".to_owned() }.into()
}

fn mismatch<T: Send + 'static>() -> BoxStream<'static, Result<T, RepositoryError>> {
    futures::stream::once(async { Err(mismatched()) }).boxed()
}
