//! What was seen of levels while the archive was still being read, and how long that counts.

use crate::check::{Lookout, Place, Presence};
use crate::item::{Action, Done};
use crate::plan::Level;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Levels are looked at ahead while they have no more objects than this together; the first one always is. What is seen
/// stays in memory until the last of them has come, or something is written.
const AHEAD: usize = 100_000;

/// Of levels with their places and how many objects they have: those to look at ahead, and all their places.
fn worth_a_look(levels: impl IntoIterator<Item = (Vec<Place>, usize, String)>) -> (BTreeSet<String>, Vec<Place>) {
    let (mut names, mut all) = (BTreeSet::new(), Vec::new());
    let mut objects = 0;
    for (places, count, name) in levels.into_iter().filter(|(places, ..)| !places.is_empty()) {
        objects += count;
        if objects > AHEAD && !names.is_empty() {
            break;
        }
        names.insert(name);
        all.extend(places);
    }
    (names, all)
}

/// What was seen while the archive was still being read, of levels that are to come.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// Names of the levels.
    levels: BTreeSet<String>,
    presence: Arc<Presence>,
}

impl Ahead {
    /// Looks at the first levels that are worth it, before anything is written.
    pub(crate) async fn look(lookout: &Lookout<'_>, levels: Vec<Level>) -> Self {
        let levels = levels.into_iter().map(|level| (lookout.places(&level), level.items.len(), level.name));
        let (levels, places) = worth_a_look(levels);
        Self { levels, presence: Arc::new(lookout.look(places).await) }
    }

    /// What was seen of this level, once.
    pub(crate) fn take(&mut self, level: &str) -> Option<Arc<Presence>> {
        let presence = self.levels.remove(level).then(|| Arc::clone(&self.presence));
        if self.levels.is_empty() {
            self.presence = Arc::default();
        }
        presence
    }

    /// Forgets what was seen, once one of these objects may have been written.
    pub(crate) fn forget_after(&mut self, done: &[Done]) {
        if !self.levels.is_empty() && done.iter().any(|one| one.action != Action::Skipped) {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::GroupResource;

    #[test]
    fn the_first_levels_are_looked_at_ahead() {
        let place = |resource: &str| (GroupResource::new("", resource), Some("n".to_owned()));
        let level = |name: &str, count: usize| (vec![place(name)], count, name.to_owned());
        let few = (Vec::new(), 3, "few".to_owned());
        for (levels, expected) in [
            (vec![few.clone()], vec![]),
            (vec![few, level("a", 1), level("b", 2)], vec!["a", "b"]),
            (vec![level("a", AHEAD - 1), level("b", 2), level("c", 1)], vec!["a"]),
            (vec![level("a", AHEAD + 1), level("b", 1)], vec!["a"]),
        ] {
            let (names, places) = worth_a_look(levels);
            assert_eq!(names, expected.iter().map(|name| (*name).to_owned()).collect());
            assert_eq!(places, expected.iter().map(|name| place(name)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_was_seen_ahead_counts_once_and_until_something_is_written() {
        let done = |action| [Done { row: 0, action }];
        let ahead = || {
            let mut ahead = Ahead { levels: ["a", "b"].map(str::to_owned).into(), presence: Arc::default() };
            (ahead.take("a").is_some(), ahead.take("a").is_some(), ahead)
        };
        for (action, counts) in
            [(Action::Skipped, true), (Action::Created, false), (Action::Updated, false), (Action::Failed, false)]
        {
            let (first, again, mut ahead) = ahead();
            ahead.forget_after(&done(action));
            assert_eq!((first, again, ahead.take("b").is_some()), (true, false, counts), "{action:?}");
        }
    }
}
