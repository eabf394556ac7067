//! Attempts in flight: as many at once as the cluster's pace allows.

use crate::object::item::restore;
use crate::object::item_failure::died;
use crate::state::attempt::{Attempt, AttemptNumber, Obstacle, SourceObject};
use crate::state::checkpoint::Checkpoint;
use crate::state::item_result::{HandledItem, ItemResult};
use crate::walk::context::RestoreContext;
use crate::walk::read::Facts;
use lifeboat_object::ResultScope;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Longest time for which a cancelled restore waits for writes in flight.
const GRACE: Duration = Duration::from_secs(4);

/// Namespaces in flight; most of them may be waiting.
const NAMESPACES: usize = 1024;

/// Ends when the grace is over, which begins at the first call that sees the cancellation.
async fn overdue(cancel: &CancellationToken, grace: &mut Option<Instant>) {
    cancel.cancelled().await;
    sleep_until(*grace.get_or_insert_with(|| Instant::now() + GRACE)).await;
}

/// An object that may go well later, by its row number: its content is read again then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) row: usize,
    pub(crate) obstacle: Obstacle,
    /// It came as an additional item: its own turn counts it.
    pub(crate) extra: bool,
    /// When it is given up; not known before its first turn in the queue.
    pub(crate) until: Option<Instant>,
}

/// Outcomes of attempts.
#[derive(Default)]
pub(crate) struct AttemptOutcomes {
    pub(crate) done: Vec<HandledItem>,
    pub(crate) later: Vec<Waiting>,
}

/// Attempts in flight.
pub(crate) struct AttemptsInFlight<'a> {
    context: &'a Arc<RestoreContext>,
    checkpoint: &'a mut Checkpoint,
    /// Most attempts in flight.
    room: usize,
    tasks: JoinSet<Attempt>,
    /// The objects that the tasks are about.
    flying: HashMap<Id, (usize, AttemptNumber)>,
    /// When they are given up, after the restore was cancelled.
    grace: Option<Instant>,
    ended: AttemptOutcomes,
}

impl<'a> AttemptsInFlight<'a> {
    pub(crate) fn new(context: &'a Arc<RestoreContext>, checkpoint: &'a mut Checkpoint) -> Self {
        Self {
            context,
            checkpoint,
            room: context.env.cluster.pace().most(),
            tasks: JoinSet::new(),
            flying: HashMap::new(),
            grace: None,
            ended: AttemptOutcomes::default(),
        }
    }

    /// Makes room for waits: namespaces that are terminating must not keep the others from being asked for.
    pub(crate) fn make_room(&mut self) {
        self.room = self.room.max(NAMESPACES);
    }

    /// Ends an object that needs nothing more: it stays as it is, or an earlier run did this with it. Nothing is read or
    /// written. What had ended when it was saved is not listed.
    pub(crate) fn settled(&mut self, one: Facts, action: ItemResult) {
        if self.context.state.claimed.begin(one.row) && !one.ended {
            self.ended.done.push(HandledItem { row: one.row, action });
        }
        self.checkpoint.mark(one.row, action);
        self.context.env.operation.progress.finished(1);
    }

    /// Starts an attempt as soon as the pace allows it.
    pub(crate) async fn start(&mut self, source: SourceObject, turn: AttemptNumber) {
        while self.is_full() && self.take_next().await {}
        self.save().await;
        let (context, row) = (Arc::clone(self.context), source.row);
        let task = self.tasks.spawn(async move { restore(&context, source, turn).await });
        self.flying.insert(task.id(), (row, turn));
    }

    /// Returns true if no further attempt may start: attempts that wait for other objects do not count.
    fn is_full(&self) -> bool {
        self.tasks.len() >= self.room.saturating_add(self.context.state.attempts.wait_slots.count())
    }

    async fn save(&mut self) {
        if let Err(e) = self.checkpoint.save_if_due().await {
            // The restore goes on: only a run again would have more to look at.
            self.context
                .env
                .operation
                .journal
                .warn(&ResultScope::Velero, format!("the checkpoint could not be saved: {e}"));
        }
    }

    /// Waits for the next attempt to end, or to wait for others; false when there is none.
    ///
    /// A write in flight is awaited even when cancelled, so that its outcome is known, but no longer than the grace.
    async fn take_next(&mut self) -> bool {
        let cancel = self.context.env.operation.cancel.clone();
        let ended = tokio::select! {
            ended = self.tasks.join_next_with_id() => ended,
            () = self.context.state.attempts.wait_slots.grows() => return true,
            () = overdue(&cancel, &mut self.grace) => {
                self.give_up().await;
                None
            }
        };
        self.take_extra();
        let Some(ended) = ended else { return false };
        self.take_joined(ended);
        true
    }

    /// Aborts attempts that do not answer, and reports their objects.
    async fn give_up(&mut self) {
        // Attempts that have ended are taken first: how they ended counts.
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.take_joined(ended);
        }
        self.tasks.shutdown().await;
        self.take_extra();
        let flying = std::mem::take(&mut self.flying).into_values().map(|(row, _)| row);
        for row in flying.chain(self.context.state.claimed.take_cut_off()) {
            let Some(row) = self.context.row(row) else { continue };
            let key = self.context.scope.target_of(&row.key());
            let message = format!(
                "{key} was being written when the restore was cancelled, and no answer came: whether it was is not known"
            );
            self.context.env.operation.journal.error(&ResultScope::of(key.namespace.as_deref()), message);
        }
    }

    /// Waits for all attempts.
    pub(crate) async fn finish(mut self) -> AttemptOutcomes {
        while self.take_next().await {
            self.save().await;
        }
        self.ended
    }

    fn take_joined(&mut self, ended: Result<(Id, Attempt), JoinError>) {
        let (id, attempt) = match ended {
            Ok((id, attempt)) => (id, Ok(attempt)),
            Err(e) => (e.id(), Err(e)),
        };
        let Some((row, turn)) = self.flying.remove(&id) else { return };
        let attempt = attempt.unwrap_or_else(|error| {
            for row in self.context.state.claimed.take_cut_off() {
                let attempt = died(self.context, row, &error);
                self.take(row, AttemptNumber { extra: true, ..AttemptNumber::default() }, attempt);
            }
            died(self.context, row, &error)
        });
        self.take(row, turn, attempt);
    }

    fn take_extra(&mut self) {
        for (row, attempt) in self.context.state.claimed.take_extra() {
            self.take(row, AttemptNumber { extra: true, ..AttemptNumber::default() }, attempt);
        }
    }

    /// Takes the outcome of an attempt.
    pub(crate) fn take(&mut self, row: usize, turn: AttemptNumber, attempt: Attempt) {
        match attempt {
            Attempt::Done { action, listed, settled } => {
                if settled {
                    self.checkpoint.mark(row, action);
                }
                if listed {
                    self.ended.done.push(HandledItem { row, action });
                }
            }
            Attempt::Elsewhere => {}
            Attempt::Later(obstacle) => {
                let until = turn.until.filter(|_| !obstacle.restarts_patience());
                self.ended.later.push(Waiting { row, obstacle, extra: turn.extra, until });
                return;
            }
        }
        if !turn.extra {
            self.context.env.operation.progress.finished(1);
        }
    }
}
