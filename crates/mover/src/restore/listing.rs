//! The entries of a directory of the repository, in batches.

use super::names::{KnownNames, Names};
use crate::RepositoryError;
use crate::tree::{Object, Source, SourceEntry};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use lifeboat_kopia::snapshot::EntryState;

/// The entries of a batch.
const BATCH: usize = 256;

/// A listing that is read up to some entry. It can be closed and goes on from there.
pub(super) struct Listing {
    source: Source,
    object: Object,
    entries: Option<BoxStream<'static, Result<SourceEntry, RepositoryError>>>,
    taken: usize,
    /// The entries before its end, or before what cannot be read.
    count: usize,
}

/// A listing that was read once for its names.
pub(super) struct OpenListing {
    pub(super) listing: Listing,
    pub(super) names: KnownNames,
    /// The reason for which it has more entries than could be read.
    pub(super) error: Option<RepositoryError>,
}

impl Listing {
    /// Reads the names of a directory. One that is a single content stays in memory; a larger one is read once more.
    pub(super) async fn open(source: &Source, object: &Object) -> OpenListing {
        let mut stream = source.entries(object);
        let (mut names, mut kept, mut count, mut error) = (Names::default(), Vec::new(), 0, None);
        let is_kept = match object {
            Object::Kopia(object) => object.levels == 0,
            _ => true,
        };
        loop {
            match stream.try_next().await {
                Ok(Some(entry)) => {
                    names.push(&entry.name);
                    if let EntryState::CutShort { name } = &entry.state {
                        names.push_other(name);
                    }
                    count += 1;
                    if is_kept {
                        kept.push(entry);
                    }
                }
                Ok(None) => break,
                Err(e) => {
                    error = Some(e);
                    break;
                }
            }
        }
        let entries = is_kept.then(|| futures::stream::iter(kept.into_iter().map(Ok)).boxed());
        let listing = Self { source: source.clone(), object: object.clone(), entries, taken: 0, count };
        OpenListing { listing, names: names.finish(), error }
    }

    /// Gives the next entries; none at the end.
    pub(super) async fn next_batch(&mut self) -> Result<Vec<SourceEntry>, RepositoryError> {
        let wanted = BATCH.min(self.count - self.taken.min(self.count));
        let mut batch = Vec::with_capacity(wanted);
        if wanted == 0 {
            self.entries = None;
            return Ok(batch);
        }
        let taken = self.taken;
        let entries = self.entries.get_or_insert_with(|| self.source.entries(&self.object).skip(taken).boxed());
        while batch.len() < wanted
            && let Some(entry) = entries.try_next().await?
        {
            batch.push(entry);
        }
        // An object does not change, so there are as many as the first time.
        self.taken = if batch.is_empty() { self.count } else { taken + batch.len() };
        Ok(batch)
    }

    /// Frees what it holds. It is read again up to its place when it goes on.
    pub(super) fn close(&mut self) {
        self.entries = None;
    }
}
