//! The memory of the server between two looks at everything. Its successor needs none of it.

use super::key::Key;
use super::step::{KeyedStep, ServerStep};
use crate::work::{Effect, StepError};
use crate::world::{Meta, World};
use lifeboat_api::NamespacedName;
use lifeboat_api::{BackupStorageLocation, BackupStorageLocationSpec};
use lifeboat_lifecycle::phase;
use lifeboat_lifecycle::phase::queue::QueueMove;
use lifeboat_reconcile::{RetryMemory, TaskKey};
use std::collections::HashMap;
use tokio::time::Instant;

/// Steps that failed, and the steps that were begun last.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) failures: RetryMemory<Key>,
    /// When a backup left the queue.
    pub(super) started: Option<Instant>,
    /// True once the location that the flag names was looked at, which is done only once.
    pub(super) default_is_marked: bool,
    /// The specs of locations as they were last validated by this server, and when that began.
    pub(super) validated: HashMap<NamespacedName, (BackupStorageLocationSpec, Instant)>,
    /// The messages about waiting runs that were last written into the status of schedules, even where the definition
    /// drops the field.
    pub(super) told: HashMap<NamespacedName, String>,
}

impl Memory {
    /// The memory of a server that has led for a while, as far as another process can tell: it has validated as they are all
    /// locations that were ever validated, and nothing has failed.
    pub(super) fn likely(world: &World, now: Instant) -> Self {
        let is_validated = |location: &&BackupStorageLocation| location.status.last_validation_time.is_some();
        let validated = world.locations.iter().filter(is_validated);
        Self {
            default_is_marked: true,
            validated: validated.map(|l| (l.key(), (l.spec.clone(), now))).collect(),
            ..Self::default()
        }
    }

    /// Forgets failures, validations and messages of objects that are gone.
    pub(super) fn looked(&mut self, world: &World) {
        self.default_is_marked = true;
        self.failures.retain(|key| is_there(key, world));
        self.validated.retain(|key, _| world.locations.get(key).is_some());
        self.told.retain(|key, _| world.schedules.get(key).is_some());
    }

    /// Notes that a step begins.
    pub(super) fn begins(&mut self, work: &KeyedStep, now: Instant) {
        match &work.step {
            ServerStep::Queue(_, QueueMove::Start) => self.started = Some(now),
            ServerStep::Validate(location, _) => {
                self.validated.insert(location.key(), (location.spec.clone(), now));
            }
            ServerStep::Schedule(schedule, phase::schedule::Step::Note(after)) => {
                self.told.insert(schedule.key(), after.status.message.clone());
            }
            ServerStep::Schedule(schedule, _) => drop(self.told.remove(&schedule.key())),
            _ => {}
        }
    }

    /// Notes that a step has succeeded, with these effects. A sync that failed within it counts as a failure of the
    /// sync.
    pub(super) fn succeeded(&mut self, key: &Key, effects: &[Effect], now: Instant) {
        self.failures.succeeded(key);
        for effect in effects {
            if let Effect::NotSynced(location, why) = effect {
                self.failed(Key::Sync(location.clone()), why, now);
            }
        }
    }

    /// Notes that a step has failed, to be tried again later.
    pub(super) fn failed(&mut self, key: Key, why: &StepError, now: Instant) {
        if let Key::Validation(location) = &key {
            self.validated.remove(location);
        }
        if let Key::Schedule(schedule) = &key {
            self.told.remove(schedule);
        }
        if let StepError::NotYet(pause) = why {
            self.failures.waits(key, *pause, now);
            return;
        }
        let failure = self.failures.failed(key.clone(), now);
        let (count, pause) = (failure.count, failure.until - now);
        tracing::warn!(?key, error = %why, count, "a step was not finished, trying again in {pause:?}");
    }
}

/// Returns true if the object of a step still exists.
fn is_there(key: &Key, world: &World) -> bool {
    match key {
        Key::Deletion { request, .. } => world.delete_requests.is_there(request),
        // The next sync finds it again.
        Key::Sweep { .. } => false,
        key => key.subject().is_there(world),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::named;
    use std::time::Duration;

    #[test]
    fn what_only_waits_is_no_failure() {
        let (now, key) = (Instant::now(), Key::Status(named("s")));
        let mut memory = Memory::default();
        memory.failed(key.clone(), &StepError::Because("no".into()), now);
        let known = |memory: &Memory| memory.failures.get(&key).map(|failure| (failure.count, failure.until - now));
        assert_eq!(known(&memory), Some((1, Duration::from_millis(200))));
        memory.failed(key.clone(), &StepError::NotYet(Duration::from_secs(5)), now);
        assert_eq!(known(&memory), Some((0, Duration::from_secs(5))));
    }

    /// Else a sync that is due would be tried with each validation, which may be every second.
    #[test]
    fn a_sync_that_failed_in_a_validation_is_tried_again_later_and_later() {
        let (now, mut memory) = (Instant::now(), Memory::default());
        let not_synced = || Effect::NotSynced(named("main"), Box::new(StepError::Because("no".into())));
        let validated = Key::Validation(named("main"));
        memory.failed(validated.clone(), &StepError::Because("no".into()), now);
        let mut pauses = Vec::new();
        for _ in 0..3 {
            memory.succeeded(&validated, &[not_synced()], now);
            let failures: Vec<_> = memory.failures.iter().map(|(key, failure)| (key, failure.until - now)).collect();
            pauses.extend(failures.iter().map(|(_, pause)| pause.as_millis()));
            assert_eq!(failures[0].0, &Key::Sync(named("main")));
        }
        assert_eq!(pauses, [200, 400, 800]);
    }

    /// However many there are: one that forgot them would never call any of them late.
    #[test]
    fn failures_are_remembered_as_long_as_their_object_is_there() {
        let mut world = World::default();
        let mut memory = Memory::default();
        let now = Instant::now();
        for n in 0..2000 {
            let mut backup = lifeboat_api::Backup::default();
            backup.metadata.name = n.to_string();
            world.backups.put(backup);
            memory.failed(Key::Backup(named(&n.to_string())), &StepError::Because("no".into()), now);
            memory.failed(Key::Restore(named(&n.to_string())), &StepError::Because("no".into()), now);
        }
        memory.looked(&world);
        let known: Vec<&Key> = memory.failures.iter().map(|(key, _)| key).collect();
        assert!(known.len() == 2000 && known.iter().all(|key| matches!(key, Key::Backup(_))));
    }
}
