//! What is to be done, from one look at everything.

use super::Server;
use super::key::{Key, STUCK, Subject};
use super::tasks::Running;
use crate::options::Controller;
use crate::phase::queue::{Move, moves};
use crate::phase::{self, Decision};
use crate::work::restore::Origin;
use crate::work::{self, Finished};
use crate::world::{Meta, Objects};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{Backup, BackupStorageLocation, Restore, RestorePhase};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Longest pause between two looks at everything.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// After a backup has left the queue, the others keep their positions for so long: when many are refused one after the
/// other, each would cost a write to all behind it.
const SETTLED: Duration = Duration::from_secs(1);

/// Work found to be done.
struct Work {
    key: Key,
    /// How to stop it.
    stop: CancellationToken,
    task: BoxFuture<'static, Finished>,
}

/// What one look at everything found.
struct Plan {
    now: Timestamp,
    /// The earliest time at which something is due.
    wake: Option<Timestamp>,
    /// The earliest time at which something that failed is tried again.
    retry: Option<Instant>,
    work: Vec<Work>,
    /// What is worked on, by running tasks and by those of this plan.
    taken: HashSet<Subject>,
    counts: HashMap<Discriminant<Key>, usize>,
}

impl Plan {
    fn add(&mut self, key: Key, task: impl Future<Output = Finished> + Send + 'static) {
        self.add_stoppable(key, CancellationToken::new(), task);
    }

    fn add_stoppable(
        &mut self,
        key: Key,
        stop: CancellationToken,
        task: impl Future<Output = Finished> + Send + 'static,
    ) {
        self.take(&key);
        self.work.push(Work { key, stop, task: Box::pin(task) });
    }

    fn take(&mut self, key: &Key) {
        self.taken.insert(key.subject());
        *self.counts.entry(discriminant(key)).or_default() += 1;
    }

    /// There may be something to do after this time.
    fn wake_at(&mut self, after: SignedDuration) {
        if let Ok(at) = self.now.checked_add(after) {
            self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
        }
    }

    /// The step, when it is for now; otherwise its time is noted.
    fn due<S>(&mut self, decision: Decision<S>) -> Option<S> {
        match decision {
            Decision::Do(step) => Some(step),
            Decision::Wait(until) => {
                self.wake = Some(self.wake.map_or(until, |wake| wake.min(until)));
                None
            }
            Decision::Rest => None,
        }
    }
}

/// Whether a location was never looked at: what needs it waits, because that is a matter of a moment.
fn is_unchecked(location: &BackupStorageLocation) -> bool {
    location.status.phase.is_none()
}

impl Server {
    /// Looks at everything once and starts what is to be done.
    pub(super) fn pass(&mut self) {
        self.stop_unwanted();
        let now = self.context.env.now();
        let mut plan =
            Plan { now, wake: None, retry: None, work: Vec::new(), taken: HashSet::new(), counts: HashMap::new() };
        self.tasks.running().for_each(|running| plan.take(&running.key));
        self.unreadable(&mut plan);
        self.locations(&mut plan);
        // Before the backups: of two kinds of work on one thing the first is begun.
        self.sweeps(&mut plan);
        self.deletions(&mut plan);
        self.backups(&mut plan);
        self.restores(&mut plan);
        self.requests(&mut plan);
        self.next = Instant::now() + LONGEST_PAUSE;
        if let Some(at) = plan.wake {
            self.next = self.next.min(Instant::now() + at.duration_since(now).unsigned_abs());
        }
        if let Some(at) = plan.retry {
            self.next = self.next.min(at);
        }
        for Work { key, stop, task } in plan.work {
            self.tasks.spawn(key, stop, task);
        }
        // What is gone has no failures.
        if self.failures.len() > 1000 {
            let now = Instant::now();
            self.failures.retain(|_, failure| failure.until > now);
        }
    }

    fn has(&self, part: Controller) -> bool {
        !self.context.options.disabled.contains(&part)
    }

    /// Whether a step can begin: nothing works on the same thing, it is not too early after a failure, and not too many of
    /// its kind run. The end of a task is followed by another look.
    fn may_begin(&self, key: &Key, plan: &mut Plan) -> bool {
        if plan.taken.contains(&key.subject()) {
            return false;
        }
        if let Some(failure) = self.failures.get(key).filter(|failure| failure.until > Instant::now()) {
            plan.retry = Some(plan.retry.map_or(failure.until, |retry| retry.min(failure.until)));
            return false;
        }
        plan.counts.get(&discriminant(key)).is_none_or(|count| *count < key.most())
    }

    /// Stops work on what the user has cancelled or deleted.
    fn stop_unwanted(&self) {
        for running in self.tasks.running() {
            let wanted = match &running.key {
                Key::Backup(name) => match self.world.backups.get(name) {
                    Some(backup) => !backup.spec.cancel,
                    // It was edited since: it goes on as it was.
                    None => self.world.backups.is_unreadable(name),
                },
                Key::Restore(name) => match self.world.restores.get(name) {
                    Some(restore) => !restore.spec.cancel && restore.metadata.deletion_timestamp.is_none(),
                    None => self.world.restores.is_unreadable(name),
                },
                _ => true,
            };
            if !wanted {
                running.stop.cancel();
            }
        }
    }

    /// What cannot be read is refused, and said to be.
    fn unreadable(&self, plan: &mut Plan) {
        fn find<T: Meta>(server: &Server, objects: &Objects<T>, plan: &mut Plan) {
            for object in objects.unreadable() {
                let key = Key::Unreadable(T::KIND, object.identity.name.clone());
                if phase::unreadable::is_to_be_refused(T::KIND, object) && server.may_begin(&key, plan) {
                    let (context, object) = (Arc::clone(&server.context), object.clone());
                    plan.add(key, async move { work::unreadable::refuse::<T>(&context, &object).await });
                }
            }
        }
        find::<Backup>(self, &self.world.backups, plan);
        find::<Restore>(self, &self.world.restores, plan);
        find::<BackupStorageLocation>(self, &self.world.locations, plan);
    }

    fn locations(&mut self, plan: &mut Plan) {
        for name in phase::location::surplus_defaults(self.world.locations.iter()) {
            let key = Key::Default(name);
            if let Key::Default(name) = &key
                && self.may_begin(&key, plan)
                && let Some(location) = self.world.locations.get(name).cloned()
            {
                let context = Arc::clone(&self.context);
                plan.add(key, async move { work::location::mark(&context, location, false).await });
            }
        }
        if !std::mem::replace(&mut self.default_is_marked, true) {
            let named = &self.context.options.default_location;
            if let Some(location) = phase::location::unmarked_default(self.world.locations.iter(), named).cloned() {
                let context = Arc::clone(&self.context);
                let key = Key::Default(location.metadata.name.clone());
                plan.add(key, async move { work::location::mark(&context, location, true).await });
            }
        }
        self.checked.retain(|name, _| self.world.locations.get(name).is_some());
        let mut locations: Vec<&BackupStorageLocation> = self.world.locations.iter().collect();
        // Of two locations with a backup of the same name, the default one has it.
        locations.sort_by_key(|location| !location.spec.default);
        let mut default_busy = false;
        for location in locations {
            let name = &location.metadata.name;
            let options = &self.context.options;
            let key = Key::Validation(name.clone());
            let changed = self.checked.get(name) != Some(&location.spec);
            let validation = if changed {
                Decision::Do(())
            } else {
                phase::location::validation(location, options.validation_frequency, plan.now)
            };
            if plan.due(validation).is_some() {
                if self.may_begin(&key, plan) {
                    self.checked.insert(name.clone(), location.spec.clone());
                    let (context, location) = (Arc::clone(&self.context), location.clone());
                    plan.add(key, async move { work::location::validate(&context, location).await });
                }
                continue;
            }
            if !self.has(Controller::BackupSync) {
                continue;
            }
            let key = Key::Sync(name.clone());
            let due = plan.due(phase::location::sync(location, options.sync_period, plan.now)).is_some();
            if due && (!default_busy || location.spec.default) && self.may_begin(&key, plan) {
                let (context, location) = (Arc::clone(&self.context), location.clone());
                let known = work::sync::Known::of(&self.world, name);
                plan.add(key, async move { work::sync::sync(&context, location, known).await });
            }
            default_busy |= location.spec.default && plan.taken.contains(&Subject::Location(name.clone()));
        }
    }

    /// Removes what Backups left that are gone. It is work on their name: no backup of that name begins meanwhile, and
    /// what cannot begin now is found again by the next search.
    fn sweeps(&mut self, plan: &mut Plan) {
        for left in std::mem::take(&mut self.world.left) {
            let key = Key::Sweep(left.name.clone());
            if self.world.backups.get(&left.name).is_none() && self.may_begin(&key, plan) {
                let context = Arc::clone(&self.context);
                plan.add(key, async move { work::sweep::sweep(&context, left).await });
            }
        }
    }

    fn backups(&mut self, plan: &mut Plan) {
        let queue = if self.has(Controller::BackupQueue) {
            // What fails again and again takes no place from those that could run.
            let failed = self.failures.iter().filter(|(_, failure)| failure.count >= STUCK);
            let stuck: HashSet<&str> = failed
                .filter_map(|(key, _)| match key {
                    Key::Queue(name) | Key::Backup(name) => Some(name.as_str()),
                    _ => None,
                })
                .collect();
            let concurrent = self.context.options.concurrent_backups;
            moves(self.world.backups.iter(), concurrent, |name| stuck.contains(name))
        } else {
            Vec::new()
        };
        for (name, to) in queue {
            let key = Key::Queue(name);
            let Key::Queue(name) = &key else { continue };
            if matches!(to, Move::Renumber(_)) && self.started.elapsed() < SETTLED {
                plan.wake_at(SignedDuration::try_from(SETTLED).unwrap_or_default());
                continue;
            }
            if !self.may_begin(&key, plan) {
                continue;
            }
            if to == Move::Start {
                self.started = Instant::now();
            }
            let Some(backup) = self.world.backups.get(name).cloned() else { continue };
            let context = Arc::clone(&self.context);
            plan.add(key, async move { work::backup::queue(&context, backup, to).await });
        }
        for backup in self.world.backups.iter().filter(|b| b.metadata.deletion_timestamp.is_none()) {
            use phase::backup::Step;
            let step = phase::backup::step(backup, self.context.options.fail_in_progress);
            let Some(step) = plan.due(step) else { continue };
            let part = match step {
                Step::Operations | Step::CancelOperations => Controller::BackupOperations,
                Step::Adopt => Controller::BackupFinalizer,
                _ => Controller::Backup,
            };
            let name = backup.metadata.name.clone();
            let key = match step {
                Step::Cancel | Step::CancelOperations => Key::CancelBackup(name),
                _ => Key::Backup(name),
            };
            if !self.has(part) || !self.may_begin(&key, plan) {
                continue;
            }
            let target = self.target(backup);
            if step == Step::Run && target.as_ref().is_ok_and(is_unchecked) {
                continue;
            }
            let (context, backup) = (Arc::clone(&self.context), backup.clone());
            let stop = context.env.cancel.child_token();
            plan.add_stoppable(key, stop.clone(), async move {
                match step {
                    Step::Run => work::backup::run(&context, backup, target, stop).await,
                    Step::RunAgain { attempt } => {
                        work::backup::run_again(&context, backup, target, attempt, stop).await
                    }
                    Step::Cancel => work::backup::cancel(&context, backup, target).await,
                    Step::Fail(reason) => work::backup::give_up(&context, &backup, target, reason).await,
                    Step::FailVeleros(reason) => {
                        work::left::stop_backup(&context, &backup).await?;
                        work::backup::failed(&context, &backup, reason).await
                    }
                    Step::Operations | Step::CancelOperations => {
                        work::operations::backup(&context, backup, target).await
                    }
                    Step::Adopt => work::backup::adopt(&context, backup, target).await,
                }
            });
        }
    }

    /// Where a backup goes (api-and-controllers.md 5.2).
    fn target(&self, backup: &Backup) -> work::backup::Target {
        let named = &backup.spec.storage_location;
        let marked = self.world.locations.iter().find(|l| l.spec.default).map(|l| l.metadata.name.as_str());
        let default = marked.unwrap_or(&self.context.options.default_location);
        let name = if named.is_empty() { default } else { named };
        let what = if named.is_empty() { "the server default" } else { "the default" };
        let missing = if named.is_empty() { "does not exist" } else { "was not found" };
        self.world.locations.get(name).cloned().ok_or_else(|| {
            format!(
                "an existing backup storage location was not specified at backup creation time and {what} {name} {missing}. Please address this issue (see `velero backup-location -h` for options) and create a new backup. Error: backupstoragelocations.velero.io \"{name}\" not found"
            )
        })
    }

    fn restores(&self, plan: &mut Plan) {
        use phase::restore::Step;
        let options = &self.context.options;
        let runs = |restore: &&Restore| {
            restore.status.phase == Some(RestorePhase::InProgress)
                || matches!(
                    self.tasks.on(&Subject::Restore(restore.metadata.name.clone())),
                    Some(Running { key: Key::Restore(_), .. })
                )
        };
        let mut free =
            options.concurrent_restores.max(1).saturating_sub(self.world.restores.iter().filter(runs).count());
        let mut waiting: Vec<&Restore> = self.world.restores.iter().collect();
        waiting.sort_by_key(|r| (r.metadata.creation_timestamp, &r.metadata.name));
        for restore in waiting {
            let Some(step) = plan.due(phase::restore::step(restore, options.fail_in_progress)) else { continue };
            let part = match step {
                Step::Operations | Step::CancelOperations => Controller::RestoreOperations,
                Step::Finish => Controller::RestoreFinalizer,
                _ => Controller::Restore,
            };
            let name = restore.metadata.name.clone();
            let key = match step {
                Step::CleanUp => Key::CleanUp(name),
                Step::Fail(_) | Step::CancelOperations => Key::CancelRestore(name),
                _ => Key::Restore(name),
            };
            if !self.has(part) || !self.may_begin(&key, plan) {
                continue;
            }
            let backup = self.world.backups.get(&restore.spec.backup_name);
            let place =
                backup.and_then(|b| Some((b.clone(), self.world.locations.get(&b.spec.storage_location)?.clone())));
            // One that is in progress has its place already.
            if step == Step::Run {
                if place.as_ref().is_some_and(|(_, location)| is_unchecked(location)) {
                    continue;
                }
                if free == 0 {
                    continue;
                }
                free -= 1;
            }
            let context = Arc::clone(&self.context);
            let origin = step.runs().then(|| Origin::of(restore, &self.world));
            let restore = restore.clone();
            let stop = context.env.cancel.child_token();
            plan.add_stoppable(key, stop.clone(), async move {
                let origin = origin.unwrap_or_else(|| Err(Vec::new()));
                match step {
                    Step::CleanUp => work::restore::clean_up(&context, restore, place).await,
                    Step::Hold => work::restore::hold(&context, restore).await,
                    Step::Run => work::restore::run(&context, restore, origin, stop).await,
                    Step::RunAgain { attempt } => {
                        work::restore::run_again(&context, restore, origin, attempt, stop).await
                    }
                    Step::Fail(reason) => work::restore::give_up(&context, restore, place, reason).await,
                    Step::FailVeleros(reason) => {
                        work::left::stop_restore(&context, &restore).await?;
                        work::restore::failed(&context, &restore, reason).await
                    }
                    Step::Operations | Step::CancelOperations => {
                        work::operations::restore(&context, restore, place).await
                    }
                    Step::Finish => work::restore::finish(&context, restore, place).await,
                }
            });
        }
    }

    fn deletions(&self, plan: &mut Plan) {
        use phase::request::Step;
        if !self.has(Controller::BackupDeletion) {
            return;
        }
        // One deletion of a backup at a time, however many ask for it.
        let mut begun = BTreeMap::new();
        for request in self.world.delete_requests.iter() {
            let name = &request.spec.backup_name;
            let first = begun.entry(name.as_str()).or_insert(&request.metadata.name);
            if *first != &request.metadata.name {
                continue;
            }
            let Some(step) = plan.due(phase::request::deletion(request, plan.now)) else {
                // A finished one does not hold up the next.
                begun.remove(name.as_str());
                continue;
            };
            let runs = self.world.backups.get(name).is_some_and(work::deletion::is_running);
            // One that is only refused does not wait for the work on its backup.
            let key = if runs || step == Step::Forget {
                Key::Refusal(request.metadata.name.clone())
            } else {
                Key::Deletion(name.clone())
            };
            if !self.may_begin(&key, plan) {
                continue;
            }
            let (context, request) = (Arc::clone(&self.context), request.clone());
            let target = work::deletion::Target::of(&request, &self.world);
            plan.add(key, async move {
                match step {
                    Step::Answer => work::deletion::delete(&context, request, target).await,
                    Step::Forget => work::deletion::expire(&context, request).await,
                }
            });
        }
    }

    fn requests(&self, plan: &mut Plan) {
        use phase::request::Step;
        for request in self.world.download_requests.iter().filter(|_| self.has(Controller::DownloadRequest)) {
            let key = Key::Download(request.metadata.name.clone());
            let Some(step) = plan.due(phase::request::download(request, plan.now)) else { continue };
            if !self.may_begin(&key, plan) {
                continue;
            }
            let (context, request) = (Arc::clone(&self.context), request.clone());
            let target = work::download::Target::of(&request, &self.world);
            plan.add(key, async move {
                match step {
                    Step::Answer => work::download::answer(&context, request, target).await,
                    Step::Forget => work::download::expire(&context, request).await,
                }
            });
        }
        for request in self.world.status_requests.iter().filter(|_| self.has(Controller::ServerStatusRequest)) {
            let key = Key::Status(request.metadata.name.clone());
            let Some(step) = plan.due(phase::request::status(request, plan.now)) else { continue };
            if !self.may_begin(&key, plan) {
                continue;
            }
            let (context, request) = (Arc::clone(&self.context), request.clone());
            plan.add(key, async move {
                match step {
                    Step::Answer => work::status::answer(&context, request).await,
                    Step::Forget => work::status::expire(&context, request).await,
                }
            });
        }
    }
}
