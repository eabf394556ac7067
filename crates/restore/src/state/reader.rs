//! Reads single objects of the backup, a few of them at the same time.

use crate::state::stop::Stop;
use bytes::Bytes;
use lifeboat_store::{Archive, StoreError};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Objects that are read alone at the same time: each takes a whole member of the archive.
const READ_ALONE: usize = 4;

/// Reads single objects of the backup.
#[derive(Debug)]
pub(crate) struct BackupReader {
    archive: Archive,
    /// A permit for each object that may be read alone at the same time.
    places: Semaphore,
    stop: Arc<Stop>,
}

impl BackupReader {
    pub(crate) fn new(archive: Archive, stop: Arc<Stop>) -> Self {
        Self { archive, places: Semaphore::new(READ_ALONE), stop }
    }

    /// Reads one object of the backup.
    pub(crate) async fn load(&self, row: usize) -> Result<Bytes, StoreError> {
        // The semaphore is never closed.
        let _place = self.places.acquire().await.ok();
        let mut reading = JoinSet::new();
        let item = self.archive.read(vec![row], &mut reading).next().await?;
        item.map(|item| item.body).ok_or(StoreError::Worker("reading one object of the archive"))
    }

    /// Reads one object of the backup for a restore, unless that ends early. When the bucket is away the restore breaks
    /// off here: the tasks that wait for their permit to read would each wait as long for the same answer.
    pub(crate) async fn load_to_restore(&self, row: usize) -> Result<Bytes, StoreError> {
        let read = tokio::select! {
            read = self.load(row) => read,
            () = self.stop.wait() => return Err(StoreError::Stopped),
        };
        match read {
            Err(e) if e.can_pass() => {
                self.stop.break_off(e);
                Err(StoreError::Stopped)
            }
            read => read,
        }
    }
}
