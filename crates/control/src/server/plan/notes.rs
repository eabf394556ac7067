//! Notes why nothing begins with an object.

use super::Planner;
use super::waits::NotYet;
use crate::server::key::{Key, Subject};
use crate::server::wait::Reason;
use crate::unreadable_step;
use lifeboat_reconcile::TaskKey;

impl Planner<'_> {
    /// Notes what an object waits for, in a plan that explains.
    pub(super) fn note(&mut self, wait: impl FnOnce(&Self) -> (Subject, Reason)) {
        if let Some(mut waits) = self.waits.take() {
            let (subject, why) = wait(self);
            waits.add(subject, why);
            self.waits = Some(waits);
        }
    }

    /// Notes, in a plan that explains, the objects that the server leaves alone though they are not at their end: those that
    /// are being deleted, and those that cannot even be refused.
    pub(super) fn note_left_alone(&mut self) {
        if self.waits.is_none() {
            return;
        }
        let world = self.view.world;
        for (kind, meta) in world.deleted() {
            let finalizers = meta.finalizers.clone();
            self.note(|_| (Subject::of(kind, meta.key()), Reason::Deleted { finalizers }));
        }
        for (kind, object) in world.unreadable().filter(|(kind, _)| !unreadable_step::is_refused(*kind)) {
            let why = object.why.clone();
            self.note(|_| (Subject::of(kind, object.meta.key()), Reason::Unreadable(why)));
        }
    }

    /// Notes that this step cannot begin.
    pub(super) fn note_not_yet(&mut self, key: &Key, why: NotYet) {
        self.note(|planner| (key.object(), planner.reason(key, why)));
    }

    fn reason(&self, key: &Key, why: NotYet) -> Reason {
        match why {
            NotYet::Taken => self.taken_by(key),
            NotYet::Early(until) => match self.failure(key) {
                Some(failure) if failure.count > 0 => Reason::Failed { times: failure.count, until },
                _ => Reason::Paused(until),
            },
            NotYet::Full => {
                let (run, most) = self.places.taken(key, self.is_late(key));
                Reason::NoPlace { run, most }
            }
        }
    }

    /// The work on the same thing: that of a task, or of a step of this plan.
    fn taken_by(&self, key: &Key) -> Reason {
        let subject = key.subject();
        let planned = || self.plan.work.iter().map(|work| &work.key).find(|other| other.subject() == subject);
        match self.runs(&subject) {
            Some(running) if running.object() == key.object() => Reason::Runs(running.clone()),
            Some(running) => Reason::Excluded(running.clone()),
            None => Reason::Excluded(planned().unwrap_or(key).clone()),
        }
    }
}
