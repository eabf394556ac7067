//! Collects what objects wait for, in a plan that explains.

use crate::server::key::{Key, Subject};
use crate::server::wait::{Reason, Wait};
use crate::world::World;
use lifeboat_reconcile::TaskKey;
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::Instant;

/// The reason for which a step cannot begin.
#[derive(Clone, Copy, Debug)]
pub(super) enum NotYet {
    /// The same thing is worked on.
    Taken,
    /// It is too early after a failure.
    Early(Instant),
    /// Too many of its kind run.
    Full,
}

/// A reason for each object: the one that says most, and of several the first.
#[derive(Debug, Default)]
pub(super) struct Waits(BTreeMap<Subject, Reason>);

impl Waits {
    pub(super) fn add(&mut self, subject: Subject, why: Reason) {
        let is_known = self.0.get(&subject).is_some_and(|known| known.rank() <= why.rank());
        if !is_known {
            self.0.insert(subject, why);
        }
    }

    /// The reasons of objects that exist and for which nothing begins. Running work goes before all other reasons.
    pub(super) fn of<'k>(
        mut self,
        begun: impl Iterator<Item = &'k Key>,
        running: impl Iterator<Item = &'k Key>,
        world: &World,
    ) -> Vec<Wait> {
        for key in running {
            let (object, subject) = (key.object(), key.subject());
            if object != subject {
                self.0.insert(subject, Reason::Excluded(key.clone()));
            }
            self.0.insert(object, Reason::Runs(key.clone()));
        }
        let begun: BTreeSet<Subject> = begun.map(Key::object).collect();
        let waits = self.0.into_iter().filter(|(subject, _)| subject.is_there(world) && !begun.contains(subject));
        waits.map(|(subject, why)| Wait { subject, why }).collect()
    }
}
