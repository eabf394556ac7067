//! Existence checks of the first levels, made while the archive is still being read, and the time for which their
//! results count.

use crate::state::item_result::{HandledItem, ItemResult};
use crate::walk::existence::{ExistenceLookup, ExistingObjects, ListScopes};
use crate::walk::levels::Level;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Levels are looked at ahead while they have no more objects than this together; the first one always is. What is seen
/// stays in memory until the last of them has come, or something is written.
const AHEAD: usize = 100_000;
/// Longest time for the look ahead; longer than the retries of one list that fails. Levels that have not answered by
/// then are listed again when their turn comes.
const LOOK_FOR: Duration = Duration::from_secs(240);
/// Time for which results count after the look ahead: other clients write to the cluster, too.
const FRESH_FOR: Duration = Duration::from_secs(30);

/// Objects of upcoming levels that were found in the cluster while the archive was still being read.
#[derive(Debug, Default)]
pub(crate) struct Prefetch {
    /// Names of the levels.
    levels: BTreeSet<String>,
    presence: Arc<ExistingObjects>,
    /// When the look ended.
    ended: Option<Instant>,
}

/// The results of the look ahead for one level.
#[derive(Clone, Debug)]
pub(crate) struct PrefetchedState {
    presence: Arc<ExistingObjects>,
    counts_until: Instant,
}

impl PrefetchedState {
    /// The namespaces of which something was seen.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.presence.namespaces()
    }

    /// Returns the results, unless they are too old.
    pub(crate) fn still_counts(self) -> Option<Arc<ExistingObjects>> {
        (Instant::now() < self.counts_until).then_some(self.presence)
    }
}

impl Prefetch {
    /// Looks at the first levels that are worth it, before anything is written.
    pub(crate) async fn look(lookup: &ExistenceLookup<'_>, levels: Vec<Level>) -> Self {
        let levels = levels.into_iter().map(|level| (lookup.places(&level), level.items.len(), level.name));
        let chosen = worth_a_look(levels);
        let all = chosen.values().flatten().map(|(place, count)| (place.clone(), *count)).collect();
        let presence = lookup.look(all, LOOK_FOR).await;
        let levels =
            chosen.into_iter().filter(|(_, places)| presence.has_answers(places)).map(|(name, _)| name).collect();
        Self { levels, presence: Arc::new(presence), ended: Some(Instant::now()) }
    }

    /// Drops levels that are not restored: filters by label, which only the objects themselves tell, may leave out a
    /// whole level.
    pub(crate) fn keep(&mut self, levels: &[Level]) {
        self.levels.retain(|name| levels.iter().any(|level| level.name == *name));
        self.forget_when_none_is_left();
    }

    /// Takes the results for this level, once; `None` when it was not looked at, or not completely. A list that failed
    /// was tried for long enough, and one that is far too long is not worth reading: neither is read again, and its
    /// objects are unknown.
    pub(crate) fn take(&mut self, level: &str) -> Option<PrefetchedState> {
        let counts_until = self.ended.filter(|_| self.levels.remove(level)).map(|ended| ended + FRESH_FOR);
        let prefetched =
            counts_until.map(|counts_until| PrefetchedState { presence: Arc::clone(&self.presence), counts_until });
        self.forget_when_none_is_left();
        prefetched
    }

    /// Drops the results once one of these objects may have been written.
    pub(crate) fn forget_after(&mut self, done: &[HandledItem]) {
        if !self.levels.is_empty()
            && done.iter().any(|one| !matches!(one.action, ItemResult::Skipped | ItemResult::Differs))
        {
            *self = Self::default();
        }
    }

    fn forget_when_none_is_left(&mut self) {
        if self.levels.is_empty() {
            *self = Self::default();
        }
    }
}

/// Of levels with their places and how many objects they have: those to look at ahead, with their places.
fn worth_a_look(levels: impl IntoIterator<Item = (ListScopes, usize, String)>) -> BTreeMap<String, ListScopes> {
    let mut chosen: BTreeMap<String, ListScopes> = BTreeMap::new();
    let mut objects = 0;
    for (places, count, name) in levels.into_iter().filter(|(places, ..)| !places.is_empty()) {
        objects += count;
        if objects > AHEAD && !chosen.is_empty() {
            break;
        }
        // Two levels may have one name: Services come in two parts.
        chosen.entry(name).or_default().extend(places);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::existence::ListScope;
    use crate::walk::read::{Facts, StateDigest};
    use lifeboat_object::GroupResource;
    use tokio::time::advance;

    fn place(resource: &str) -> ListScope {
        (GroupResource::new("", resource), Some("n".to_owned()))
    }

    #[test]
    fn the_first_levels_are_looked_at_ahead() {
        let level = |name: &str, count: usize| (ListScopes::from([(place(name), count)]), count, name.to_owned());
        let few = (ListScopes::new(), 3, "few".to_owned());
        for (levels, expected) in [
            (vec![few.clone()], vec![]),
            (vec![few, level("a", 1), level("b", 2)], vec![("a", 1), ("b", 2)]),
            (vec![level("a", AHEAD - 1), level("b", 2), level("c", 1)], vec![("a", AHEAD - 1)]),
            (vec![level("a", AHEAD + 1), level("b", 1)], vec![("a", AHEAD + 1)]),
        ] {
            let expected =
                expected.iter().map(|(name, count)| ((*name).to_owned(), ListScopes::from([(place(name), *count)])));
            assert_eq!(worth_a_look(levels), expected.collect());
        }
    }

    fn ahead() -> Prefetch {
        let levels = ["a", "b"].map(str::to_owned).into();
        Prefetch { levels, presence: Arc::default(), ended: Some(Instant::now()) }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_seen_ahead_counts_once_and_for_a_while() {
        let mut seen = ahead();
        let first = seen.take("a");
        let again = ["a", "c"].map(|name| seen.take(name).is_some());
        assert_eq!((first.is_some(), again), (true, [false, false]), "the second time, and one that nobody looked at");
        advance(FRESH_FOR - Duration::from_millis(1)).await;
        let counts = |prefetched: Option<PrefetchedState>| prefetched.and_then(PrefetchedState::still_counts).is_some();
        assert!(counts(seen.take("b")) && counts(first.clone()));
        advance(Duration::from_millis(1)).await;
        assert!(!counts(first), "a level may wait between the look and the use of it");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_seen_ahead_counts_until_something_is_written() {
        let done = |action| [HandledItem { row: 0, action }];
        for (action, counts) in [
            (ItemResult::Skipped, true),
            (ItemResult::Created, false),
            (ItemResult::Updated, false),
            (ItemResult::Failed, false),
        ] {
            let mut seen = ahead();
            seen.forget_after(&done(action));
            assert_eq!(seen.take("b").is_some(), counts, "{action:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_stays_in_memory_for_levels_that_do_not_come() {
        let level = |name: &str| Level {
            name: name.to_owned(),
            items: vec![Facts { row: 0, early: false, ended: false, state: StateDigest::default() }],
        };
        let mut seen = ahead();
        let weak = Arc::downgrade(&seen.presence);
        seen.keep(&[level("b"), level("d")]);
        assert!(seen.take("a").is_none() && weak.upgrade().is_some());
        assert!(seen.take("b").is_some() && weak.upgrade().is_none());
    }
}
