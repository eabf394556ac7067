//! The maintenance Jobs that run, as far as this server has seen: so that not all repositories are maintained at once.

use jiff::{SignedDuration, Timestamp};
use lifeboat_api::NamespacedName;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The most Jobs at once.
const MOST: usize = 4;
/// A Job that was not seen for so long does not count any more: its repository is gone, or left alone since.
const FORGOTTEN: SignedDuration = SignedDuration::from_mins(1);

/// Repositories whose Jobs run, and when each was last seen.
#[derive(Debug, Default)]
pub(crate) struct RunningJobs(Mutex<BTreeMap<NamespacedName, Timestamp>>);

impl RunningJobs {
    /// Notes that the Job of a repository runs.
    pub(crate) fn saw(&self, repository: NamespacedName, now: Timestamp) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(repository, now);
    }

    /// Notes that none runs for a repository.
    pub(crate) fn ended(&self, repository: &NamespacedName) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(repository);
    }

    /// Takes a place for the Job of a repository; false when there is none left.
    pub(crate) fn take_place(&self, repository: NamespacedName, now: Timestamp) -> bool {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|_, seen| now.duration_since(*seen) < FORGOTTEN);
        let has_place = running.len() < MOST || running.contains_key(&repository);
        if has_place {
            running.insert(repository, now);
        }
        has_place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::named;

    #[test]
    fn four_repositories_are_maintained_at_once_and_the_others_wait() {
        let running = RunningJobs::default();
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let take = |name: &str, second| running.take_place(named(name), at(second));
        assert_eq!(["a", "b", "c", "d", "e", "a"].map(|name| take(name, 0)), [true, true, true, true, false, true]);
        running.ended(&named("b"));
        assert_eq!(["e", "b"].map(|name| take(name, 1)), [true, false]);
        // The others were not seen for a minute.
        running.saw(named("a"), at(50));
        assert_eq!(["f", "g", "h", "i"].map(|name| take(name, 70)), [true, true, true, false]);
    }
}
