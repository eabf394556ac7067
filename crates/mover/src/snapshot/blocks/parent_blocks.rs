//! The blocks of an earlier snapshot, each of which is looked up again when its turn comes.

use super::super::run::Run;
use crate::RepositoryError;
use futures::TryStreamExt;
use futures::stream::BoxStream;
use lifeboat_kopia::KopiaError;
use lifeboat_kopia::format::object_id::ObjectId;
use lifeboat_kopia::object::{Extent, extents};

/// The blocks of an earlier snapshot, in their order.
pub(super) struct ParentBlocks<'a> {
    run: &'a Run,
    /// The blocks that are ahead; `None` where there are none, or nobody can list them any more.
    extents: Option<BoxStream<'static, Result<Extent, KopiaError>>>,
    /// The number of blocks that are behind.
    passed: u64,
    /// The number of blocks that the repository does not have any more.
    lost: u64,
}

impl<'a> ParentBlocks<'a> {
    pub(super) fn new(run: &'a Run, object: Option<ObjectId>) -> Self {
        let extents = object.map(|object| extents(run.writer.repository().contents(), &object));
        Self { run, extents, passed: 0, lost: 0 }
    }

    /// The object of a block that comes after those that were asked for before. `None` where the repository does not have
    /// it any more, or is about to delete it: the snapshot may be deleted, and maintenance run, since it was looked at.
    pub(super) async fn block(&mut self, block: u64) -> Result<Option<ObjectId>, KopiaError> {
        while let Some(extents) = &mut self.extents {
            let next = match extents.try_next().await {
                Err(error) if concerns_snapshot(&error) => None,
                next => next?,
            };
            let Some(extent) = next else {
                self.extents = None;
                break;
            };
            self.passed += 1;
            if self.passed <= block {
                continue;
            }
            let found = self.run.writer.contents().find(&extent.content)?;
            if found.is_some_and(|found| !found.is_deleted) {
                let object = ObjectId { is_compressed: extent.is_compressed, ..ObjectId::direct(extent.content) };
                return Ok(Some(object));
            }
            break;
        }
        self.lost += 1;
        Ok(None)
    }

    /// Tells of blocks that were lost meanwhile.
    pub(super) fn tell_lost(&self) {
        let lost = self.lost;
        if lost > 0 {
            self.run.warn(format!(
                "{lost} blocks of the earlier snapshot were deleted from the repository while this one was taken: they were \
                 read from the device"
            ));
        }
    }
}

/// True for an error of the earlier snapshot alone.
fn concerns_snapshot(error: &KopiaError) -> bool {
    RepositoryError::from(error.repeat()).concerns_entry()
}
