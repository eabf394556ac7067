//! The common part of running backups and restores: they are watched while the engine runs, and changed only while they
//! are still in the phase and the attempt that the server knows.

use super::{Context, StepError};
use crate::world::Meta;
use lifeboat_api::{Backup, Restore};
use lifeboat_client::{ChangeResult, is_refused};
use lifeboat_cluster::ClusterError;
use lifeboat_lifecycle::phase::{attempt, note_attempt};
use lifeboat_operation::{Fence, Progress};
use lifeboat_reconcile::Leadership;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

/// Bytes of all validation errors of an object, and of its failure reason: the API server takes no object beyond 1.5 MB.
const LARGEST: usize = 100_000;

/// As many of the errors as an object can hold.
pub(super) fn capped(errors: Vec<String>) -> Vec<String> {
    let (mut size, all) = (0, errors.len());
    let mut kept: Vec<String> = errors
        .into_iter()
        .map(shortened)
        .take_while(|error| {
            size += error.len();
            size <= LARGEST
        })
        .collect();
    if kept.len() < all {
        kept.push(format!("and {} more", all - kept.len()));
    }
    kept
}

/// As much of a message as an object can hold.
pub(super) fn shortened(mut message: String) -> String {
    if message.len() > LARGEST / 2 {
        message.truncate(message.floor_char_boundary(LARGEST / 2));
        message.push('…');
    }
    message
}

/// The reason for which an operation cannot begin: the API server refuses to note that it does.
pub(super) fn not_taken(error: &ClusterError) -> String {
    format!("the API server refuses what is to be noted on it, so it cannot begin: {error}")
}

/// The reason for which a backup or restore that was pending is incomplete.
pub(super) fn unfinalized(why: &str) -> String {
    format!("{why}: it is not finalized, and its files stay as they were")
}

/// Between reports of progress.
const REPORT: Duration = Duration::from_secs(1);

/// Time that the end of a failed operation waits for a bucket that hangs.
pub(super) const RECORDING: Duration = Duration::from_secs(60);
/// Time that the end of an operation that was cancelled before, or is meanwhile, waits for a bucket that hangs.
pub(crate) const RECORDING_CANCELLED: Duration = Duration::from_secs(4);

/// Waits until log and record of a failed operation are stored, and returns the result; otherwise the reason for which
/// the wait was given up: soon when the operation was cancelled before, or is meanwhile. The caller reports that the
/// rest is lost.
pub(super) async fn recorded<O>(
    cancelled: bool,
    stop: &CancellationToken,
    recording: impl Future<Output = O>,
) -> Result<O, String> {
    let short = async {
        if !cancelled {
            stop.cancelled().await;
        }
        sleep(RECORDING_CANCELLED).await;
    };
    tokio::select! {
        recorded = recording => Ok(recorded),
        () = short => Err(silent_for(RECORDING_CANCELLED)),
        () = sleep(RECORDING) => Err(silent_for(RECORDING)),
    }
}

/// The reason for which the wait for a bucket was given up.
pub(super) fn silent_for(time: Duration) -> String {
    format!("the bucket did not answer within {} s", time.as_secs())
}

/// A resource that goes through phases.
pub(super) trait Phased: Meta {
    fn is_in_phase_of(&self, other: &Self) -> bool;

    /// Sets the number of objects that are done, and of all objects.
    fn set_progress(&mut self, done: i64, total: i64);

    /// Sets the number of attempts.
    fn set_attempt(&mut self, attempt: u32);
}

impl Phased for Backup {
    fn is_in_phase_of(&self, other: &Self) -> bool {
        self.status.phase == other.status.phase
    }

    fn set_progress(&mut self, done: i64, total: i64) {
        let progress = self.status.progress.get_or_insert_default();
        (progress.items_backed_up, progress.total_items) = (done, total);
    }

    fn set_attempt(&mut self, attempt: u32) {
        note_attempt(&mut self.metadata, &mut self.status.attempt, attempt);
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

    fn set_attempt(&mut self, attempt: u32) {
        note_attempt(&mut self.metadata, &mut self.status.attempt, attempt);
    }
}

/// An attempt at the work on an object.
pub(super) struct Attempt<T> {
    /// Which one, from 1 on.
    pub(super) number: u32,
    /// The object as it is to be stored when the attempt begins; the attempt is noted in it.
    pub(super) started: T,
}

impl<T: Phased> Attempt<T> {
    /// Notes in an object that this attempt begins.
    pub(super) fn of(number: u32, mut started: T) -> Self {
        started.set_attempt(number);
        Self { number, started }
    }
}

/// The check that an operation makes before each irreversible act: this server is still the leader.
pub(super) fn fence(context: &Context) -> Fence {
    let leadership = context.leadership.clone();
    Arc::new(move || leadership.check().map_err(|lost| lost.to_string()))
}

/// The present state of an object that is worked on.
pub(super) enum Freshness<T> {
    /// The object is in the phase and the attempt that we know.
    Ours(T),
    /// Another actor brought it into another phase, or began another attempt.
    Changed,
    /// It was deleted; there may be another one of the name.
    Gone,
}

impl<T: Phased> Freshness<T> {
    /// Compares the object that we know with the one that is found under its name.
    fn of(known: &T, found: Option<T>) -> Self {
        match found {
            Some(found) if found.meta().uid == known.meta().uid => {
                if found.is_in_phase_of(known) && attempt(found.meta()) == attempt(known.meta()) {
                    Self::Ours(found)
                } else {
                    Self::Changed
                }
            }
            _ => Self::Gone,
        }
    }
}

pub(super) async fn look_again<T: Phased>(context: &Context, known: &T) -> Result<Freshness<T>, ClusterError> {
    Ok(Freshness::of(known, context.client.get(&known.meta().name).await?))
}

/// Changes the object as it is now; again when another actor was faster, as long as it is the one that we know, in the
/// phase that we know.
pub(super) async fn until_written<T: Phased>(
    context: &Context,
    known: &T,
    change: impl Fn(&mut T),
) -> Result<T, StepError> {
    let name = &known.meta().name;
    let because = |why: &str| StepError::Because(format!("{} {name} {why}", T::KIND));
    let to = |current: &T| match Freshness::of(known, Some(current.clone())) {
        Freshness::Ours(mut after) => {
            change(&mut after);
            Ok(Some(after))
        }
        Freshness::Changed => Err(because("was changed by another program meanwhile")),
        Freshness::Gone => Err(because("was deleted meanwhile")),
    };
    match Box::pin(context.client.change_as_it_is(name, to)).await? {
        ChangeResult::Made(stored) | ChangeResult::Nothing(stored) => Ok(stored),
        ChangeResult::Missing => Err(because("was deleted meanwhile")),
        ChangeResult::Conflicts(tries) => Err(because(&format!("was changed by others {tries} times meanwhile"))),
    }
}

/// Notes on an object that it is refused, by `refuse`, and why; `after` is the object as it would begin. Where the API
/// server refuses that, only the reasons are noted.
pub(super) async fn store_refusal<T: Phased>(
    context: &Context,
    before: &T,
    mut after: T,
    errors: Vec<String>,
    refuse: fn(&mut T, Vec<String>),
) -> Result<T, StepError> {
    refuse(&mut after, capped(errors.clone()));
    match context.client.change(before, &after).await {
        Err(e) if is_refused(&e) => {
            after = before.clone();
            refuse(&mut after, capped(errors.into_iter().chain([not_taken(&e)]).collect()));
            Ok(context.client.change(before, &after).await?)
        }
        stored => Ok(stored?),
    }
}

/// Leaves an operation to the next server. An attempt that ends because the server is told to stop, while it still leads,
/// does not count: a node that is drained is no defect of the operation.
pub(super) async fn leave_to_next_server<T: Phased>(context: &Context, current: &T) -> StepError {
    let what = format!("{} {} was left where it is", T::KIND, current.meta().name);
    if let Some(begun) = attempt(current.meta()).filter(|_| context.leadership.check().is_ok())
        && let Err(e) = until_written(context, current, |after| after.set_attempt(begun.saturating_sub(1))).await
    {
        tracing::warn!(error = %e, "{what}, and its attempt counts");
    }
    StepError::Because(what)
}

/// Runs an engine to its end and reports its progress meanwhile. Cancels it when the object is no longer ours to work
/// on, and when this server leads no more: the engine's writes into the cluster are not checked one by one.
pub(super) async fn watched<T: Phased, O>(
    context: &Context,
    current: &mut T,
    running: impl Future<Output = O>,
    progress: &Progress,
    cancel: &CancellationToken,
) -> O {
    let mut running = Box::pin(while_leading(&context.leadership, cancel, running));
    let mut ticks = interval(REPORT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        tokio::select! {
            outcome = &mut running => return outcome,
            _ = ticks.tick() => {}
        }
        let (done, total) = progress.get();
        // The engine goes on while this is written.
        tokio::select! {
            outcome = &mut running => return outcome,
            reported = report(context, current, done, total) => match reported {
                Ok(Some(stored)) => *current = stored,
                Ok(None) => cancel.cancel(),
                Err(e) => tracing::warn!(error = %e, "progress could not be reported"),
            },
        }
    }
}

/// Runs an operation to its end, and cancels it when the leadership ends before.
pub(super) async fn while_leading<O>(
    leadership: &Leadership,
    cancel: &CancellationToken,
    running: impl Future<Output = O>,
) -> O {
    let mut running = std::pin::pin!(running);
    tokio::select! {
        outcome = &mut running => return outcome,
        () = leadership.until_ended() => cancel.cancel(),
    }
    running.await
}

/// Writes the progress; `None` when the object is no longer ours to work on.
async fn report<T: Phased>(context: &Context, current: &T, done: u64, total: u64) -> Result<Option<T>, ClusterError> {
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let mut after = current.clone();
    after.set_progress(count(done), count(total));
    match context.client.change(current, &after).await {
        Ok(stored) => Ok(Some(stored)),
        Err(e) if e.is_conflict() => Ok(match look_again(context, current).await? {
            Freshness::Ours(current) => Some(current),
            Freshness::Changed | Freshness::Gone => None,
        }),
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_under_way_ends_with_the_leadership() {
        let (leadership, cancel) = (Leadership::for_ever(), CancellationToken::new());
        let losing = async {
            sleep(Duration::from_secs(5)).await;
            assert!(!cancel.is_cancelled());
            leadership.lose();
        };
        let restore = async {
            cancel.cancelled().await;
            "what was done"
        };
        let both = async { tokio::join!(while_leading(&leadership, &cancel, restore), losing).0 };
        assert_eq!(tokio::time::timeout(Duration::from_secs(6), both).await, Ok("what was done"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_that_hangs_holds_what_is_cancelled_for_seconds_only() {
        let seconds = Duration::from_secs;
        for (cancelled, cancelled_after, expected) in
            [(true, 100, 4), (false, 0, 4), (false, 30, 34), (false, 58, 60), (false, 100, 60)]
        {
            let (begun, stop) = (tokio::time::Instant::now(), CancellationToken::new());
            let hanging = async {
                assert!(recorded(cancelled, &stop, std::future::pending::<()>()).await.is_err());
                begun.elapsed()
            };
            let cancelling = async {
                sleep(seconds(cancelled_after)).await;
                stop.cancel();
            };
            assert_eq!(tokio::join!(hanging, cancelling).0, seconds(expected), "{cancelled} {cancelled_after}");
        }
        assert_eq!(recorded(true, &CancellationToken::new(), sleep(seconds(3))).await, Ok(()));
    }

    #[test]
    fn an_object_holds_what_is_said_of_it() {
        let few = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(capped(few.clone()), few);
        let many = capped(vec!["x".repeat(1000); 250]);
        assert_eq!((many.len(), many[100].as_str()), (101, "and 150 more"));
        let long = capped(vec!["é".repeat(100_000)]);
        assert_eq!(long, ["é".repeat(25_000) + "…"]);
    }
}
