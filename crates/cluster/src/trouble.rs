//! Decides since when requests that belong together count as failing, which limits how long they are tried again.

use crate::Failure;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The time after which a refusal says nothing of what comes, where others went well meanwhile.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30);

/// Since when requests that belong together fail, with none that went well all the same.
#[derive(Debug, Default)]
pub(crate) struct Trouble(Mutex<Since>);

#[derive(Debug, Default)]
struct Since {
    /// Since when the server answers with errors.
    refused: Option<Refusals>,
    /// Since when it does not answer.
    silent: Option<Instant>,
}

/// Errors that the server has answered with, none of them followed by success.
#[derive(Clone, Copy, Debug)]
struct Refusals {
    first: Instant,
    last: Instant,
    /// Set when other requests succeeded after the last refusal.
    others_went_well: bool,
}

impl Refusals {
    /// Says whether they are too old to say anything of what comes.
    fn are_over(&self, now: Instant) -> bool {
        self.others_went_well && now.duration_since(self.last) > FORGOTTEN_AFTER
    }
}

impl Trouble {
    /// Since when requests fail like this one does now.
    pub(crate) fn since(&self, failure: &Failure) -> Instant {
        let (mut since, now) = (self.lock(), Instant::now());
        if !matches!(failure, Failure::Api(_)) {
            return *since.silent.get_or_insert(now);
        }
        since.silent = None;
        let first = since.refused.filter(|before| !before.are_over(now)).map_or(now, |before| before.first);
        since.refused = Some(Refusals { first, last: now, others_went_well: false });
        first
    }

    /// Notes that the server has carried one out, or refused it for good, after this failure.
    pub(crate) fn passed(&self, before: Option<&Failure>) {
        let mut since = self.lock();
        since.silent = None;
        if matches!(before, Some(Failure::Api(_))) {
            since.refused = None;
        }
        if let Some(refusals) = &mut since.refused {
            refusals.others_went_well = true;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Since> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApiStatus;
    use tokio::time::advance;

    const SECOND: Duration = Duration::from_secs(1);

    fn refusal() -> Failure {
        Failure::Api(Box::new(ApiStatus { code: 503, ..ApiStatus::default() }))
    }

    #[tokio::test(start_paused = true)]
    async fn silence_counts_from_the_first_request_without_answer_until_any_answer() {
        let (trouble, begun) = (Trouble::default(), Instant::now());
        let silence = Failure::Timeout(SECOND);
        assert_eq!(trouble.since(&silence), begun);
        advance(40 * SECOND).await;
        assert_eq!(trouble.since(&silence), begun);
        // A refusal is an answer.
        assert_eq!(trouble.since(&refusal()), begun + 40 * SECOND);
        advance(SECOND).await;
        assert_eq!(trouble.since(&silence), begun + 41 * SECOND);
        trouble.passed(None);
        advance(SECOND).await;
        assert_eq!(trouble.since(&silence), begun + 42 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_count_until_one_of_the_refused_goes_well() {
        let (trouble, begun) = (Trouble::default(), Instant::now());
        trouble.since(&refusal());
        advance(SECOND).await;
        assert_eq!(trouble.since(&refusal()), begun);
        trouble.passed(Some(&refusal()));
        assert_eq!(trouble.since(&refusal()), begun + SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_are_forgotten_after_half_a_minute_in_which_others_went_well() {
        let begun = Instant::now();
        for (others_go_well, seconds, expected) in [(true, 31, 31), (true, 30, 0), (false, 31, 0)] {
            let trouble = Trouble::default();
            let first = trouble.since(&refusal());
            if others_go_well {
                trouble.passed(None);
            }
            advance(seconds * SECOND).await;
            assert_eq!(trouble.since(&refusal()) - first, expected * SECOND, "{others_go_well} {seconds}");
        }
        assert!(Instant::now() > begun);
    }
}
