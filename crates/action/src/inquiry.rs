//! Asks the actions for the progress of their asynchronous operations, and judges the answers
//! (velero: pkg/controller/backup_operations_controller.go).

use crate::{ActionError, ActionErrorKind, OperationProgress};
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{OperationPhase, OperationStatus, Time};
use lifeboat_operation::Journal;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Operations that are asked for at once.
const AT_ONCE: usize = 8;
/// Time during which one round begins new questions. After it the answers are stored, and a cancellation is noticed.
const ROUND: Duration = Duration::from_secs(60);
/// Time limit for one answer of an action, to a question for the progress or to a cancellation.
const ANSWER: Duration = Duration::from_secs(30);
/// Time limit of an operation whose backup or restore sets none.
const DEFAULT_TIMEOUT: SignedDuration = SignedDuration::from_hours(4);
/// The longest time without bytes that are moved, for an operation whose time is over.
pub const LONGEST_IDLE: SignedDuration = SignedDuration::from_mins(30);
/// The longest time, after that of the operation, for which one that moves bytes goes on while nobody can be asked how far it is.
const UNREACHED: SignedDuration = SignedDuration::from_hours(24);
/// Error in the status of an operation whose time is over; the words are Velero's.
const TIMED_OUT: &str = "Asynchronous action timed out";

/// An operation that has not ended, and how long it may go on.
#[derive(Clone, Debug)]
pub struct Inquiry {
    /// The status that is known from before.
    pub before: OperationStatus,
    /// The time.
    pub now: Timestamp,
    /// Time limit, from the call of the action that has begun the operation; zero for four hours.
    pub within: SignedDuration,
    /// True when the user has cancelled the backup or restore of the operation: then it ends now.
    pub is_cancelled: bool,
    /// True when the action says by the time of its answer when bytes were last moved. As long as they are, the operation goes on past its time.
    pub reports_movement: bool,
}

/// The new status of an operation, after its action was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InquiryResult {
    /// The status; the operation has ended when the phase is one of an end.
    pub status: OperationStatus,
    /// The reason, if it can pass, for which the action could not tell the progress. The action is to be asked again.
    pub trouble: Option<String>,
}

impl InquiryResult {
    /// Writes into the log what there is to say of the operation of an action: that it has failed, or could not be asked.
    pub fn tell(&self, action: &str, operation: &str, journal: &Journal) {
        let (message, why) = match &self.trouble {
            Some(trouble) => ("An operation could not be asked how far it is, and will be again", ("why", trouble)),
            None if self.status.phase == Some(OperationPhase::Failed) => {
                ("An operation has failed", ("error", &self.status.error))
            }
            None => return,
        };
        journal.info(message, &[("action", action), ("operation", operation), (why.0, why.1)]);
    }
}

/// Asks for operations by these calls, eight at once and for a minute at most. Gives what each of them gives, in their order;
/// `None` of those whose turn did not come. `first` says with which of them it begins, so that those do not wait for ever that
/// come behind ones that hang.
pub async fn ask_all(calls: Vec<BoxFuture<'_, Option<InquiryResult>>>, first: Timestamp) -> Vec<Option<InquiryResult>> {
    let end = Instant::now() + ROUND;
    let count = calls.len();
    let mut turns: Vec<(usize, BoxFuture<'_, Option<InquiryResult>>)> = calls.into_iter().enumerate().collect();
    if count > 0 {
        turns.rotate_left(usize::try_from(first.as_second()).unwrap_or(0) % count);
    }
    let mut answers: Vec<Option<InquiryResult>> = (0..count).map(|_| None).collect();
    let (mut turns, mut asking) = (turns.into_iter(), FuturesUnordered::new());
    loop {
        while asking.len() < AT_ONCE
            && Instant::now() < end
            && let Some((number, call)) = turns.next()
        {
            asking.push(call.map(move |answer| (number, answer)).boxed());
        }
        match asking.next().await {
            None => return answers,
            Some((number, answer)) => {
                if let Some(place) = answers.get_mut(number) {
                    *place = answer;
                }
            }
        }
    }
}

/// Numbers of operations that have completed, have failed, or go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationCounts {
    /// Operations that have ended well.
    pub completed: i64,
    /// Operations that have failed.
    pub failed: i64,
    /// Operations that go on.
    pub waiting: i64,
}

impl OperationCounts {
    /// Counts operations.
    pub fn of<'a>(operations: impl Iterator<Item = &'a OperationStatus>) -> Self {
        let mut out = Self::default();
        for status in operations {
            *match status.phase {
                Some(OperationPhase::Completed) => &mut out.completed,
                Some(OperationPhase::Failed) => &mut out.failed,
                _ => &mut out.waiting,
            } += 1;
        }
        out
    }
}

impl Inquiry {
    /// Asks the action by `progress`. When the operation should end and has not, `cancel` tells the action so, and the
    /// operation counts as failed whatever the action answers. Both calls have a deadline of 30 seconds.
    pub async fn ask<P, C>(self, progress: P, cancel: C) -> InquiryResult
    where
        P: Future<Output = Result<OperationProgress, ActionError>>,
        C: Future<Output = Result<(), ActionError>>,
    {
        let (mut status, mut moved) = (self.before.clone(), None);
        let trouble = match answered(progress).await {
            Ok(progress) => {
                let (has_ended, error) = (progress.completed, progress.error.clone());
                moved = progress.updated;
                take(&mut status, progress, self.now);
                match (has_ended, error.is_empty()) {
                    (true, true) => return self.ended(status, OperationPhase::Completed, String::new()),
                    (true, false) => return self.ended(status, OperationPhase::Failed, error),
                    (false, _) => None,
                }
            }
            Err(e) if matches!(e.kind, ActionErrorKind::Passing | ActionErrorKind::Gone) => Some(e.message),
            Err(e) => return self.ended(status, OperationPhase::Failed, e.message),
        };
        let Some(mut why) = self.over(moved, trouble.is_some()) else {
            if status.started.is_some() || status.phase.is_none() {
                status.phase = Some(status.started.map_or(OperationPhase::New, |_| OperationPhase::InProgress));
            }
            return InquiryResult { status, trouble };
        };
        if let Some(trouble) = trouble {
            why = format!("{why}; when it was asked for its progress: {trouble}");
        }
        if let Err(e) = answered(cancel).await {
            why = format!("{why}; it could not be told to end: {e}");
        }
        self.ended(status, OperationPhase::Failed, why)
    }

    /// The reason for which the operation may not go on: cancelled, or out of time. `moved` is the time that the action has told.
    fn over(&self, moved: Option<Timestamp>, is_unreached: bool) -> Option<String> {
        if self.is_cancelled {
            return Some("cancelled on request".to_owned());
        }
        let created = self.before.created.map(Time::timestamp);
        let within = if self.within.is_zero() { DEFAULT_TIMEOUT } else { self.within };
        let end = created.and_then(|created| created.checked_add(within).ok());
        let is_late = end.is_none_or(|end| end < self.now);
        let is_within = |limit: SignedDuration, since: Timestamp| self.now.duration_since(since) < limit;
        let moves = match moved {
            Some(moved) => is_within(LONGEST_IDLE, moved),
            None => is_unreached && end.is_some_and(|end| is_within(UNREACHED, end)),
        };
        (is_late && !(self.reports_movement && moves)).then(|| TIMED_OUT.to_owned())
    }

    fn ended(&self, mut status: OperationStatus, phase: OperationPhase, error: String) -> InquiryResult {
        (status.phase, status.error, status.updated) = (Some(phase), error, Some(Time::new(self.now)));
        InquiryResult { status, trouble: None }
    }
}

/// Takes over what an action says.
fn take(status: &mut OperationStatus, progress: OperationProgress, now: Timestamp) {
    (status.n_completed, status.n_total) = (progress.n_completed, progress.n_total);
    (status.operation_units, status.description) = (progress.operation_units, progress.description);
    status.started = progress.started.map(Time::new).or(status.started);
    status.updated = Some(Time::new(progress.updated.unwrap_or(now)));
}

async fn answered<T>(call: impl Future<Output = Result<T, ActionError>>) -> Result<T, ActionError> {
    let silent = || ActionError::passing(format!("it did not answer within {} s", ANSWER.as_secs()));
    timeout(ANSWER, call).await.unwrap_or_else(|_| Err(silent()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// Created at noon; it is asked an hour later.
    fn follow(minutes: i64, is_cancelled: bool) -> Inquiry {
        let created = Some(Time::new(time("2026-11-22T12:00:00Z")));
        let before = OperationStatus { phase: Some(OperationPhase::New), created, ..OperationStatus::default() };
        let (now, within) = (time("2026-11-22T13:00:00Z"), SignedDuration::from_mins(minutes));
        Inquiry { before, now, within, is_cancelled, reports_movement: false }
    }

    fn runs() -> OperationProgress {
        let started = Some(time("2026-11-22T12:01:00Z"));
        OperationProgress {
            n_completed: 3,
            n_total: 7,
            operation_units: "Bytes".to_owned(),
            started,
            ..Default::default()
        }
    }

    /// The phase, the error and the trouble.
    async fn asked(
        follow: Inquiry,
        progress: Result<OperationProgress, ActionError>,
        cancel: Result<(), ActionError>,
    ) -> (OperationPhase, String, Option<String>) {
        let followed = follow.ask(ready(progress), ready(cancel)).await;
        (followed.status.phase.unwrap(), followed.status.error, followed.trouble)
    }

    #[tokio::test]
    async fn an_answer_says_how_an_operation_goes_on() {
        use OperationPhase::{Completed, Failed, InProgress, New};
        let ended = |error: &str| OperationProgress { completed: true, error: error.to_owned(), ..runs() };
        let not_begun = || OperationProgress { started: None, ..runs() };
        let late = "Asynchronous action timed out";
        for (follow, progress, cancel, expected) in [
            (follow(60, false), Ok(runs()), Ok(()), (InProgress, "", None)),
            (follow(60, false), Ok(not_begun()), Ok(()), (New, "", None)),
            (follow(59, false), Ok(runs()), Ok(()), (Failed, late, None)),
            (follow(0, false), Ok(runs()), Ok(()), (InProgress, "", None)),
            (follow(0, true), Ok(ended("")), Ok(()), (Completed, "", None)),
            (follow(60, false), Ok(ended("no space")), Ok(()), (Failed, "no space", None)),
            (follow(60, true), Ok(runs()), Ok(()), (Failed, "cancelled on request", None)),
            (
                follow(60, true),
                Ok(runs()),
                Err(ActionError::item("not now")),
                (Failed, "cancelled on request; it could not be told to end: not now", None),
            ),
            (follow(60, false), Err(ActionError::passing("busy")), Ok(()), (New, "", Some("busy"))),
            (follow(60, false), Err(ActionError::gone("killed")), Ok(()), (New, "", Some("killed"))),
            (
                follow(59, false),
                Err(ActionError::passing("busy")),
                Ok(()),
                (Failed, "Asynchronous action timed out; when it was asked for its progress: busy", None),
            ),
            (follow(60, false), Err(ActionError::item("unknown")), Ok(()), (Failed, "unknown", None)),
            (follow(60, false), Err(ActionError::fatal("no licence")), Ok(()), (Failed, "no licence", None)),
        ] {
            let (phase, error, trouble) = expected;
            let expected = (phase, error.to_owned(), trouble.map(str::to_owned));
            assert_eq!(asked(follow, progress, cancel).await, expected);
        }
    }

    #[tokio::test]
    async fn an_operation_that_moves_bytes_goes_on_past_its_time() {
        use OperationPhase::{Failed, InProgress, New};
        let moved = |at: &str| OperationProgress { updated: Some(time(at)), ..runs() };
        let own = |is_cancelled: bool| Inquiry { reports_movement: true, ..follow(1, is_cancelled) };
        let late = "Asynchronous action timed out";
        for (follow, progress, expected) in [
            (own(false), Ok(moved("2026-11-22T12:30:01Z")), (InProgress, "", None)),
            (own(false), Ok(moved("2026-11-22T12:30:00Z")), (Failed, late, None)),
            (own(true), Ok(moved("2026-11-22T12:59:00Z")), (Failed, "cancelled on request", None)),
            // Nobody has told when bytes were moved.
            (own(false), Ok(runs()), (Failed, late, None)),
            (follow(1, false), Ok(moved("2026-11-22T12:59:00Z")), (Failed, late, None)),
            // It will be known when the cluster answers again.
            (own(false), Err(ActionError::passing("busy")), (New, "", Some("busy"))),
        ] {
            let (phase, error, trouble) = expected;
            let expected = (phase, error.to_owned(), trouble.map(str::to_owned));
            assert_eq!(asked(follow, progress, Ok(())).await, expected);
        }
        let days = Inquiry { now: time("2026-11-23T12:01:00Z"), ..own(false) };
        let (phase, ..) = asked(days, Err(ActionError::passing("busy")), Ok(())).await;
        assert_eq!(phase, Failed);
    }

    #[tokio::test]
    async fn what_an_action_says_is_kept() {
        let followed = follow(60, false).ask(ready(Ok(runs())), ready(Ok(()))).await;
        let expected = OperationStatus {
            phase: Some(OperationPhase::InProgress),
            n_completed: 3,
            n_total: 7,
            operation_units: "Bytes".to_owned(),
            created: follow(60, false).before.created,
            started: Some(Time::new(time("2026-11-22T12:01:00Z"))),
            updated: Some(Time::new(time("2026-11-22T13:00:00Z"))),
            ..OperationStatus::default()
        };
        assert_eq!(followed, InquiryResult { status: expected, trouble: None });
    }

    #[tokio::test(start_paused = true)]
    async fn an_action_that_hangs_is_asked_again_until_the_time_is_over() {
        let followed = follow(60, false).ask(pending(), pending()).await;
        let expected = Some("it did not answer within 30 s".to_owned());
        assert_eq!((followed.status.phase, followed.trouble), (Some(OperationPhase::New), expected));
        let followed = follow(59, false).ask(pending(), pending()).await;
        let silent = "it did not answer within 30 s";
        let expected = format!(
            "Asynchronous action timed out; when it was asked for its progress: {silent}; it could not be told to end: {silent}"
        );
        assert_eq!((followed.status.phase, followed.status.error), (Some(OperationPhase::Failed), expected));
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_ends_although_questions_hang_and_the_next_begins_elsewhere() {
        let begun = Instant::now();
        let answer = |status: &OperationStatus| Some(InquiryResult { status: status.clone(), trouble: None });
        let status = OperationStatus::default();
        let round = |first: &str| {
            let calls: Vec<BoxFuture<'_, Option<InquiryResult>>> = (0..40)
                .map(|number| -> BoxFuture<'_, Option<InquiryResult>> {
                    let status = status.clone();
                    Box::pin(async move {
                        if number < 32 {
                            tokio::time::sleep(ANSWER).await;
                        }
                        answer(&status)
                    })
                })
                .collect();
            ask_all(calls, time(first))
        };
        let answered = |answers: Vec<Option<InquiryResult>>| -> Vec<usize> {
            answers.iter().enumerate().filter(|(_, answer)| answer.is_some()).map(|(number, _)| number).collect()
        };
        // Eight at once, half a minute each: two rounds of them, and no third one.
        assert_eq!(answered(round("1970-01-01T00:00:00Z").await), (0..16).collect::<Vec<_>>());
        assert_eq!(begun.elapsed(), ROUND);
        let behind = answered(round("1970-01-01T00:00:32Z").await);
        assert_eq!(behind, (0..16).chain(32..40).collect::<Vec<_>>());
    }
}
