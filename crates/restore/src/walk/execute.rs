//! Restores one level after the other, and many objects of a level at once.

use crate::object::required_namespaces;
use crate::state::attempt::{AttemptNumber, SourceObject};
use crate::state::checkpoint::Checkpoint;
use crate::state::item_result::{HandledItem, ItemResult};
use crate::walk::context::RestoreContext;
use crate::walk::deferred::Deferred;
use crate::walk::existence::{Existence, ExistingObjects, LOOK_FOR};
use crate::walk::levels::Level;
use crate::walk::prefetch::PrefetchedState;
use crate::walk::read::{Facts, StateDigest};
use crate::walk::running::AttemptsInFlight;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Objects that a restore has handled, and the number that it did not reach.
#[derive(Debug, Default)]
pub(crate) struct LevelResult {
    pub(crate) done: Vec<HandledItem>,
    /// Objects that were not looked at, because it ended early.
    pub(crate) not_looked_at: u64,
}

/// Restores the objects of one level and waits for all of them. The pace of the cluster bounds the number of concurrent
/// attempts; reading the archive keeps just ahead, and skips objects that are done. `ahead` has the results of the look
/// ahead for this level. When the restore ends early, attempts in flight are awaited, and the other objects are left.
pub(crate) async fn level(
    level: Level,
    ahead: Option<PrefetchedState>,
    context: &Arc<RestoreContext>,
    checkpoint: &mut Checkpoint,
    deferred: &mut Deferred,
) -> LevelResult {
    context.state.namespaces.next_round();
    if context.state.is_resumed {
        // Also of objects that are done: only the cluster tells whether this restore has made the namespace.
        let rows = level.items.iter().filter_map(|one| context.row(one.row));
        required_namespaces::ensure_all(context, rows.filter_map(|row| row.namespace()).collect()).await;
    }
    let is_of_namespaces = level.is_of_namespaces();
    let (mut settled, open) = split(&level.items, |one| checkpoint.done(one.row).filter(|_| !is_of_namespaces));
    let level = Level { name: level.name, items: open };
    let presence = tokio::select! {
        presence = look(&level, ahead, context) => presence,
        () = context.stop.wait() => Arc::default(),
    };
    let are_namespaces = level.is_of_namespaces();
    let mut rows = Vec::new();
    for one in level.items {
        let Some(row) = context.row(one.row) else { continue };
        if context.stays(row, one, &presence) {
            if !one.ended {
                context.state.messages.unchanged(&context.scope.target_of(&row.key()));
            }
            settled.push((one, ItemResult::Skipped));
        } else {
            rows.push(one.row);
        }
    }
    let mut running = AttemptsInFlight::new(context, checkpoint);
    for (one, action) in settled {
        running.settled(one, action);
    }
    if are_namespaces {
        running.make_room();
    }
    let mut reading = JoinSet::new();
    let mut contents = context.scope.archive.read(rows.clone(), &mut reading);
    loop {
        let item = tokio::select! {
            biased;
            () = context.stop.wait() => break,
            item = contents.next() => item,
        };
        let item = match item {
            Ok(Some(item)) => item,
            Ok(None) => break,
            // What is being written is awaited first, so that its outcome is known to the next run.
            Err(e) => {
                context.stop.break_off(e);
                break;
            }
        };
        let Some(row) = context.row(item.row) else { continue };
        let key = row.key();
        let seen = presence.look(&context.scope.target_of(&key), StateDigest::of(&item.head));
        let exists = matches!(seen, Existence::Exists | Existence::Unchanged);
        running.start(SourceObject { row: item.row, key, body: item.body, exists }, AttemptNumber::default()).await;
    }
    let done = running.finish().await;
    deferred.add(done.later);
    let not_looked_at = if context.stop.has_come() { take_untouched(&rows, context) } else { 0 };
    LevelResult { done: done.done, not_looked_at }
}

/// Skips a level when the restore ends early: objects that an earlier run has restored are listed, and the others are
/// left.
pub(crate) async fn pass_over(level: Level, context: &Arc<RestoreContext>, checkpoint: &mut Checkpoint) -> LevelResult {
    let (settled, open) = split(&level.items, |one| checkpoint.done(one.row));
    let mut running = AttemptsInFlight::new(context, checkpoint);
    // Namespaces have a list of their own.
    for (one, action) in settled.into_iter().filter(|_| !level.is_of_namespaces()) {
        running.settled(one, action);
    }
    let rows: Vec<usize> = open.into_iter().map(|one| one.row).collect();
    LevelResult { done: running.finish().await.done, not_looked_at: take_untouched(&rows, context) }
}

/// The objects with which an earlier run has done something, and the others.
fn split(items: &[Facts], done: impl Fn(&Facts) -> Option<ItemResult>) -> (Vec<(Facts, ItemResult)>, Vec<Facts>) {
    let (mut settled, mut open) = (Vec::new(), Vec::new());
    for one in items {
        match done(one) {
            Some(action) => settled.push((*one, action)),
            None => open.push(*one),
        }
    }
    (settled, open)
}

/// Takes those of these objects that no attempt has begun, so that none begins them; gives how many.
fn take_untouched(rows: &[usize], context: &RestoreContext) -> u64 {
    rows.iter().filter(|row| context.state.claimed.begin(**row)).count() as u64
}

/// Checks which objects of a level are in the cluster already.
async fn look(level: &Level, ahead: Option<PrefetchedState>, context: &RestoreContext) -> Arc<ExistingObjects> {
    let lookup = context.scope.lookup(&context.env);
    let places = lookup.places(level);
    // What is seen in a namespace that is being deleted will not be there when it is gone.
    let namespaces_to_list = places.keys().filter_map(|(_, namespace)| namespace.as_deref());
    let namespaces_seen = ahead.iter().flat_map(PrefetchedState::namespaces);
    let looked_at: HashSet<&str> = namespaces_to_list.chain(namespaces_seen).collect();
    let rows = level.items.iter().filter_map(|one| context.row(one.row));
    let names: BTreeSet<&str> = rows.filter_map(|row| row.namespace()).collect();
    let needed = names.into_iter().filter(|name| looked_at.contains(context.scope.namespace(name))).collect();
    // What is missing is not said here: the attempt at an object in such a namespace says what is wrong.
    required_namespaces::ensure_all(context, needed).await;
    // Asked after the wait for namespaces: what was seen before one went says nothing about the one that came.
    match ahead.filter(|_| !context.state.namespaces.has_changed_any()).and_then(PrefetchedState::still_counts) {
        Some(presence) => presence,
        None => Arc::new(lookup.look(places, LOOK_FOR).await),
    }
}
