//! Restores the additional items of an action, before the object that needs them (velero: pkg/restore/restore.go).

use crate::object::apply::{Need, PrepareError};
use crate::object::ready::{AwaitedItems, Readiness};
use crate::object::refused::Refused;
use crate::state::attempt::Attempt;
use crate::state::claimed_rows::AdditionalAttempt;
use crate::state::lock::lock;
use crate::walk::context::RestoreContext;
use crate::walk::read::filter_namespace;
use futures::StreamExt;
use lifeboat_object::ObjectKey;
use std::time::Duration;

/// Reads of the cluster at once, for one object.
const LOOKS: usize = 8;

/// Progress of an object through the additional items of the first of its needs.
#[derive(Default)]
pub(crate) struct NeedProgress {
    /// The number of the next item.
    next: usize,
    /// Set when an attempt at one of them ended, and something of it is left to do.
    has_unsettled: bool,
    /// Items that the backup has, by their keys in the cluster.
    of_backup: Vec<ObjectKey>,
}

/// An object of the backup that another one needs, and that no attempt had begun before.
pub(crate) struct AdditionalItem<'a> {
    pub(crate) row: usize,
    /// Its key in the backup.
    pub(crate) key: ObjectKey,
    pub(crate) attempt: AdditionalAttempt<'a>,
}

impl NeedProgress {
    /// Takes the end of an attempt at an additional item. When something of it is left to do, a run again comes back to the
    /// object that needs it, because nothing else may lead to the item.
    pub(crate) fn ended(&mut self, context: &RestoreContext, parent: &ObjectKey, attempt: Attempt) {
        if !matches!(attempt, Attempt::Done { settled: true, .. }) {
            self.has_unsettled = true;
            context.state.messages.leave_open(&context.scope.target_of(parent));
        }
    }
}

/// Takes the next additional item of actions that is to be restored before an object (its key in the backup); `None` when
/// all are. Waits for the items of an action that asks for that. An item whose attempt has begun is not waited for, so that
/// circles end. Items that may succeed later are in the queue of deferred objects, and the object itself goes on: when it
/// cannot be created without them, it is refused and tried again. Needs that are met are removed from the list.
///
/// # Errors
/// Returns the reason why the object is tried again later.
pub(crate) async fn next_item<'a>(
    context: &'a RestoreContext,
    parent: &ObjectKey,
    needs: &mut Vec<Need>,
    progress: &mut NeedProgress,
) -> Result<Option<AdditionalItem<'a>>, Refused> {
    let scope = &context.scope;
    while let Some(need) = needs.first() {
        while let Some(key) = need.items.get(progress.next) {
            progress.next += 1;
            let is_included = || scope.filter.includes_additional(&key.resource, filter_namespace(key));
            if !need.is_past_filters && !is_included() {
                continue;
            }
            let Some(row) = scope.find(key) else {
                tell_missing(context, parent, key);
                continue;
            };
            progress.of_backup.push(scope.target_of(key));
            if let Some(attempt) = context.state.claimed.begin_extra(row) {
                return Ok(Some(AdditionalItem { row, key: key.clone(), attempt }));
            }
        }
        let NeedProgress { has_unsettled, of_backup, .. } = std::mem::take(progress);
        if has_unsettled && context.stop.has_come() {
            return Err(Refused::Stopped);
        }
        if let Some(time) = need.wait {
            wait_for(context, parent, need, of_backup, time).await?;
        }
        needs.remove(0);
    }
    Ok(None)
}

/// Warns once of an object that the backup does not have.
fn tell_missing(context: &RestoreContext, parent: &ObjectKey, key: &ObjectKey) {
    if lock(&context.state.notes.reported_missing).insert(key.digest()) {
        let message = format!("{key}, which {parent} needs, is not in the backup");
        context.state.messages.warning(&context.scope.target_of(parent), &message);
    }
}

/// Waits until an action says that its additional items are ready, as far as they exist. Without an answer, the
/// object that needs them gets an error, and is restored all the same.
async fn wait_for(
    context: &RestoreContext,
    parent: &ObjectKey,
    need: &Need,
    named: Vec<ObjectKey>,
    time: Duration,
) -> Result<(), Refused> {
    let Some(_place) = context.state.attempts.wait_slots.step() else { return Err(Refused::Crowded) };
    let (items, parent) = (in_cluster(context, named).await, context.scope.target_of(parent));
    let restore = &context.scope.restore;
    let named = AwaitedItems { action: &*need.action, items: &items, parent: &parent, restore };
    let time = if time.is_zero() { context.scope.options.resource_timeout } else { time };
    match named.wait(time, context.stop.token()).await {
        Readiness::Ready => Ok(()),
        Readiness::Unknown(why) => {
            context.state.messages.error(&parent, &why);
            Ok(())
        }
        Readiness::Fatal(why) => Err(Refused::Unprepared(PrepareError::Fatal(Box::new(why)))),
        Readiness::Stopped => Err(Refused::Stopped),
    }
}

/// Returns the objects among these that are in the cluster. An object that cannot be read counts as missing.
async fn in_cluster(context: &RestoreContext, keys: Vec<ObjectKey>) -> Vec<ObjectKey> {
    let look = |key: ObjectKey| async {
        let resource = context.scope.catalog.find(&key.resource)?;
        let found = context.env.cluster.get(resource, key.namespace.as_deref(), &key.name).await;
        found.ok().flatten().map(|_| key)
    };
    let looks = futures::stream::iter(keys).map(look).buffered(LOOKS);
    looks.filter_map(std::future::ready).collect().await
}
