//! Backups and restores: whose turn it is, and what each needs.

use super::{Key, Planner, Reason, SETTLED, ServerStep, Subject};
use crate::member::location_in;
use crate::options::Controller;
use crate::work::backup::BackupTarget;
use crate::work::restore::{Origin, RestoreSource};
use crate::world::Meta;
use jiff::Timestamp;
use lifeboat_api::NamespacedName;
use lifeboat_api::{Backup, BackupPhase, BackupStorageLocation, Restore, RestorePhase};
use lifeboat_lifecycle::phase::location::NoLocation;
use lifeboat_lifecycle::phase::queue::{Admissions, Blocked, NotAdmitted, QueueMove, QueueState, admit};
use lifeboat_lifecycle::phase::{self, Decision};
use std::sync::Arc;

/// Returns true if a step runs the engine, for which there is a limited number of places.
fn backup_runs(step: &phase::backup::Step) -> bool {
    matches!(step, phase::backup::Step::Run | phase::backup::Step::RunAgain { .. })
}

fn restore_key(restore: &Restore, step: &phase::restore::Step) -> Key {
    use phase::restore::Step as S;
    let key = restore.key();
    match step {
        S::CleanUp => Key::CleanUp(key),
        S::Fail(_) | S::CancelOperations => Key::CancelRestore(key),
        S::Run | S::RunAgain { .. } | S::FailVeleros(_) => Key::Restore(key),
        S::AddFinalizer | S::RemoveFinalizer | S::LookAfter | S::Finalize => Key::Upkeep(key),
    }
}

impl Planner<'_> {
    pub(super) fn backups(&mut self) {
        let world = self.view.world;
        let admissions = self.admissions();
        for (name, to) in admissions.moves {
            let key = if to == QueueMove::Start { Key::Start(name.clone()) } else { Key::Queue(name.clone()) };
            let settles = |started| self.view.now.1.saturating_duration_since(started) < SETTLED;
            if matches!(to, QueueMove::Renumber(_)) && self.view.memory.started.is_some_and(settles) {
                self.wake_at(self.view.now.0.saturating_add(SETTLED).unwrap_or(Timestamp::MAX));
                continue;
            }
            if self.may_begin(&key)
                && let Some(backup) = world.backups.get(&name).cloned()
            {
                self.add(key, ServerStep::Queue(Box::new(backup), to));
            }
        }
        for backup in world.backups.iter().filter(|b| b.metadata.deletion_timestamp.is_none()) {
            use phase::backup::Step as S;
            let subject = || Subject::Backup(backup.key());
            let step = phase::backup::step(backup, self.view.options.fail_in_progress);
            let Some(step) = self.due(step, subject) else { continue };
            let part = match step {
                S::LookAfter | S::CancelOperations => Controller::BackupOperations,
                S::Finalize => Controller::BackupFinalizer,
                _ => Controller::Backup,
            };
            let name = backup.key();
            let waits_for_place = self.has(Controller::BackupQueue)
                && backup_runs(&step)
                && self.backup_stands(backup) != QueueState::Good
                && !admissions.again.contains(&name);
            let key = match step {
                S::Cancel | S::CancelOperations => Key::CancelBackup(name),
                _ => Key::Backup(name),
            };
            if !self.may(part, subject) {
                continue;
            }
            if waits_for_place {
                if self.waits.is_some() {
                    self.note_missing_turn(backup);
                }
                continue;
            }
            if !self.may_begin(&key) {
                continue;
            }
            if step == S::Run
                && let Some(location) = self.unvalidated_location_of(backup)
            {
                self.note(|_| (subject(), Reason::Unvalidated(location.clone())));
                continue;
            }
            let target = self.target(backup);
            self.add(key, ServerStep::Backup(Box::new(backup.clone()), Box::new(target), step));
        }
    }

    /// The backups whose turn it is, when there is a queue. In a plan that explains, notes what the others wait for.
    fn admissions(&mut self) -> Admissions {
        let world = self.view.world;
        let is_queued = |backup: &&Backup| {
            let is_left = backup.spec.cancel || backup.metadata.deletion_timestamp.is_some();
            backup.status.phase == Some(BackupPhase::Queued) && !is_left
        };
        if !self.has(Controller::BackupQueue) {
            if self.waits.is_some() {
                let is_new = |b: &&Backup| matches!(b.status.phase, None | Some(BackupPhase::New)) && !b.spec.cancel;
                let all = world.backups.iter().filter(|backup| is_queued(backup) || is_new(backup));
                for backup in all.filter(|backup| backup.metadata.deletion_timestamp.is_none()) {
                    let subject = Subject::Backup(backup.key());
                    self.note(|_| (subject, Reason::Disabled(Controller::BackupQueue)));
                }
            }
            return Admissions::default();
        }
        let most = self.view.options.concurrent_backups;
        let mut admissions =
            admit(world.backups.iter(), most, self.waits.is_some(), |backup| self.backup_stands(backup));
        for NotAdmitted { backup, position, why } in std::mem::take(&mut admissions.waits) {
            let why = match position {
                Some(position) => Reason::Queued { position, why },
                None => Reason::NoSlot(why),
            };
            self.note(|_| (Subject::Backup(backup), why));
        }
        if self.waits.is_some() {
            for backup in world.backups.iter().filter(is_queued) {
                if self.backup_stands(backup) == QueueState::Out {
                    self.note_missing_turn(backup);
                }
            }
        }
        admissions
    }

    /// Notes what a backup waits for that has no turn, for itself and not because of others.
    fn note_missing_turn(&mut self, backup: &Backup) {
        let is_queued = backup.status.phase == Some(BackupPhase::Queued);
        let name = || backup.key();
        let key = if is_queued { Key::Start(name()) } else { Key::Backup(name()) };
        if let Some(why) = self.not_yet(&key) {
            self.note_not_yet(&key, why);
        } else if let Some(location) = self.unvalidated_location_of(backup) {
            self.note(|_| (key.object(), Reason::Unvalidated(location)));
        }
    }

    /// Its location, when that was never looked at.
    fn unvalidated_location_of(&self, backup: &Backup) -> Option<NamespacedName> {
        let location = self.location_of(backup).ok()?;
        self.is_unvalidated(location).then(|| location.key())
    }

    /// The state in the queue of a backup that waits or is to run.
    fn backup_stands(&self, backup: &Backup) -> QueueState {
        let name = backup.key();
        let is_queued = backup.status.phase == Some(BackupPhase::Queued);
        match self.runs(&Subject::Backup(name.clone())) {
            Some(Key::Start(_)) => return QueueState::Starts,
            // It is being deleted, or its place cannot be noted.
            Some(Key::Deletion { .. }) if is_queued || self.is_late(&Key::Backup(name.clone())) => {
                return QueueState::Out;
            }
            Some(key @ Key::Queue(_)) if self.is_late(key) => return QueueState::Out,
            Some(_) => return QueueState::Good,
            None => {}
        }
        if is_queued && self.location_of(backup).is_ok_and(|location| self.is_unvalidated(location)) {
            return QueueState::Out;
        }
        self.stands(&match is_queued {
            true => Key::Start(name),
            false if backup.spec.cancel => Key::CancelBackup(name),
            false => Key::Backup(name),
        })
    }

    fn stands(&self, key: &Key) -> QueueState {
        match self.failure(key) {
            Some(failure) if failure.is_late() && failure.until > self.view.now.1 => QueueState::Out,
            Some(failure) if failure.is_late() => QueueState::Late(failure.count),
            _ => QueueState::Good,
        }
    }

    /// Returns true if a location was never validated. Its objects wait, because that is done in a moment; they wait no
    /// longer when the outcome cannot be noted.
    pub(super) fn is_unvalidated(&self, location: &BackupStorageLocation) -> bool {
        location.status.phase.is_none() && !self.is_late(&Key::Validation(location.key()))
    }

    pub(super) fn location_of(&self, backup: &Backup) -> Result<&BackupStorageLocation, NoLocation> {
        location_in(self.view.world, backup, self.view.options.default_location.as_deref())
    }

    /// Where a backup goes (velero: pkg/controller/backup_storage_location_controller.go).
    fn target(&self, backup: &Backup) -> BackupTarget {
        let is_named = !backup.spec.storage_location.is_empty();
        let (what, missing) =
            if is_named { ("the default", "was not found") } else { ("the server default", "does not exist") };
        self.location_of(backup).cloned().map_err(|none| {
            let name = match none {
                NoLocation::Named(name) => name,
                NoLocation::NoDefault => String::new(),
            };
            format!(
                "an existing backup storage location was not specified at backup creation time and {what} {name} {missing}. Please address this issue (see `velero backup-location -h` for options) and create a new backup. Error: backupstoragelocations.velero.io \"{name}\" not found"
            )
        })
    }

    pub(super) fn restores(&mut self) {
        use phase::restore::Step as S;
        let (world, options) = (self.view.world, self.view.options);
        let places = options.concurrent_restores.max(1);
        let mut holders: Vec<&Restore> = world.restores.iter().filter(|r| self.has_restore_place(r)).collect();
        let mut without_place = Vec::new();
        let mut due = Vec::new();
        for restore in world.restores.iter() {
            let subject = || Subject::Restore(restore.key());
            if let Some(step) = self.due(phase::restore::step(restore, options.fail_in_progress), subject) {
                due.push((self.restore_stands(restore, &step), restore, step));
            }
        }
        // A late restore comes after the others, and of late ones that which has failed less often first, so that each has
        // its turn.
        due.sort_by_key(|(state, restore, _)| {
            let failures = if let QueueState::Late(failures) = state { *failures } else { 0 };
            (failures, restore.metadata.creation_timestamp, &restore.metadata.namespace, &restore.metadata.name)
        });
        for (state, restore, step) in due {
            let part = match step {
                S::LookAfter | S::CancelOperations => Controller::RestoreOperations,
                S::Finalize => Controller::RestoreFinalizer,
                _ => Controller::Restore,
            };
            let key = restore_key(restore, &step);
            if !self.may(part, || key.object()) || !self.may_begin(&key) {
                continue;
            }
            let backup = world.backups.get(&restore.beside(&restore.spec.backup_name));
            let place = backup.and_then(|b| Some((b.clone(), self.location_of(b).ok()?.clone())));
            if step == S::Run
                && let Some((_, location)) = place.as_ref().filter(|(_, location)| self.is_unvalidated(location))
            {
                self.note(|_| (key.object(), Reason::Unvalidated(location.key())));
                continue;
            }
            // One that is in progress has its place already, unless it is late.
            if step == S::Run || step.runs() && state != QueueState::Good {
                if holders.len() >= places {
                    without_place.extend(self.waits.is_some().then(|| key.object()));
                    continue;
                }
                holders.push(restore);
            }
            let origin = if step.runs() { Origin::of(restore, world) } else { Err(Vec::new()) };
            self.add(
                key,
                ServerStep::Restore(Box::new(restore.clone()), Box::new(RestoreSource { origin, place }), step),
            );
        }
        if !without_place.is_empty() {
            let by: Arc<[NamespacedName]> = holders.iter().map(|restore| restore.key()).collect();
            for subject in without_place {
                self.note(|_| (subject, Reason::NoSlot(Blocked::Full { by: Arc::clone(&by), places })));
            }
        }
    }

    /// The state of the work on a restore whose next step this is.
    fn restore_stands(&self, restore: &Restore, step: &phase::restore::Step) -> QueueState {
        if self.runs(&Subject::Restore(restore.key())).is_some() {
            return QueueState::Good;
        }
        self.stands(&restore_key(restore, step))
    }

    /// Returns true if a restore has one of the places for those that run.
    fn has_restore_place(&self, restore: &Restore) -> bool {
        match restore.status.phase {
            Some(RestorePhase::InProgress) => match phase::restore::step(restore, self.view.options.fail_in_progress) {
                Decision::Do(step) => self.restore_stands(restore, &step) == QueueState::Good,
                _ => false,
            },
            None | Some(RestorePhase::New) => {
                let running = self.runs(&Subject::Restore(restore.key()));
                matches!(running, Some(Key::Restore(_)))
            }
            _ => false,
        }
    }
}
