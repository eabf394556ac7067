//! What backups and restores have in common while the engine runs: they are watched, and changed only while they are
//! still what they were.

use super::{Context, Unfinished};
use crate::world::Meta;
use lifeboat_action::Progress;
use lifeboat_api::{Backup, Restore};
use lifeboat_cluster::ClusterError;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// How often a write is tried when others write too.
const TRIES: u32 = 5;
/// Between reports of progress.
const REPORT: Duration = Duration::from_secs(1);

/// A resource that goes through phases.
pub(super) trait Phased: Meta {
    fn is_in_phase_of(&self, other: &Self) -> bool;

    /// So many objects are done, of so many.
    fn set_progress(&mut self, done: i64, total: i64);
}

impl Phased for Backup {
    fn is_in_phase_of(&self, other: &Self) -> bool {
        self.status.phase == other.status.phase
    }

    fn set_progress(&mut self, done: i64, total: i64) {
        let progress = self.status.progress.get_or_insert_default();
        (progress.items_backed_up, progress.total_items) = (done, total);
    }
}

impl Phased for Restore {
    fn is_in_phase_of(&self, other: &Self) -> bool {
        self.status.phase == other.status.phase
    }

    fn set_progress(&mut self, done: i64, total: i64) {
        let progress = self.status.progress.get_or_insert_default();
        (progress.items_restored, progress.total_items) = (done, total);
    }
}

/// The object now; `None` when it is another one, or another actor brought it into another phase.
async fn now<T: Phased>(context: &Context, known: &T) -> Result<Option<T>, ClusterError> {
    let found: Option<T> = context.client.get(&known.meta().name).await?;
    Ok(found.filter(|found| found.meta().uid == known.meta().uid && found.is_in_phase_of(known)))
}

/// Changes the object as it is now; again when another actor was faster, as long as it is the one that we know, in the
/// phase that we know.
pub(super) async fn until_written<T: Phased>(
    context: &Context,
    known: &T,
    change: impl Fn(&mut T),
) -> Result<T, Unfinished> {
    let what = || format!("{} {}", T::KIND, known.meta().name);
    for _ in 0..TRIES {
        let Some(current) = now(context, known).await? else {
            return Err(Unfinished::Because(format!("{} was changed by another program meanwhile", what())));
        };
        let mut after = current.clone();
        change(&mut after);
        match context.client.change(&current, &after).await {
            Err(e) if e.is_conflict() => {}
            written => return Ok(written?),
        }
    }
    Err(Unfinished::Because(format!("{} is changed by others all the time", what())))
}

/// Runs an engine to its end and reports its progress meanwhile. Cancels it when the object is no longer ours to work
/// on.
pub(super) async fn watched<T: Phased, O>(
    context: &Context,
    current: &mut T,
    running: impl Future<Output = O>,
    progress: &Progress,
    cancel: &CancellationToken,
) -> O {
    let mut running = Box::pin(running);
    let mut ticks = interval(REPORT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        tokio::select! {
            outcome = &mut running => return outcome,
            _ = ticks.tick() => {}
        }
        // The engine goes on while this is written.
        tokio::select! {
            outcome = &mut running => return outcome,
            reported = report(context, current, progress.get()) => match reported {
                Ok(Some(stored)) => *current = stored,
                Ok(None) => cancel.cancel(),
                Err(e) => tracing::warn!(error = %e, "progress could not be reported"),
            },
        }
    }
}

/// Writes the progress; `None` when the object is no longer ours to work on.
async fn report<T: Phased>(
    context: &Context,
    current: &T,
    (done, total): (u64, u64),
) -> Result<Option<T>, ClusterError> {
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let mut after = current.clone();
    after.set_progress(count(done), count(total));
    match context.client.change(current, &after).await {
        Ok(stored) => Ok(Some(stored)),
        Err(e) if e.is_conflict() => now(context, current).await,
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e),
    }
}
