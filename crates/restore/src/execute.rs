//! Level by level, inside a level many at once.

use crate::check::{Presence, Seen};
use crate::checkpoint::Checkpoint;
use crate::env::Env;
use crate::item::{Action, Attempt, Context, Done, Source};
use crate::plan::Level;
use crate::read::{Facts, State};
use lifeboat_cluster::ClusterError;
use lifeboat_object::{ObjectKey, Place};
use lifeboat_store::StoreError;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// Objects that were refused for a reason that can pass.
#[derive(Default)]
pub(crate) struct Deferred {
    waiting: Vec<(Source, Box<ClusterError>)>,
}

/// How long a cancelled restore waits for writes in flight.
const GRACE: Duration = Duration::from_secs(4);

/// Ends when the grace is over that began at the first look after the cancellation.
async fn overdue(cancel: &CancellationToken, grace: &mut Option<Instant>) {
    cancel.cancelled().await;
    sleep_until(*grace.get_or_insert_with(|| Instant::now() + GRACE)).await;
}

/// How long the retry queue is drained.
const PATIENCE: Duration = Duration::from_secs(60);

/// Restores the objects of one level and waits for all of them. Objects go to the cluster as many at once as its pace
/// allows; reading the archive keeps just ahead, and passes over what needs nothing more. `ahead` is what was seen of
/// this level before.
pub(crate) async fn level(
    level: Level,
    ahead: Option<Presence>,
    context: &Arc<Context>,
    checkpoint: &mut Checkpoint,
    deferred: &mut Deferred,
    env: &Env,
) -> Result<Vec<Done>, StoreError> {
    let (mut settled, open): (Vec<_>, Vec<_>) =
        level.items.into_iter().map(|one| (one, checkpoint.done(one.row))).partition(|(_, action)| action.is_some());
    let level = Level { name: level.name, items: open.into_iter().map(|(one, _)| one).collect() };
    let presence = tokio::select! {
        presence = look(&level, ahead, context) => presence,
        () = env.cancel.cancelled() => Presence::default(),
    };
    let mut rows = Vec::new();
    for one in level.items {
        let Some(row) = context.archive.row(one.row) else { continue };
        match presence.look(&context.target_of(&row.key()), one.state) {
            Seen::Unchanged => settled.push((one, Some(Action::Skipped))),
            _ => rows.push(one.row),
        }
    }
    let mut running = Running::new(context, checkpoint, false);
    for (one, action) in settled {
        running.settled(one, action.unwrap_or(Action::Skipped));
    }
    let mut reading = JoinSet::new();
    let mut contents = context.archive.read(rows, &mut reading);
    loop {
        let item = tokio::select! {
            biased;
            () = env.cancel.cancelled() => break,
            item = contents.next() => item?,
        };
        let Some(item) = item else { break };
        let Some(row) = context.archive.row(item.row) else { continue };
        let key = row.key();
        let exists = presence.look(&context.target_of(&key), State::of(&item.head)) == Seen::Exists;
        running.start(Source { row: item.row, key, body: item.body, exists }, false).await;
    }
    let done = running.finish().await;
    deferred.waiting.extend(done.later);
    Ok(done.done)
}

/// What of a level is there already.
async fn look(level: &Level, ahead: Option<Presence>, context: &Arc<Context>) -> Presence {
    let lookout = context.lookout();
    let places = lookout.places(level);
    // What is seen in a namespace that is being deleted will not be there when it is gone.
    let listed: HashSet<&str> = places.iter().filter_map(|(_, namespace)| namespace.as_deref()).collect();
    let mut ensured = HashSet::new();
    for row in level.items.iter().filter_map(|one| context.archive.row(one.row)) {
        if !ensured.insert(Arc::clone(&row.namespace)) {
            continue;
        }
        let (key, target) = (row.key(), context.target_of(&row.key()));
        if target.namespace.as_deref().is_some_and(|target| listed.contains(target)) {
            // Who restores an object there says what is wrong.
            let _ = context.try_ensure_namespace(&key, &target).await;
        }
    }
    match ahead {
        Some(presence) if !context.namespaces.made_any() => presence,
        _ => lookout.look(places).await,
    }
}

/// Tries the refused objects again until all are done or patience ends; then what is left has failed.
pub(crate) async fn drain(
    deferred: &mut Deferred,
    context: &Arc<Context>,
    checkpoint: &mut Checkpoint,
    env: &Env,
) -> Vec<Done> {
    let deadline = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(100);
    let mut out = Vec::new();
    while !deferred.waiting.is_empty() {
        let last = Instant::now() + pause > deadline || env.cancel.is_cancelled();
        let mut running = Running::new(context, checkpoint, last);
        for (source, refusal) in std::mem::take(&mut deferred.waiting) {
            tracing::debug!(key = %source.key, %refusal, "trying again");
            running.start(source, true).await;
        }
        let done = running.finish().await;
        deferred.waiting.extend(done.later);
        out.extend(done.done);
        if !deferred.waiting.is_empty() {
            tokio::select! {
                () = sleep(pause) => {}
                () = env.cancel.cancelled() => {}
            }
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }
    out
}

/// Attempts in flight.
struct Running<'a> {
    context: &'a Arc<Context>,
    checkpoint: &'a mut Checkpoint,
    /// There is no later turn.
    last: bool,
    tasks: JoinSet<(usize, Attempt)>,
    /// What the tasks are about, by row.
    flying: BTreeMap<usize, ObjectKey>,
    /// When they are given up, after the restore was cancelled.
    grace: Option<Instant>,
    ended: Ended,
}

#[derive(Default)]
struct Ended {
    done: Vec<Done>,
    later: Vec<(Source, Box<ClusterError>)>,
}

impl<'a> Running<'a> {
    fn new(context: &'a Arc<Context>, checkpoint: &'a mut Checkpoint, last: bool) -> Self {
        Self {
            context,
            checkpoint,
            last,
            tasks: JoinSet::new(),
            flying: BTreeMap::new(),
            grace: None,
            ended: Ended::default(),
        }
    }

    fn settled(&mut self, one: Facts, action: Action) {
        if let Some(row) = self.context.archive.row(one.row) {
            self.ended.done.extend(self.context.settled(&row.key(), one.ended, action));
            self.checkpoint.mark(one.row, action);
            self.context.env.progress.finished(1);
        }
    }

    async fn start(&mut self, source: Source, again: bool) {
        while self.tasks.len() >= self.context.env.cluster.pace().most() && self.take_next().await {}
        self.save().await;
        let (context, last, row) = (Arc::clone(self.context), self.last, source.row);
        self.flying.insert(row, source.key.clone());
        self.tasks.spawn(async move { (row, context.restore(source, again, last).await) });
    }

    async fn save(&mut self) {
        if let Err(e) = self.checkpoint.save_if_due().await {
            // The restore goes on: only a run again would have more to look at.
            self.context.env.journal.warn(&Place::Velero, format!("the checkpoint could not be saved: {e}"));
        }
    }

    /// Waits for the next attempt to end; false when there is none.
    ///
    /// A write in flight is awaited even when cancelled, so that its outcome is known, but no longer than the grace.
    async fn take_next(&mut self) -> bool {
        let cancel = self.context.env.cancel.clone();
        let ended = tokio::select! {
            ended = self.tasks.join_next() => ended,
            () = overdue(&cancel, &mut self.grace) => {
                self.give_up().await;
                None
            }
        };
        let Some(ended) = ended else { return false };
        self.take(ended);
        true
    }

    /// Ends what does not answer, and says what it was.
    async fn give_up(&mut self) {
        self.tasks.shutdown().await;
        for (_, key) in std::mem::take(&mut self.flying) {
            let message = format!(
                "{key} was being written when the restore was cancelled, and no answer came: whether it was is not known"
            );
            self.context.env.journal.error(&Place::of(key.namespace.as_deref()), message);
        }
    }

    async fn finish(mut self) -> Ended {
        while self.take_next().await {
            self.save().await;
        }
        self.ended
    }

    fn take(&mut self, attempt: Result<(usize, Attempt), JoinError>) {
        if let Ok((row, _)) = &attempt {
            self.flying.remove(row);
        }
        match attempt {
            Ok((row, Attempt::Done { done, settled })) => {
                if settled {
                    self.checkpoint.mark(row, done.as_ref().map_or(Action::Skipped, |done| done.action));
                }
                self.ended.done.extend(done);
                self.context.env.progress.finished(1);
            }
            Ok((_, Attempt::Elsewhere)) => self.context.env.progress.finished(1),
            Ok((_, Attempt::Later(source, refusal))) => self.ended.later.push((source, refusal)),
            Err(e) => self.context.env.journal.error(&Place::Velero, format!("a task of the restore died: {e}")),
        }
    }
}
