//! Restores what an action named, before the object that needs it (restore.md 2.11).

use crate::apply::Need;
use crate::item::{Attempt, Context, Source, Why};
use crate::ready::{Named, Readiness};
use crate::retry::can_be_read_later;
use crate::write::Refused;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use lifeboat_object::{ObjectKey, chain};
use lifeboat_store::StoreError;
use std::time::Duration;
use tokio::task::JoinSet;

/// Reads of the cluster at once, for one object.
const LOOKS: usize = 8;

impl Context {
    /// Restores what actions want to be there before an object, and waits for it where they say so. Depth first; an object
    /// that was begun is not waited for, so a circle ends. What may go well later waits in the queue of refused objects, and
    /// the object itself goes on: it is refused, and tried again, when it cannot do without. Needs that are met are taken off
    /// the list.
    ///
    /// # Errors
    /// When the object is to be tried again later.
    pub(crate) fn additional<'a>(
        &'a self,
        parent: &'a ObjectKey,
        needs: &'a mut Vec<Need>,
    ) -> BoxFuture<'a, Result<(), Refused>> {
        async move {
            while let Some(need) = needs.first() {
                let mut all_settled = true;
                let mut of_backup = Vec::new();
                for key in &need.items {
                    let place = crate::read::filter_namespace(key);
                    if !need.is_past_filters && !self.filter.includes_additional(&key.resource, place) {
                        continue;
                    }
                    match self.find(key) {
                        Some(row) => {
                            all_settled &= self.additional_item(parent, key, row).await;
                            of_backup.push(self.target_of(key));
                        }
                        None if self.notes.miss(key) => {
                            let message = format!("{key}, which {parent} needs, is not in the backup");
                            self.warning(&self.target_of(parent), &message);
                        }
                        None => {}
                    }
                }
                if !all_settled && self.stop.has_come() {
                    return Err(Refused::Stopped);
                }
                if let Some(time) = need.wait {
                    self.wait_for(parent, need, of_backup, time).await?;
                }
                needs.remove(0);
            }
            Ok(())
        }
        .boxed()
    }

    /// Restores one object that another one needs, unless it was begun. Tells whether nothing of it is left to do: otherwise a
    /// run again comes back to the parent, because nothing else may lead to it.
    async fn additional_item(&self, parent: &ObjectKey, key: &ObjectKey, row: usize) -> bool {
        let Some(extra) = self.notes.begin_extra(row) else { return true };
        let attempt = match self.load_to_restore(row).await {
            Ok(body) => self.attempt(&Source { row, key: key.clone(), body, exists: false }, false).await,
            Err(e) if can_be_read_later(&e) => Attempt::Later(Why::Refused),
            Err(e) => self.unreadable(row, &e),
        };
        extra.ended(attempt);
        let is_settled = matches!(attempt, Attempt::Done { settled: true, .. });
        if !is_settled {
            self.notes.note(&self.target_of(parent));
        }
        is_settled
    }

    /// Waits until an action says that what it has named is ready, as far as it is there. Without an answer, the object that
    /// needs it has an error, and is restored all the same.
    async fn wait_for(
        &self,
        parent: &ObjectKey,
        need: &Need,
        named: Vec<ObjectKey>,
        time: Duration,
    ) -> Result<(), Refused> {
        let Some(_place) = self.aside.step() else { return Err(Refused::Crowded) };
        let (items, parent) = (self.in_cluster(named).await, self.target_of(parent));
        let named = Named { action: &*need.action, items: &items, parent: &parent, restore: &self.restore };
        let time = if time.is_zero() { self.resource_timeout } else { time };
        match named.wait(time, self.stop.token()).await {
            Readiness::Ready => {}
            Readiness::Unknown(why) => self.error(&parent, &why),
            Readiness::Fatal(why) => {
                self.stop.break_off(why);
                return Err(Refused::Stopped);
            }
            Readiness::Stopped => return Err(Refused::Stopped),
        }
        Ok(())
    }

    /// Those of these objects that are in the cluster. One that cannot be asked for counts as missing.
    async fn in_cluster(&self, keys: Vec<ObjectKey>) -> Vec<ObjectKey> {
        let look = |key: ObjectKey| async {
            let resource = self.catalog.find(&key.resource)?;
            let found = self.env.cluster.get(resource, key.namespace.as_deref(), &key.name).await;
            found.ok().flatten().map(|_| key)
        };
        let looks = futures::stream::iter(keys).map(look).buffered(LOOKS);
        looks.filter_map(std::future::ready).collect().await
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
