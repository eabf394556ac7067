//! Restores the additional items of an action, before the object that needs them (restore.md 2.11).

use crate::object::apply::{Need, PrepareError};
use crate::object::ready::{AwaitedItems, Readiness};
use crate::object::refused::Refused;
use crate::state::attempt::Attempt;
use crate::state::claimed_rows::ClaimedRows;
use crate::state::env::Env;
use crate::state::lock::lock;
use crate::state::messages::Messages;
use crate::state::stop::Stop;
use crate::state::wait_slots::WaitSlots;
use crate::walk::read::filter_namespace;
use crate::walk::scope::RestoreScope;
use futures::StreamExt;
use futures::future::BoxFuture;
use lifeboat_object::ObjectKey;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Reads of the cluster at once, for one object.
const LOOKS: usize = 8;

/// Restores an object of the backup, by its row and key, whose turn the caller has taken.
pub(crate) type RestoreRow<'a> = dyn Fn(usize, ObjectKey) -> BoxFuture<'a, Attempt> + Send + Sync + 'a;

/// Restores the additional items of actions, and waits until they are ready.
pub(crate) struct Additional {
    pub(crate) mapping: Arc<RestoreScope>,
    pub(crate) messages: Arc<Messages>,
    pub(crate) begun: Arc<ClaimedRows>,
    pub(crate) wait_slots: Arc<WaitSlots>,
    pub(crate) stop: Arc<Stop>,
    pub(crate) told_missing: Arc<ReportedOnce>,
    /// Longest wait for a resource, where the action sets no time of its own.
    pub(crate) timeout: Duration,
    pub(crate) env: Env,
}

/// Objects that are needed, that the backup does not have, and that were named in a warning.
pub(crate) type ReportedOnce = Mutex<HashSet<[u8; 16]>>;

impl Additional {
    /// Restores the additional items of actions before an object (its key in the backup), and waits for them where the
    /// actions ask for that. An item whose attempt has begun is not waited for, so that circles end. Items that may
    /// succeed later are put into the queue of deferred objects, and the object itself goes on: when it cannot be
    /// created without them, it is refused and tried again. Needs that are met are removed from the list.
    ///
    /// # Errors
    /// Returns the reason why the object is tried again later.
    pub(crate) async fn meet(
        &self,
        parent: &ObjectKey,
        needs: &mut Vec<Need>,
        restore: &RestoreRow<'_>,
    ) -> Result<(), Refused> {
        while let Some(need) = needs.first() {
            let mut all_settled = true;
            let mut of_backup = Vec::new();
            for key in &need.items {
                let is_included = || self.mapping.filter.includes_additional(&key.resource, filter_namespace(key));
                if !need.is_past_filters && !is_included() {
                    continue;
                }
                match self.mapping.find(key) {
                    Some(row) => {
                        all_settled &= self.restore_first(parent, key, row, restore).await;
                        of_backup.push(self.mapping.target_of(key));
                    }
                    None => self.tell_missing(parent, key),
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

    /// Restores one object that another one needs, unless it was begun. Tells whether nothing of it is left to do: otherwise a
    /// run again comes back to the parent, because nothing else may lead to it.
    async fn restore_first(&self, parent: &ObjectKey, key: &ObjectKey, row: usize, restore: &RestoreRow<'_>) -> bool {
        let Some(extra) = self.begun.begin_extra(row) else { return true };
        let attempt = restore(row, key.clone()).await;
        extra.ended(attempt);
        let is_settled = matches!(attempt, Attempt::Done { settled: true, .. });
        if !is_settled {
            self.messages.leave_open(&self.mapping.target_of(parent));
        }
        is_settled
    }

    /// Warns once of an object that the backup does not have.
    fn tell_missing(&self, parent: &ObjectKey, key: &ObjectKey) {
        if lock(&self.told_missing).insert(key.digest()) {
            let message = format!("{key}, which {parent} needs, is not in the backup");
            self.messages.warning(&self.mapping.target_of(parent), &message);
        }
    }

    /// Waits until an action says that its additional items are ready, as far as they exist. Without an answer, the
    /// object that needs them gets an error, and is restored all the same.
    async fn wait_for(
        &self,
        parent: &ObjectKey,
        need: &Need,
        named: Vec<ObjectKey>,
        time: Duration,
    ) -> Result<(), Refused> {
        let Some(_place) = self.wait_slots.step() else { return Err(Refused::Crowded) };
        let (items, parent) = (self.in_cluster(named).await, self.mapping.target_of(parent));
        let named =
            AwaitedItems { action: &*need.action, items: &items, parent: &parent, restore: &self.mapping.restore };
        let time = if time.is_zero() { self.timeout } else { time };
        match named.wait(time, self.stop.token()).await {
            Readiness::Ready => Ok(()),
            Readiness::Unknown(why) => {
                self.messages.error(&parent, &why);
                Ok(())
            }
            Readiness::Fatal(why) => Err(Refused::Unprepared(PrepareError::Fatal(Box::new(why)))),
            Readiness::Stopped => Err(Refused::Stopped),
        }
    }

    /// Returns the objects among these that are in the cluster. An object that cannot be read counts as missing.
    async fn in_cluster(&self, keys: Vec<ObjectKey>) -> Vec<ObjectKey> {
        let look = |key: ObjectKey| async {
            let resource = self.mapping.catalog.find(&key.resource)?;
            let found = self.env.cluster.get(resource, key.namespace.as_deref(), &key.name).await;
            found.ok().flatten().map(|_| key)
        };
        let looks = futures::stream::iter(keys).map(look).buffered(LOOKS);
        looks.filter_map(std::future::ready).collect().await
    }
}
