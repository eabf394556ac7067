//! The earlier snapshot from which unchanged blocks are taken over.

use super::super::options::SnapshotOptions;
use super::super::run::Run;
use crate::block_form::{BLOCK, LENGTH, is_saved_as_blocks};
use crate::{MoverError, RepositoryError};
use futures::TryStreamExt;
use lifeboat_kopia::KopiaError;
use lifeboat_kopia::format::directory::EntryType;
use lifeboat_kopia::format::object_id::ObjectId;
use lifeboat_kopia::format::snapshot::SnapshotDocument;
use lifeboat_kopia::object::{extents, find_loss};
use lifeboat_kopia::snapshot::{EntryState, Snapshot, entries};

/// An earlier snapshot of a device in the form of blocks, as its manifest tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockParent {
    id: String,
    directory: ObjectId,
    size: u64,
}

/// The snapshot since which the changes of a device are known; `None` where no changes are given.
///
/// # Errors
/// The reason for which its blocks cannot be taken over, as a sentence.
pub(crate) fn find_block_parent(
    snapshots: &[Snapshot],
    options: &SnapshotOptions,
) -> Result<Option<BlockParent>, String> {
    let Some(changes) = options.blocks.as_ref().and_then(|form| form.changes.as_ref()) else { return Ok(None) };
    let id = &changes.parent;
    let unusable = |why: &str| all_is_read(id, why);
    let snapshot = snapshots.iter().find(|snapshot| snapshot.id == *id).ok_or_else(|| unusable("it is not there"))?;
    let document = snapshot.document.as_ref().map_err(|why| unusable(&format!("it cannot be read: {why}")))?;
    if document.source != options.source {
        let path = &document.source.path;
        return Err(unusable(&format!("it is a snapshot of another source, {path}")));
    }
    if document.incomplete.is_some() {
        return Err(unusable("it was not finished"));
    }
    let parent = parent_of(id, document).ok_or_else(|| unusable("it is not in the form of blocks"))?;
    Ok(Some(parent))
}

fn parent_of(id: &str, document: &SnapshotDocument) -> Option<BlockParent> {
    let size = document.tags.get(LENGTH)?.parse().ok()?;
    let root = document.root.as_ref().filter(|root| root.entry_type == EntryType::Directory)?;
    let directory = root.object?;
    is_saved_as_blocks(&document.tags).then(|| BlockParent { id: id.to_owned(), directory, size })
}

fn all_is_read(id: &str, why: impl std::fmt::Display) -> String {
    format!("no block is taken over from snapshot {id}, and all of the device is read: {why}")
}

impl BlockParent {
    /// The object whose blocks are taken over for a device of so many bytes. Where they cannot be, a warning says why.
    pub(super) async fn usable_object(&self, run: &Run, size: u64) -> Result<Option<ObjectId>, MoverError> {
        match self.object(run, size).await {
            Ok(Ok(object)) => return Ok(Some(object)),
            Ok(Err(why)) => run.warn(all_is_read(&self.id, why)),
            Err(error) => {
                let error = RepositoryError::from(error);
                if !error.concerns_entry() {
                    return Err(error.into());
                }
                run.warn(all_is_read(&self.id, error));
            }
        }
        Ok(None)
    }

    async fn object(&self, run: &Run, size: u64) -> Result<Result<ObjectId, String>, KopiaError> {
        if self.size != size {
            let old = self.size;
            return Ok(Err(format!("the device had {old} bytes then, and has {size} now")));
        }
        let contents = run.writer.repository().contents();
        let mut children = entries(contents, &self.directory);
        let (first, second) = (children.try_next().await?, children.try_next().await?);
        let only = first.filter(|first| second.is_none() && first.state == EntryState::Whole);
        let file = only.filter(|only| only.entry.entry_type == EntryType::File);
        let Some(object) = file.and_then(|file| file.entry.object) else {
            return Ok(Err("it is not a directory with one file".to_owned()));
        };
        if let Some(why) = find_loss(run.writer.contents(), &object).await? {
            return Ok(Err(format!("it is not whole in the repository any more: {why}")));
        }
        let mut extents = extents(contents, &object);
        let mut blocks = 0;
        while let Some(extent) = extents.try_next().await? {
            if (extent.start, extent.length) != (blocks * BLOCK, BLOCK) {
                let (start, length) = (extent.start, extent.length);
                return Ok(Err(format!("it has {length} bytes at {start} as one, and not blocks of {BLOCK}")));
            }
            blocks += 1;
        }
        if blocks != size.div_ceil(BLOCK) {
            return Ok(Err(format!("it has {blocks} blocks for {size} bytes")));
        }
        Ok(Ok(object))
    }
}
