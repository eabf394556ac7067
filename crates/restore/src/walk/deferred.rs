//! Queue of the objects that are tried again, by row number: they were refused for a reason that can pass, could not be
//! read, or are being deleted in the cluster.

use crate::object::item_failure::{unreadable, without_namespace};
use crate::object::required_namespaces;
use crate::state::attempt::{Attempt, AttemptNumber, Obstacle, SourceObject};
use crate::state::checkpoint::Checkpoint;
use crate::state::item_result::{HandledItem, ItemResult};
use crate::state::retry::can_be_read_later;
use crate::walk::context::RestoreContext;
use crate::walk::levels;
use crate::walk::running::{AttemptsInFlight, Waiting};
use crate::walk::scope::RestoreScope;
use backon::{BackoffBuilder, ExponentialBuilder};
use lifeboat_archive::index::Row;
use lifeboat_object::ResultScope;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Total time that a whole restore spends on retries without progress.
const PATIENCE: Duration = Duration::from_secs(60);
/// Least time for retries at the end of each level on which later levels build, whatever was spent before; longer than
/// a pause.
const LEAST: Duration = Duration::from_secs(10);
/// The first pause between two turns, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Objects that may go well later.
#[derive(Default)]
pub(crate) struct Deferred {
    waiting: Vec<Waiting>,
    patience: Patience,
}

/// The time for which all objects of a restore are tried again. Only a wait in vain uses it up.
struct Patience {
    left: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { left: PATIENCE }
    }
}

impl Patience {
    /// Time for which the objects that wait now are tried again.
    fn share(&self) -> Duration {
        self.left.max(LEAST)
    }

    /// Subtracts the time that was waited in vain.
    fn spend(&mut self, waited: Duration) {
        self.left = self.left.saturating_sub(waited);
    }
}

impl Deferred {
    pub(crate) fn add(&mut self, later: Vec<Waiting>) {
        self.waiting.extend(later);
    }

    /// Tries the objects again until all are done or the time for retries is over; then the remaining ones have failed.
    /// That time is shared by the whole restore. Before the end of the restore, objects that wait for a deletion stay
    /// here unless a later level builds on them: the controller that must complete the deletion may be restored later.
    pub(crate) async fn drain(
        &mut self,
        context: &Arc<RestoreContext>,
        checkpoint: &mut Checkpoint,
        at_the_end: bool,
    ) -> Vec<HandledItem> {
        let pauses = ExponentialBuilder::default().with_min_delay(FIRST_PAUSE).with_max_delay(LONGEST_PAUSE);
        let mut pauses = pauses.without_max_times().build();
        let mut pause = pauses.next().unwrap_or(LONGEST_PAUSE);
        let mut out = Vec::new();
        let (began, share) = (Instant::now(), self.patience.share());
        let mut is_in_vain = false;
        loop {
            let is_due = |one: &mut Waiting| at_the_end || may_end(context, one);
            let waiting: Vec<Waiting> = self.waiting.extract_if(.., is_due).collect();
            if waiting.is_empty() {
                if is_in_vain {
                    self.patience.spend(began.elapsed().min(share));
                }
                return out;
            }
            if context.stop.has_come() {
                out.extend(given_up(&waiting, context));
                continue;
            }
            let mut running = AttemptsInFlight::new(context, checkpoint);
            let round = Round { next: Instant::now() + pause, share };
            is_in_vain |= retry(waiting, round, context, &mut running).await;
            let ended = running.finish().await;
            out.extend(ended.done);
            if !ended.later.is_empty() {
                tokio::select! {
                    () = sleep(pause) => {}
                    () = context.stop.wait() => {}
                }
                pause = pauses.next().unwrap_or(LONGEST_PAUSE);
            }
            self.waiting.extend(ended.later);
        }
    }
}

/// Returns true if an object is tried again before the end of the restore.
fn may_end(context: &Arc<RestoreContext>, one: &Waiting) -> bool {
    match one.obstacle {
        Obstacle::Leaving => is_built_on(context, one.row),
        // What fills its claim works beside the levels that follow.
        Obstacle::Filling => false,
        Obstacle::Passing | Obstacle::NamespaceMissing | Obstacle::Crowded => true,
    }
}

fn is_built_on(context: &Arc<RestoreContext>, row: usize) -> bool {
    context.row(row).is_some_and(|row| levels::is_built_on(&row.resource.to_string()))
}

/// A round of attempts at all objects that wait.
#[derive(Clone, Copy)]
struct Round {
    /// When the next one comes.
    next: Instant,
    /// Time for which objects are tried again.
    share: Duration,
}

/// Tries each of these objects again, if its namespace is there; those whose time is over before the next round for the last
/// time. Gives whether there were such.
async fn retry(
    waiting: Vec<Waiting>,
    round: Round,
    context: &Arc<RestoreContext>,
    running: &mut AttemptsInFlight<'_>,
) -> bool {
    context.state.namespaces.next_round();
    let rows =
        waiting.iter().filter(|one| one.obstacle == Obstacle::NamespaceMissing).filter_map(|one| context.row(one.row));
    // Objects of those that are still missing need not be read.
    let missing =
        required_namespaces::ensure_all(context, rows.filter_map(|row| RestoreScope::namespace_needed(row)).collect())
            .await;
    let (mut turns, mut is_last_of_any) = (BTreeMap::new(), false);
    for one in waiting {
        let Some(row) = context.row(one.row) else { continue };
        let until = one.until.unwrap_or_else(|| Instant::now() + round.share);
        let exists = one.obstacle == Obstacle::Leaving;
        let turn =
            AttemptNumber { again: true, exists, extra: one.extra, until: Some(until), last: round.next > until };
        is_last_of_any |= turn.last;
        match RestoreScope::namespace_needed(row) {
            Some(needed) if one.obstacle == Obstacle::NamespaceMissing && missing.contains(needed) => {
                let attempt = if turn.last {
                    without_namespace(context, row).await
                } else {
                    Attempt::Later(Obstacle::NamespaceMissing)
                };
                running.take(one.row, turn, attempt);
            }
            _ => {
                turns.insert(one.row, turn);
            }
        }
    }
    read_again(turns, context, running).await;
    is_last_of_any
}

async fn read_again(
    mut turns: BTreeMap<usize, AttemptNumber>,
    context: &Arc<RestoreContext>,
    running: &mut AttemptsInFlight<'_>,
) {
    let mut reading = JoinSet::new();
    let mut contents = context.scope.archive.read(turns.keys().copied().collect(), &mut reading);
    let failure = loop {
        let item = tokio::select! {
            biased;
            () = context.stop.wait() => break None,
            item = contents.next() => item,
        };
        match item {
            Ok(Some(item)) => {
                let (Some(row), Some(turn)) = (context.row(item.row), turns.remove(&item.row)) else {
                    continue;
                };
                let key = row.key();
                tracing::debug!(%key, "trying again");
                running.start(SourceObject { row: item.row, key, body: item.body, exists: turn.exists }, turn).await;
            }
            Ok(None) => break None,
            Err(e) if e.can_pass() => {
                context.stop.break_off(e);
                break None;
            }
            Err(e) => break Some(e),
        }
    };
    // Nothing follows a failure: these were not read.
    for (row, turn) in turns {
        let attempt = match &failure {
            Some(e) if turn.last || !can_be_read_later(e) => unreadable(context, row, e),
            _ => Attempt::Later(Obstacle::Passing),
        };
        running.take(row, turn, attempt);
    }
}

/// Ends the objects that wait, when the restore ends early.
fn given_up(waiting: &[Waiting], context: &Arc<RestoreContext>) -> Vec<HandledItem> {
    let (count, why) = (waiting.len(), context.stop.why_nothing_is_begun());
    let message = match count {
        1 => format!("1 object that could not be restored at first was not tried again: {why}"),
        _ => format!("{count} objects that could not be restored at first were not tried again: {why}"),
    };
    context.env.operation.journal.error(&ResultScope::Velero, message);
    // Namespaces have a list of their own.
    let is_namespace = |row: &Row| row.resource.is_namespaces();
    let rows = waiting.iter().map(|one| one.row);
    let rows = rows.filter(|number| context.row(*number).is_some_and(|row| !is_namespace(row)));
    rows.map(|row| HandledItem { row, action: ItemResult::Failed }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_share_a_minute_of_vain_retries_and_then_get_ten_seconds_each() {
        let mut patience = Patience::default();
        let mut shares = Vec::new();
        for waited in [20, 40, 10, 10] {
            shares.push(patience.share().as_secs());
            patience.spend(Duration::from_secs(waited));
        }
        assert_eq!(shares, [60, 40, 10, 10]);
        assert!(LEAST > LONGEST_PAUSE, "what restarts its patience is never given up between two rounds");
    }
}
