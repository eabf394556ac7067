//! Level by level, inside a level many at once.

use crate::check::{Presence, Seen};
use crate::checkpoint::Checkpoint;
use crate::deferred::Deferred;
use crate::item::{Action, Context, Done, Source};
use crate::plan::Level;
use crate::read::{Facts, State};
use crate::running::{Running, Turn};
use lifeboat_store::StoreError;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Restores the objects of one level and waits for all of them. Objects go to the cluster as many at once as its pace
/// allows; reading the archive keeps just ahead, and passes over what needs nothing more. `ahead` is what was seen of
/// this level before.
pub(crate) async fn level(
    level: Level,
    ahead: Option<Presence>,
    context: &Arc<Context>,
    checkpoint: &mut Checkpoint,
    deferred: &mut Deferred,
) -> Result<Vec<Done>, StoreError> {
    context.namespaces.next_round();
    if context.resumed {
        // Also of objects that are done: who made the namespace is asked of the cluster.
        let rows = level.items.iter().filter_map(|one| context.archive.row(one.row));
        context.missing_namespaces(rows.filter_map(|row| row.namespace()).collect()).await;
    }
    let done = |one: &Facts| checkpoint.done(one.row).filter(|_| !level.is_of_namespaces());
    let (mut settled, open): (Vec<_>, Vec<_>) =
        level.items.iter().map(|one| (*one, done(one))).partition(|(_, action)| action.is_some());
    let level = Level { name: level.name, items: open.into_iter().map(|(one, _)| one).collect() };
    let presence = tokio::select! {
        presence = look(&level, ahead, context) => presence,
        () = context.env.cancel.cancelled() => Presence::default(),
    };
    let mut rows = Vec::new();
    for one in level.items {
        let Some(row) = context.archive.row(one.row) else { continue };
        if context.stays(&context.target_of(&row.key()), one.state, &presence) {
            settled.push((one, Some(Action::Skipped)));
        } else {
            rows.push(one.row);
        }
    }
    let mut running = Running::new(context, checkpoint);
    for (one, action) in settled {
        running.settled(one, action.unwrap_or(Action::Skipped));
    }
    let mut reading = JoinSet::new();
    let mut contents = context.archive.read(rows, &mut reading);
    let mut broken = None;
    loop {
        let item = tokio::select! {
            biased;
            () = context.env.cancel.cancelled() => break,
            item = contents.next() => item,
        };
        let item = match item {
            Ok(Some(item)) => item,
            Ok(None) => break,
            // What is being written is awaited first, so that its outcome is known to the next run.
            Err(e) => {
                broken = Some(e);
                break;
            }
        };
        let Some(row) = context.archive.row(item.row) else { continue };
        let key = row.key();
        let seen = presence.look(&context.target_of(&key), State::of(&item.head));
        let exists = matches!(seen, Seen::Exists | Seen::Unchanged);
        running.start(Source { row: item.row, key, body: item.body, exists }, Turn::default()).await;
    }
    let done = running.finish().await;
    deferred.add(done.later);
    broken.map_or(Ok(done.done), Err)
}

/// What of a level is there already.
async fn look(level: &Level, ahead: Option<Presence>, context: &Arc<Context>) -> Presence {
    let lookout = context.lookout();
    let places = lookout.places(level);
    // What is seen in a namespace that is being deleted will not be there when it is gone.
    let listed: HashSet<&str> = places.iter().filter_map(|(_, namespace)| namespace.as_deref()).collect();
    let rows = level.items.iter().filter_map(|one| context.archive.row(one.row));
    let names: BTreeSet<&str> = rows.filter_map(|row| row.namespace()).collect();
    let needed = names.into_iter().filter(|name| listed.contains(context.mapped(name))).collect();
    // Who restores an object in one that is missing says what is wrong.
    context.missing_namespaces(needed).await;
    match ahead {
        Some(presence) if !context.namespaces.made_any() => presence,
        _ => lookout.look(places).await,
    }
}
