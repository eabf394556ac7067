//! Level by level, inside a level many at once.

use crate::check::{Presence, Seen};
use crate::env::Env;
use crate::item::{Attempt, Context, Done, Source};
use crate::plan::Level;
use lifeboat_cluster::ClusterError;
use lifeboat_object::{Head, ObjectKey, Place};
use lifeboat_store::StoreError;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep};

/// Objects that were refused for a reason that can pass.
#[derive(Default)]
pub(crate) struct Deferred {
    waiting: Vec<(Source, Box<ClusterError>)>,
}

/// How long the retry queue is drained.
const PATIENCE: Duration = Duration::from_secs(60);

/// Restores the objects of one level and waits for all of them. Objects go to the cluster as many at once as its pace
/// allows; reading the archive keeps just ahead.
pub(crate) async fn level(
    level: Level,
    context: &Arc<Context>,
    deferred: &mut Deferred,
    env: &Env,
) -> Result<Vec<Done>, StoreError> {
    let presence = Presence::of(&level, context).await;
    let mut reading = JoinSet::new();
    let mut contents = context.archive.read(level.rows, &mut reading);
    let mut running = Running::new(context, false);
    while let Some(item) = contents.recv().await {
        let item = item?;
        if env.cancel.is_cancelled() {
            break;
        }
        let Some(row) = context.archive.row(item.row) else { continue };
        let key = row.key();
        let target = ObjectKey { namespace: context.target_namespace(&key), ..key.clone() };
        match presence.look(&target, &item.head) {
            Seen::Unchanged => running.unchanged(&key, &item.head, &item.body),
            seen => {
                let source = Source { key, body: item.body, exists: seen == Seen::Exists };
                running.start(source, false).await;
            }
        }
    }
    let done = running.finish().await;
    deferred.waiting.extend(done.later);
    Ok(done.done)
}

/// Tries the refused objects again until all are done or patience ends; then what is left has failed.
pub(crate) async fn drain(deferred: &mut Deferred, context: &Arc<Context>, env: &Env) -> Vec<Done> {
    let deadline = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(100);
    let mut out = Vec::new();
    while !deferred.waiting.is_empty() {
        let last = Instant::now() + pause > deadline || env.cancel.is_cancelled();
        let mut running = Running::new(context, last);
        for (source, refusal) in std::mem::take(&mut deferred.waiting) {
            tracing::debug!(key = %source.key, %refusal, "trying again");
            running.start(source, true).await;
        }
        let done = running.finish().await;
        deferred.waiting.extend(done.later);
        out.extend(done.done);
        if !deferred.waiting.is_empty() {
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }
    out
}

/// Attempts in flight.
struct Running<'a> {
    context: &'a Arc<Context>,
    /// There is no later turn.
    last: bool,
    tasks: JoinSet<Attempt>,
    ended: Ended,
}

#[derive(Default)]
struct Ended {
    done: Vec<Done>,
    later: Vec<(Source, Box<ClusterError>)>,
}

impl<'a> Running<'a> {
    fn new(context: &'a Arc<Context>, last: bool) -> Self {
        Self { context, last, tasks: JoinSet::new(), ended: Ended::default() }
    }

    fn unchanged(&mut self, key: &ObjectKey, head: &Head, body: &[u8]) {
        self.ended.done.extend(self.context.unchanged(key, head, body));
        self.context.env.progress.finished(1);
    }

    async fn start(&mut self, source: Source, again: bool) {
        while self.tasks.len() >= self.context.env.cluster.pace().most() {
            match self.tasks.join_next().await {
                Some(ended) => self.take(ended),
                None => break,
            }
        }
        let (context, last) = (Arc::clone(self.context), self.last);
        self.tasks.spawn(async move { context.restore(source, again, last).await });
    }

    /// A write in flight is awaited even when cancelled, so that its outcome is known.
    async fn finish(mut self) -> Ended {
        while let Some(ended) = self.tasks.join_next().await {
            self.take(ended);
        }
        self.ended
    }

    fn take(&mut self, attempt: Result<Attempt, JoinError>) {
        match attempt {
            Ok(Attempt::Done(done)) => {
                self.ended.done.extend(done);
                self.context.env.progress.finished(1);
            }
            Ok(Attempt::Later(source, refusal)) => self.ended.later.push((source, refusal)),
            Err(e) => self.context.env.journal.error(&Place::Velero, format!("a task of the restore died: {e}")),
        }
    }
}
