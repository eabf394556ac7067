//! Decides the next steps from one look at everything. Pure: the plan is a value, and `perform` carries it out.

mod expiries;
mod limits;
mod notes;
mod repositories;
mod runs;
mod schedules;
#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;
mod waits;

use super::key::{Key, Subject};
use super::memory::Memory;
use super::step::{KeyedStep, ServerStep};
use super::wait::{Reason, Wait};
use crate::options::{Controller, Options};
use crate::unreadable_step;
use crate::work;
use crate::work::sync::{self, BackupNames, SyncFacts};
use crate::world::{Meta, World};
use jiff::Timestamp;
use lifeboat_api::NamespacedName;
use lifeboat_api::{BackupStorageLocation, BackupStorageLocationPhase};
use lifeboat_lifecycle::phase::{self, Decision, request};
use lifeboat_reconcile::{StepBackoff, TaskKey};
use limits::ConcurrencyLimits;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use waits::{NotYet, Waits};

/// The result of one look at everything.
#[derive(Debug, Default)]
pub(super) struct ServerPlan {
    /// To be begun now.
    pub(super) work: Vec<KeyedStep>,
    /// The earliest time at which something is due.
    pub(super) wake: Option<Timestamp>,
    /// The earliest time at which something that failed is tried again.
    pub(super) retry: Option<Instant>,
    /// The objects that have work to come but for which nothing begins, each with the reason; only when the view asks
    /// for it. All others are at rest for good, or until their time is over.
    pub(super) waits: Vec<Wait>,
}

/// Everything that is looked at.
#[derive(Clone, Copy)]
pub(super) struct PlanInput<'a> {
    pub(super) world: &'a World,
    pub(super) options: &'a Options,
    pub(super) memory: &'a Memory,
    /// The time of the world, and that of the timers.
    pub(super) now: (Timestamp, Instant),
    /// True when the plan says why the other objects wait.
    pub(super) explain: bool,
}

/// After a backup has left the queue, the others keep their positions for so long: when many are refused one after the
/// other, each would cost a write to all behind it.
const SETTLED: Duration = Duration::from_secs(1);

/// Time that other locations wait for the first sync of the default one.
const FIRST_SYNC: Duration = Duration::from_secs(60);

/// Plans the steps to begin beside the work that runs already.
pub(super) fn plan<'a>(view: PlanInput<'a>, running: impl Iterator<Item = &'a Key>) -> ServerPlan {
    let mut planner = Planner {
        view,
        plan: ServerPlan::default(),
        taken: HashSet::new(),
        running: running.map(|key| (key.subject(), key)).collect(),
        places: ConcurrencyLimits::new(view.world, view.options.default_location.as_deref()),
        late: Vec::new(),
        waits: view.explain.then(Waits::default),
    };
    let running: Vec<&Key> = planner.running.values().copied().collect();
    running.into_iter().for_each(|key| planner.take(key));
    planner.unreadable();
    planner.locations();
    // Before the backups: of two kinds of work on one thing the first is begun.
    planner.sweeps();
    planner.deletions();
    planner.expiries();
    planner.schedules();
    planner.backups();
    planner.restores();
    planner.requests();
    planner.repositories();
    planner.note_left_alone();
    planner.end()
}

/// Returns true if running work is still wanted: the user has not cancelled or deleted its object.
pub(super) fn is_wanted(key: &Key, world: &World) -> bool {
    match key {
        Key::Backup(key) => match world.backups.get(key) {
            Some(backup) => !backup.spec.cancel,
            // It was edited since: it goes on as it was.
            None => world.backups.get_unreadable(key).is_some_and(|backup| !backup.is_cancelled()),
        },
        Key::Restore(key) => match world.restores.get(key) {
            Some(restore) => !restore.spec.cancel && restore.metadata.deletion_timestamp.is_none(),
            None => world
                .restores
                .get_unreadable(key)
                .is_some_and(|restore| !restore.is_cancelled() && restore.meta.deletion_timestamp.is_none()),
        },
        _ => true,
    }
}

struct Planner<'a> {
    view: PlanInput<'a>,
    plan: ServerPlan,
    /// Subjects that tasks work on already, or that the steps of this plan will work on.
    taken: HashSet<Subject>,
    running: HashMap<Subject, &'a Key>,
    places: ConcurrencyLimits<'a>,
    /// Work that has failed again and again and is due since then.
    late: Vec<(Instant, KeyedStep)>,
    /// The reasons for which objects wait; none unless the plan explains.
    waits: Option<Waits>,
}

impl<'a> Planner<'a> {
    fn take(&mut self, key: &Key) {
        self.taken.insert(key.subject());
        self.places.take(key, self.is_late(key));
    }

    fn failure(&self, key: &Key) -> Option<&'a StepBackoff> {
        self.view.memory.failures.get(key)
    }

    fn is_late(&self, key: &Key) -> bool {
        self.failure(key).is_some_and(StepBackoff::is_late)
    }

    /// The work that a task does on it.
    fn runs(&self, subject: &Subject) -> Option<&'a Key> {
        self.running.get(subject).copied()
    }

    fn has(&self, part: Controller) -> bool {
        !self.view.options.disabled.contains(&part)
    }

    /// Returns true if this part of the server is enabled; otherwise notes that the object waits for it.
    fn may(&mut self, part: Controller, of: impl FnOnce() -> Subject) -> bool {
        let has = self.has(part);
        if !has {
            self.note(|_| (of(), Reason::Disabled(part)));
        }
        has
    }

    /// Returns true if a step can begin: nothing works on the same thing, it is not too early after a failure, and not
    /// too many tasks of its kind run. The end of a task is followed by another look.
    fn may_begin(&mut self, key: &Key) -> bool {
        let Some(why) = self.not_yet(key) else { return true };
        if let NotYet::Early(until) = why {
            self.look_at(until);
        }
        self.note_not_yet(key, why);
        false
    }

    fn not_yet(&self, key: &Key) -> Option<NotYet> {
        if self.taken.contains(&key.subject()) {
            return Some(NotYet::Taken);
        }
        if let Some(until) = self.view.memory.failures.paused_until(key, self.view.now.1) {
            return Some(NotYet::Early(until));
        }
        // For what is late that is asked at the end.
        let has_place = self.is_late(key) || self.has_place(key);
        (!has_place).then_some(NotYet::Full)
    }

    fn has_place(&self, key: &Key) -> bool {
        self.places.has(key, self.is_late(key))
    }

    fn add(&mut self, key: Key, step: ServerStep) {
        match self.failure(&key) {
            Some(failure) if failure.is_late() => self.late.push((failure.until, KeyedStep { key, step })),
            _ => {
                self.take(&key);
                self.plan.work.push(KeyedStep { key, step });
            }
        }
    }

    /// Adds late work where there are places left, and gives the plan. The work that has waited longest is tried first, so that
    /// each is tried, however many fail.
    fn end(mut self) -> ServerPlan {
        let mut late = std::mem::take(&mut self.late);
        late.sort_by_key(|(since, _)| *since);
        for (_, work) in late {
            if self.taken.contains(&work.key.subject()) {
                self.note_not_yet(&work.key, NotYet::Taken);
            } else if !self.has_place(&work.key) {
                self.note_not_yet(&work.key, NotYet::Full);
            } else {
                self.take(&work.key);
                self.plan.work.push(work);
            }
        }
        if let Some(waits) = self.waits.take() {
            let begun = self.plan.work.iter().map(|work| &work.key);
            self.plan.waits = waits.of(begun, self.running.values().copied(), self.view.world);
        }
        self.plan
    }

    /// There may be something to do at this moment of the timers.
    fn look_at(&mut self, at: Instant) {
        self.plan.retry = Some(self.plan.retry.map_or(at, |retry| retry.min(at)));
    }

    /// There may be something to do at this time.
    fn wake_at(&mut self, at: Timestamp) {
        self.plan.wake = Some(self.plan.wake.map_or(at, |wake| wake.min(at)));
    }

    /// The step of this object, when it is for now; otherwise its time is noted.
    fn due<S>(&mut self, decision: Decision<S>, of: impl FnOnce() -> Subject) -> Option<S> {
        match decision {
            Decision::Do(step) => Some(step),
            Decision::Wait(until) => {
                self.wake_at(until);
                self.note(|_| (of(), Reason::Due(until)));
                None
            }
            Decision::Rest => None,
        }
    }

    /// Refuses objects that cannot be read, or fails those that have begun and that no task works on any more.
    fn unreadable(&mut self) {
        let world = self.view.world;
        for (kind, object) in world.unreadable() {
            let Some(step) = unreadable_step::step(kind, object) else { continue };
            let name = object.meta.key();
            let key = Key::Unreadable(kind, name.clone());
            if self.may_begin(&key) {
                let backup = work::deletion::backup_named(&name.beside(object.names("backupName")), world);
                let location = backup.and_then(|backup| self.location_of(&backup).ok().cloned());
                self.add(key, ServerStep::Unreadable(kind, Box::new(object.clone()), step, location));
            }
        }
    }

    fn locations(&mut self) {
        let PlanInput { world, options, memory, now, .. } = self.view;
        for location in phase::location::surplus_defaults(world.locations.iter()) {
            let key = Key::Default(location.key());
            if self.may_begin(&key) {
                self.add(key, ServerStep::Mark { location: location.clone(), default: false });
            }
        }
        if let Some(named) = options.default_location.as_deref().filter(|_| !memory.default_is_marked) {
            for location in phase::location::unmarked_defaults(world.locations.iter(), named) {
                self.add(Key::Default(location.key()), ServerStep::Mark { location: location.clone(), default: true });
            }
        }
        let mut locations: Vec<&'a BackupStorageLocation> = world.locations.iter().collect();
        // Of all Backups, for the syncs; no work on one of them is planned meanwhile.
        let mut names: HashMap<&'a str, BackupNames> = HashMap::new();
        // Of two locations with a backup of the same name, the default one has it: its first sync goes first.
        locations.sort_by_key(|location| !location.spec.default);
        // One in each namespace, and until when.
        let mut awaited: HashMap<&str, (NamespacedName, Instant)> = HashMap::new();
        for location in locations {
            let name = location.key();
            let key = Key::Validation(name.clone());
            let changed = memory.validated.get(&name).map(|(spec, _)| spec) != Some(&location.spec);
            let validation = if changed {
                Decision::Do(())
            } else {
                phase::location::validation(location, options.validation_frequency, now.0)
            };
            let sync_key = Key::Sync(name.clone());
            let namespace = location.metadata.namespace.as_str();
            let sync = match awaited.get(namespace).filter(|_| !location.spec.default) {
                _ if !self.has(Controller::BackupSync) => {
                    self.note(|_| (Subject::Location(name.clone()), Reason::Disabled(Controller::BackupSync)));
                    Decision::Rest
                }
                Some((first, until)) => {
                    self.look_at(*until);
                    match phase::location::sync(location, options.sync_period, now.0) {
                        Decision::Do(()) => {
                            let why = Reason::FirstSync { location: first.clone(), until: *until };
                            self.note(|_| (Subject::Location(name.clone()), why));
                        }
                        Decision::Wait(at) => self.note(|_| (Subject::Location(name.clone()), Reason::Due(at))),
                        Decision::Rest => {}
                    }
                    Decision::Rest
                }
                None => phase::location::sync(location, options.sync_period, now.0),
            };
            // A sync that has failed is tried again by itself. What waits for the validation does not wait for a first sync, which
            // may take long.
            let sync_failed = self.failure(&sync_key).is_some();
            let both = location.status.last_synced_time.is_some()
                && phase::location::is_for_both(&validation, &sync, now.0)
                && !sync_failed;
            let subject = || Subject::Location(name.clone());
            let validation_is_due = self.due(validation, subject).is_some() || both;
            let sync_is_due = self.due(sync, subject).is_some();
            // A sync that failed goes before the validation: where a validation is due every second, it would never have a turn. What
            // was edited is never synced before it is validated: what is not there would be taken for deleted.
            let sync_goes_first = sync_failed && !changed && self.has_place(&sync_key);
            if sync_is_due && (sync_goes_first || !validation_is_due) && self.may_begin(&sync_key) {
                self.add(sync_key, ServerStep::Sync(location.clone(), self.known_of(location, &mut names)));
            } else if validation_is_due && self.may_begin(&key) {
                let known = both.then(|| self.known_of(location, &mut names));
                self.add(key, ServerStep::Validate(location.clone(), known));
            }
            if let Some(until) = self.first_sync_of_default(location) {
                awaited.entry(namespace).or_insert((name, until));
            }
        }
    }

    /// Gathers the facts that a sync of a location needs. `names` are those that were collected already, by namespace.
    fn known_of(&self, location: &'a BackupStorageLocation, names: &mut HashMap<&'a str, BackupNames>) -> SyncFacts {
        let world = self.view.world;
        let names = names.entry(&location.metadata.namespace).or_insert_with(|| {
            let busy = self.taken.iter().filter_map(|subject| match subject {
                Subject::Backup(key) => Some(key),
                _ => None,
            });
            sync::names(world, location, busy)
        });
        SyncFacts::of(world, location, Arc::clone(names))
    }

    /// Until when the other locations wait for the first sync of this one: when it is the default, its bucket answers as far
    /// as is known, and a task is at it. One that hangs is not waited for for long.
    fn first_sync_of_default(&self, location: &BackupStorageLocation) -> Option<Instant> {
        let name = location.key();
        let is_first = location.spec.default && location.status.last_synced_time.is_none();
        let answers = location.status.phase != Some(BackupStorageLocationPhase::Unavailable)
            && self.failure(&Key::Sync(name.clone())).is_none();
        if !is_first || !answers || !self.taken.contains(&Subject::Location(name.clone())) {
            return None;
        }
        let begun = self.view.memory.validated.get(&name).map_or(self.view.now.1, |(_, begun)| *begun);
        Some(begun + FIRST_SYNC).filter(|until| *until > self.view.now.1)
    }

    /// Removes what Backups left that are gone. It is work on their name: no backup of that name begins meanwhile, and
    /// what cannot begin now is found again by the next sync.
    fn sweeps(&mut self) {
        for left in &self.view.world.left {
            let backup = left.backup();
            let is_there = self.view.world.backups.is_there(&backup);
            let key = Key::Sweep { backup, location: left.location.key() };
            if !is_there && self.may_begin(&key) {
                self.add(key, ServerStep::Sweep(left.clone()));
            }
        }
    }

    fn deletions(&mut self) {
        let world = self.view.world;
        let withdrawn = self.withdrawn_requests();
        for request in world.delete_requests.iter() {
            let subject = || Subject::DeleteRequest(request.key());
            if !self.may(Controller::BackupDeletion, subject) {
                continue;
            }
            let Some(mut step) = self.due(request::deletion(request, self.view.now.0), subject) else { continue };
            let is_withdrawn = withdrawn.contains(&request.key());
            if is_withdrawn {
                step = request::Step::Forget;
            }
            let (name, backup) = (request.key(), request.beside(&request.spec.backup_name));
            let runs = work::deletion::backup_named(&backup, world).is_some_and(|b| phase::facts::is_running(&b));
            // One that is only refused does not wait for the work on its backup. Of several deletions of one backup the
            // next is made when one has ended, and there is nothing left to do then.
            let key = if !is_withdrawn && (runs || step == request::Step::Forget) {
                Key::Refusal(name)
            } else {
                Key::Deletion { backup, request: name }
            };
            let claims = request::claims_waited_for(request);
            if claims.is_none() && !self.may_begin(&key) {
                continue;
            }
            let default = self.view.options.default_location.as_deref();
            let target = work::deletion::DeletionTarget::of(request, world, default, self.view.now.0);
            let restore = target.waits_for(request).filter(|_| step == request::Step::Answer);
            if let Some(restore) = restore {
                self.note(|_| (subject(), Reason::Restored(restore.clone())));
            } else if let Some(claims) = claims.filter(|_| !is_withdrawn) {
                let (claims, way_out) = (claims.to_owned(), request::way_out_of_claims(request));
                self.note(|_| (subject(), Reason::NeededByClaims { claims, way_out }));
            }
            // While it waits for a restore, all that is done is to take back what it says of claims.
            let is_due = match claims {
                Some(_) => self.may_begin(&key),
                None => restore.is_none(),
            };
            if is_due {
                self.add(key, ServerStep::Delete(request.clone(), Box::new(target), step));
            }
        }
    }

    fn requests(&mut self) {
        let world = self.view.world;
        for request in world.download_requests.iter() {
            let key = Key::Download(request.key());
            if !self.may(Controller::DownloadRequest, || key.object()) {
                continue;
            }
            let decision = request::download(request, self.view.now.0);
            let Some(step) = self.due(decision, || key.object()) else { continue };
            if self.may_begin(&key) {
                let target = work::download::RequestedFile::of(request, world);
                self.add(key, ServerStep::Download(request.clone(), target, step));
            }
        }
        for request in world.status_requests.iter() {
            let key = Key::Status(request.key());
            if !self.may(Controller::ServerStatusRequest, || key.object()) {
                continue;
            }
            let decision = request::status(request, self.view.now.0);
            let Some(step) = self.due(decision, || key.object()) else { continue };
            if self.may_begin(&key) {
                self.add(key, ServerStep::Status(request.clone(), step));
            }
        }
    }
}
