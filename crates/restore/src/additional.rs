//! Restores what an action named, before the object that needs it (restore.md 2.11).

use crate::item::{Attempt, Context, Source, Why};
use crate::retry::can_be_read_later;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use lifeboat_object::{ObjectKey, chain};
use lifeboat_store::StoreError;
use tokio::task::JoinSet;

impl Context {
    /// Restores what an action named, before the object itself. Depth first; an object that was begun is not waited
    /// for, so a circle ends. What may go well later waits in the queue of refused objects, and the object itself goes
    /// on: it is refused, and tried again, when it cannot do without. Tells whether nothing of them is left to do: otherwise a
    /// run again comes back to the parent, because nothing else may lead to them.
    pub(crate) fn additional<'a>(&'a self, parent: &'a ObjectKey, keys: Vec<ObjectKey>) -> BoxFuture<'a, bool> {
        async move {
            let mut all_settled = true;
            for key in keys {
                let place = crate::read::filter_namespace(&key);
                if !self.filter.includes_additional(&key.resource, place) {
                    continue;
                }
                let Some(row) = self.find(&key) else {
                    if self.notes.miss(&key) {
                        let message = format!("{key}, which {parent} needs, is not in the backup");
                        self.warning(&self.target_of(parent), &message);
                    }
                    continue;
                };
                let Some(extra) = self.notes.begin_extra(row) else { continue };
                let attempt = match self.load_to_restore(row).await {
                    Ok(body) => self.attempt(&Source { row, key, body, exists: false }, false).await,
                    Err(e) if can_be_read_later(&e) => Attempt::Later(Why::Refused),
                    Err(e) => self.unreadable(row, &e),
                };
                extra.ended(attempt);
                if !matches!(attempt, Attempt::Done { settled: true, .. }) {
                    self.notes.note(&self.target_of(parent));
                    all_settled = false;
                }
            }
            all_settled
        }
        .boxed()
    }

    /// Reads one object of the backup, a few of them at the same time.
    pub(crate) async fn load(&self, row: usize) -> Result<Bytes, StoreError> {
        let _permit = self.notes.may_read().await;
        let mut reading = JoinSet::new();
        let item = self.archive.read(vec![row], &mut reading).next().await?;
        item.map(|item| item.body).ok_or(StoreError::Worker("reading one object of the archive"))
    }

    /// Reads one object of the backup for a restore, unless that ends early. When the bucket is away the restore breaks off
    /// here: who waits for the right to read would only wait as long for the same answer.
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

    /// Ends an object that cannot be read from the backup, with an error.
    pub(crate) fn unreadable(&self, row: usize, error: &StoreError) -> Attempt {
        if let Some(row) = self.archive.row(row) {
            let (key, why) = (self.target_of(&row.key()), chain(error));
            self.error(&key, &format!("error restoring {key}: it could not be read from the backup: {why}"));
            self.lost(&key);
        }
        Attempt::FAILED
    }
}
