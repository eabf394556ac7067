//! The plan, step after step, in worlds where steps fail: whatever fails for ever, the rest comes to its end.

mod cast;
mod expiries;
mod kept;
mod reasons;
mod year;
mod years;

use super::*;
use crate::server::step::{KeyedStep, ServerStep};
use crate::stub::{named, options};
use crate::unreadable_step;
use crate::work::StepError;
use crate::world::{MirrorChange, MirroredKind};
use cast::{Cast, Luck, Thing, cast};
use jiff::SignedDuration;
use lifeboat_api::{
    Backup, BackupPhase, BackupRepository, BackupStorageLocationPhase, DeleteBackupRequest, DeleteBackupRequestPhase,
    DownloadRequest, DownloadRequestPhase, KeptBy, ObjectMeta, Restore, RestorePhase, Schedule, ServerStatusRequest,
    ServerStatusRequestPhase, Time, UploaderType, well_known,
};
use lifeboat_client::ObjectIdentity;
use lifeboat_lifecycle::phase::queue::QueueMove;
use lifeboat_lifecycle::phase::{
    MOST_ATTEMPTS, attempt, note_attempt,
    restore::{FINALIZER, has_files},
};
use lifeboat_reconcile::MirrorEvent;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// The object that a step is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Object(MirroredKind, String);

/// A task that has begun.
struct Task {
    work: KeyedStep,
    ends: u64,
    end: End,
}

/// The way in which a task ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Well,
    Failed,
    /// Lost with all other tasks, and with the memory of the server.
    Lost,
}

/// An hour, in seconds.
const HANGS: u64 = 3600;

/// A server without a cluster: time passes, and steps succeed or fail as their objects are lucky.
struct Play {
    world: World,
    memory: Memory,
    options: Options,
    base: Instant,
    /// Milliseconds since the beginning.
    clock: u64,
    tasks: Vec<Task>,
    luck: HashMap<Object, (Luck, u64)>,
    /// Most backups and restores that may run at once.
    most: (usize, usize),
}

fn meta(name: String, n: usize, deleted: bool) -> ObjectMeta {
    let creation_timestamp = Some(Time::new(Timestamp::from_second(n as i64).unwrap()));
    let deletion_timestamp = deleted.then(|| Time::new(Timestamp::UNIX_EPOCH));
    ObjectMeta { uid: format!("uid-{name}"), name, creation_timestamp, deletion_timestamp, ..ObjectMeta::default() }
}

impl Play {
    fn new(cast: &Cast) -> Self {
        let mut play = Self {
            world: World::default(),
            memory: Memory::default(),
            options: options(cast.concurrent),
            base: Instant::now(),
            clock: 0,
            tasks: Vec::new(),
            luck: HashMap::new(),
            most: (cast.concurrent, cast.concurrent),
        };
        let location = |names: usize| if names == 3 { String::new() } else { format!("l{names}") };
        for (n, thing) in cast.backups.iter().enumerate() {
            let mut backup = Backup { metadata: meta(format!("b{n}"), n, thing.deleted), ..Backup::default() };
            backup.status.phase = thing.phase;
            backup.status.queue_position = if thing.phase == Some(BackupPhase::Queued) { n as i64 } else { 0 };
            backup.spec.cancel = thing.cancelled;
            backup.spec.storage_location = location(thing.names);
            backup.spec.included_namespaces = vec![format!("n{}", thing.names)];
            if thing.names % 2 == 0 {
                note_attempt(&mut backup.metadata, &mut backup.status.attempt, 1);
            }
            // Some are of a schedule, and some are not kept for ever.
            if n < 2 {
                backup.metadata.labels.insert(well_known::LABEL_SCHEDULE_NAME.into(), format!("c{n}"));
            }
            if thing.takes % 5 == 0 {
                let until = if thing.takes % 2 == 0 { "forever".to_owned() } else { play.now().0.to_string() };
                backup.metadata.annotations.insert(well_known::ANNOTATION_HOLD.into(), until);
            }
            if thing.takes % 3 == 0 {
                backup.status.expiration = Some(Time::new(play.now().0 + Duration::from_secs(thing.takes * 60)));
            }
            play.luck.insert(Object(MirroredKind::Backup, backup.metadata.name.clone()), (thing.luck, thing.takes));
            play.world.backups.put(backup);
        }
        for (n, thing) in cast.restores.iter().enumerate() {
            let mut restore = Restore { metadata: meta(format!("r{n}"), n, thing.deleted), ..Restore::default() };
            restore.status.phase = thing.phase;
            restore.spec.cancel = thing.cancelled;
            restore.spec.backup_name = format!("b{}", thing.names);
            if thing.names % 2 == 0 {
                restore.metadata.finalizers.push(FINALIZER.into());
                note_attempt(&mut restore.metadata, &mut restore.status.attempt, 1);
            }
            play.luck.insert(Object(MirroredKind::Restore, restore.metadata.name.clone()), (thing.luck, thing.takes));
            play.world.restores.put(restore);
        }
        for (n, thing) in cast.locations.iter().enumerate() {
            let mut location =
                BackupStorageLocation { metadata: meta(format!("l{n}"), n, false), ..Default::default() };
            let since =
                (well_known::ANNOTATION_WRITABLE_SINCE.to_owned(), Time::new(Timestamp::UNIX_EPOCH).to_string());
            location.metadata.annotations = [since].into();
            location.status.phase = thing.phase;
            location.spec.default = thing.cancelled;
            play.luck.insert(Object(MirroredKind::BackupStorageLocation, format!("l{n}")), (thing.luck, thing.takes));
            play.world.locations.put(location);
        }
        for (n, thing) in cast.deletions.iter().enumerate() {
            let mut request = DeleteBackupRequest { metadata: meta(format!("d{n}"), n, false), ..Default::default() };
            request.status.phase = thing.phase;
            request.spec.backup_name = format!("b{}", thing.names);
            play.luck.insert(Object(MirroredKind::DeleteBackupRequest, format!("d{n}")), (thing.luck, thing.takes));
            play.world.delete_requests.put(request);
        }
        for (n, thing) in cast.downloads.iter().enumerate() {
            let mut request = DownloadRequest { metadata: meta(format!("o{n}"), n, false), ..Default::default() };
            request.status.phase = thing.phase;
            play.luck.insert(Object(MirroredKind::DownloadRequest, format!("o{n}")), (thing.luck, thing.takes));
            play.world.download_requests.put(request);
        }
        for (n, thing) in cast.statuses.iter().enumerate() {
            let mut request = ServerStatusRequest { metadata: meta(format!("s{n}"), n, false), ..Default::default() };
            request.status.phase = thing.phase;
            play.luck.insert(Object(MirroredKind::ServerStatusRequest, format!("s{n}")), (thing.luck, thing.takes));
            play.world.status_requests.put(request);
        }
        for (n, thing) in cast.schedules.iter().enumerate() {
            let mut schedule = Schedule { metadata: meta(format!("c{n}"), n, thing.deleted), ..Schedule::default() };
            schedule.metadata.creation_timestamp = Some(Time::new(play.now().0));
            schedule.spec.schedule = ["@every 9h", "61 * * * *", "0 3 * * *", "@every 50m"][thing.names].into();
            schedule.spec.template.included_namespaces = vec!["n0".into()];
            schedule.spec.template.storage_location = "l0".into();
            schedule.spec.paused = thing.cancelled;
            let number = [Some(1), None, Some(-1), Some(0)][(thing.takes % 4) as usize];
            schedule.spec.retention =
                number.map(|n| lifeboat_api::Retention { keep_daily: Some(n), ..Default::default() });
            schedule.status.phase = thing.phase;
            play.luck.insert(Object(MirroredKind::Schedule, format!("c{n}")), (thing.luck, thing.takes));
            play.world.schedules.put(schedule);
        }
        for (n, thing) in cast.repositories.iter().enumerate() {
            let mut repository =
                BackupRepository { metadata: meta(format!("p{n}"), n, thing.deleted), ..Default::default() };
            repository.spec.repository_type = if thing.cancelled { UploaderType::Restic } else { UploaderType::Kopia };
            repository.spec.backup_storage_location = location(thing.names);
            repository.status.phase = thing.phase;
            if thing.takes % 3 == 0 {
                // It was prepared in another place.
                let place = (well_known::ANNOTATION_REPOSITORY_PLACE.to_owned(), "elsewhere".to_owned());
                repository.metadata.annotations = [place].into();
            }
            play.luck.insert(Object(MirroredKind::BackupRepository, format!("p{n}")), (thing.luck, thing.takes));
            play.world.repositories.put(repository);
        }
        for (n, (kind, phase, luck, deleted)) in cast.unreadable.iter().enumerate() {
            play.luck.insert(Object(*kind, format!("u{n}")), (*luck, 1));
            let mut metadata = serde_json::json!({"name": format!("u{n}"), "uid": format!("u{n}")});
            if *deleted && *kind == MirroredKind::Restore {
                metadata["finalizers"] = serde_json::json!([FINALIZER]);
                metadata["deletionTimestamp"] = "2026-11-22T00:00:00Z".into();
            }
            play.unreadable(*kind, &metadata, phase, "");
        }
        play.note_begun();
        play
    }

    /// A server that begins goes on with all that an earlier one has begun, however many it may begin itself: one whose steps
    /// fail again and again gives its place to another, and keeps it again after a restart.
    fn note_begun(&mut self) {
        let began = |phase| matches!(phase, Some(BackupPhase::ReadyToStart | BackupPhase::InProgress));
        self.most.0 = self.most.0.max(self.world.backups.iter().filter(|b| began(b.status.phase)).count());
        let began = |phase: Option<RestorePhase>| phase == Some(RestorePhase::InProgress);
        self.most.1 = self.most.1.max(self.world.restores.iter().filter(|r| began(r.status.phase)).count());
    }

    fn unreadable(&mut self, kind: MirroredKind, metadata: &serde_json::Value, phase: &str, message: &str) {
        let status = serde_json::json!({"phase": phase, "message": message});
        let object = serde_json::json!({"metadata": metadata, "spec": 1, "status": status});
        self.world.see(MirrorChange { kind, what: MirrorEvent::Applied(object.to_string().into()) });
    }

    fn now(&self) -> (Timestamp, Instant) {
        let now = Timestamp::from_second(1_000_000_000).unwrap() + Duration::from_millis(self.clock);
        (now, self.base + Duration::from_millis(self.clock))
    }

    /// Makes a plan, begins its steps, and moves on to the next moment at which something happens.
    fn turn(&mut self) {
        let now = self.now();
        let view = PlanInput { world: &self.world, options: &self.options, memory: &self.memory, now, explain: true };
        let plan = plan(view, self.tasks.iter().map(|task| &task.work.key));
        self.check_reasons(&plan);
        self.check_fates(&plan);
        self.world.left.clear();
        self.memory.looked(&self.world);
        for work in plan.work {
            self.memory.begins(&work, now.1);
            self.begin(work);
        }
        self.check();
        let next = [
            plan.wake.map(|at| at.duration_since(now.0)).and_then(|pause| u64::try_from(pause.as_millis()).ok()),
            plan.retry.map(|at| at.saturating_duration_since(now.1).as_millis() as u64),
            self.tasks.iter().map(|task| task.ends - self.clock).min(),
            Some(60_000),
        ];
        self.clock += next.into_iter().flatten().min().unwrap_or(0).max(1);
        let (ended, running) = std::mem::take(&mut self.tasks).into_iter().partition(|task| task.ends <= self.clock);
        self.tasks = running;
        let _: &Vec<Task> = &ended;
        for task in ended {
            match task.end {
                End::Failed => {
                    let now = self.now().1;
                    self.memory.failed(task.work.key, &StepError::Because("it is so".into()), now);
                }
                End::Well => {
                    self.memory.succeeded(&task.work.key, &[], self.now().1);
                    self.apply(task.work.step);
                }
                End::Lost => {
                    self.tasks.clear();
                    self.memory = Memory::default();
                    self.note_begun();
                    return;
                }
            }
        }
    }

    /// Asserts the rules that hold at every moment: of exclusion, and of places.
    fn check(&self) {
        let subjects: BTreeSet<Subject> = self.tasks.iter().map(|task| task.work.key.subject()).collect();
        assert_eq!(subjects.len(), self.tasks.len(), "two tasks work on one thing");
        let backups = self.tasks.iter().filter(|t| {
            use phase::backup::Step as S;
            matches!(&t.work.step, ServerStep::Backup(_, _, S::Run | S::RunAgain { .. }))
        });
        assert!(backups.count() <= self.most.0, "too many backups run");
        let restores =
            self.tasks.iter().filter(|t| matches!(&t.work.step, ServerStep::Restore(_, _, step) if step.runs()));
        assert!(restores.count() <= self.most.1, "too many restores run");
    }

    fn begin(&mut self, work: KeyedStep) {
        let object = object_of(&work);
        let (luck, takes) = self.luck.get_mut(&object).map(|(luck, takes)| (luck, *takes)).unwrap();
        let (end, takes) = match luck {
            Luck::Good | Luck::Bad(0) | Luck::Lost(0) => (End::Well, takes),
            Luck::Bad(left) => {
                *left -= 1;
                (End::Failed, takes)
            }
            Luck::None | Luck::NoneInTheMiddle => (End::Failed, takes),
            Luck::Lost(left) => {
                *left -= 1;
                (End::Lost, takes)
            }
            Luck::Hangs => {
                *luck = Luck::Good;
                (End::Lost, HANGS)
            }
        };
        if end != End::Failed || *luck == Luck::NoneInTheMiddle {
            match &work.step {
                ServerStep::Backup(backup, target, phase::backup::Step::Run) if target.is_ok() => {
                    self.in_progress(&backup.metadata.name, 1);
                }
                ServerStep::Backup(backup, target, phase::backup::Step::RunAgain { attempt }) if target.is_ok() => {
                    self.in_progress(&backup.metadata.name, *attempt);
                }
                ServerStep::Restore(restore, source, step) if step.runs() && source.origin.is_ok() => {
                    let mut restore = Restore::clone(restore);
                    let begun = attempt(&restore.metadata).unwrap_or(0) + 1;
                    assert!(begun <= MOST_ATTEMPTS);
                    restore.status.phase = Some(RestorePhase::InProgress);
                    note_attempt(&mut restore.metadata, &mut restore.status.attempt, begun);
                    self.world.restores.put(restore);
                }
                _ => {}
            }
        }
        self.tasks.push(Task { work, ends: self.clock + takes * 1000, end });
    }

    fn in_progress(&mut self, name: &str, attempt: u32) {
        assert!(attempt <= MOST_ATTEMPTS);
        self.change(name, |backup| {
            backup.status.phase = Some(BackupPhase::InProgress);
            note_attempt(&mut backup.metadata, &mut backup.status.attempt, attempt);
        });
    }

    /// Changes a backup, if it is still there.
    fn change(&mut self, name: &str, change: impl FnOnce(&mut Backup)) {
        if let Some(mut backup) = self.world.backups.get(&named(name)).cloned() {
            change(&mut backup);
            self.world.backups.put(backup);
        }
    }

    /// Changes the world as a step that succeeds does.
    fn apply(&mut self, step: ServerStep) {
        let now = Some(Time::new(self.now().0));
        match step {
            ServerStep::Unreadable(kind, object, step, _) => {
                use unreadable_step::Step as S;
                let (phase, message) = match step {
                    S::CleanUp => return self.world.restores.remove(&object.identity()),
                    S::Refuse if kind == MirroredKind::BackupStorageLocation => ("Unavailable", object.why.as_str()),
                    S::Refuse => ("FailedValidation", ""),
                    S::Fail => ("Failed", ""),
                };
                let metadata = serde_json::json!({"name": object.meta.name, "uid": object.meta.uid});
                self.unreadable(kind, &metadata, phase, message);
            }
            ServerStep::Mark { mut location, default } => {
                location.spec.default = default;
                self.world.locations.put(location);
            }
            ServerStep::Validate(mut location, known) => {
                if known.is_some() {
                    location.status.last_synced_time = now;
                }
                location.status.phase = Some(BackupStorageLocationPhase::Available);
                location.status.last_validation_time = now;
                self.world.locations.put(location);
            }
            ServerStep::Sync(mut location, _) => {
                location.status.last_synced_time = now;
                self.world.locations.put(location);
            }
            ServerStep::Sweep(_) => {}
            ServerStep::Queue(backup, to) => self.change(&backup.metadata.name, |backup| {
                (backup.status.phase, backup.status.queue_position) = match to {
                    QueueMove::Queue(position) | QueueMove::Renumber(position) => (Some(BackupPhase::Queued), position),
                    QueueMove::Start => (Some(BackupPhase::ReadyToStart), 0),
                };
            }),
            ServerStep::Backup(backup, target, step) => self.change(&backup.metadata.name, |backup| {
                use phase::backup::Step as S;
                backup.status.phase = Some(match step {
                    S::Run if target.is_err() => BackupPhase::FailedValidation,
                    S::Run | S::RunAgain { .. } | S::Finalize => BackupPhase::Completed,
                    S::LookAfter | S::CancelOperations => BackupPhase::Finalizing,
                    S::Cancel | S::Fail(_) | S::FailVeleros(_) => BackupPhase::Failed,
                });
            }),
            ServerStep::Restore(restore, source, step) => self.apply_restore(&restore.metadata.name, &source, step),
            ServerStep::Delete(request, _, request::Step::Forget) => {
                self.world.delete_requests.remove(&ObjectIdentity::of(&request.metadata));
            }
            ServerStep::Delete(mut request, _, request::Step::Answer) => {
                let backup = self.world.backups.get(&named(&request.spec.backup_name)).cloned();
                if let Some(backup) = backup.filter(|backup| !phase::facts::is_running(backup)) {
                    self.world.backups.remove(&ObjectIdentity::of(&backup.metadata));
                }
                request.status.phase = Some(DeleteBackupRequestPhase::Processed);
                self.world.delete_requests.put(request);
            }
            ServerStep::Download(mut request, ..) => {
                request.status.phase = Some(DownloadRequestPhase::Processed);
                request.status.expiration =
                    now.and_then(|now| now.timestamp().checked_add(SignedDuration::from_hours(9)).ok()).map(Time::new);
                self.world.download_requests.put(request);
            }
            ServerStep::Status(mut request, _) => {
                request.status.phase = Some(ServerStatusRequestPhase::Processed);
                request.status.processed_timestamp = now;
                self.world.status_requests.put(request);
            }
            ServerStep::Schedule(schedule, step) => self.apply_schedule(*schedule, step),
            ServerStep::Repository(mut repository, location, step) => {
                use phase::repository::{self, Step as S};
                match (step, location) {
                    (S::Prepare, Some(location)) => {
                        repository::note_ready(&mut repository, &location, Time::new(self.now().0));
                    }
                    (S::NotePlace, Some(location)) => repository::note_place(&mut repository, &location),
                    (S::Reestablish, _) => repository::note_not_ready(&mut repository, repository::REESTABLISH),
                    (_, None) => panic!("nothing is to be done without a location"),
                }
                self.world.repositories.put(*repository);
            }
            ServerStep::Maintain(mut repository, _) => {
                repository.status.last_maintenance_time = now;
                self.world.repositories.put(*repository);
            }
            ServerStep::Expire(backup, _, phase::expiry::Step::Prolong { until, by, note }) => {
                assert!(!by.is_empty());
                self.change(&backup.metadata.name, |backup| {
                    backup.status.expiration = Some(Time::new(until));
                    noted(backup, note.as_deref());
                });
            }
            ServerStep::Expire(backup, _, phase::expiry::Step::Record { note }) => {
                self.change(&backup.metadata.name, |backup| noted(backup, note.as_deref()));
            }
            ServerStep::Expire(backup, _, phase::expiry::Step::LabelFailure(obstacle)) => {
                self.change(&backup.metadata.name, |backup| {
                    backup.metadata.labels.insert(well_known::LABEL_GC_FAILURE.into(), obstacle.label().into());
                });
            }
            ServerStep::Expire(backup, _, phase::expiry::Step::Delete) => {
                let name = format!("{}-{}", backup.metadata.name, self.clock);
                let mut request = DeleteBackupRequest { metadata: meta(name.clone(), 0, false), ..Default::default() };
                request.metadata.creation_timestamp = now;
                request.metadata.labels.insert(well_known::LABEL_BACKUP_UID.into(), backup.metadata.uid.clone());
                request.spec.backup_name.clone_from(&backup.metadata.name);
                self.luck.insert(Object(MirroredKind::DeleteBackupRequest, name), (Luck::Good, 1));
                self.world.delete_requests.put(request);
            }
        }
    }

    fn apply_schedule(&mut self, mut schedule: Schedule, step: phase::schedule::Step) {
        use phase::schedule::Step as S;
        match step {
            S::Note(after) => schedule = *after,
            S::Postpone { .. } => panic!("nothing is to be done for a run that is postponed"),
            S::Run(run) => {
                let name = phase::schedule::run_name(&schedule.metadata.name, run.due);
                if self.world.backups.get(&named(&name)).is_none() {
                    let mut backup = schedule.backup();
                    let labels = std::mem::take(&mut backup.metadata.labels);
                    backup.metadata = ObjectMeta { labels, ..meta(name.clone(), 50, false) };
                    self.luck.insert(Object(MirroredKind::Backup, name), (Luck::Good, 20));
                    self.world.backups.put(backup);
                }
                schedule.status.last_backup = Some(Time::new(run.now));
                schedule.status.message.clear();
            }
        }
        self.world.schedules.put(schedule);
    }

    fn apply_restore(&mut self, name: &str, source: &work::restore::RestoreSource, step: phase::restore::Step) {
        use phase::restore::Step as S;
        let Some(mut restore) = self.world.restores.get(&named(name)).cloned() else { return };
        match step {
            S::CleanUp => return self.world.restores.remove(&ObjectIdentity::of(&restore.metadata)),
            S::AddFinalizer => restore.metadata.finalizers.push(FINALIZER.into()),
            S::RemoveFinalizer => restore.metadata.finalizers.retain(|finalizer| finalizer != FINALIZER),
            S::Run if source.origin.is_err() => restore.status.phase = Some(RestorePhase::FailedValidation),
            S::Run | S::RunAgain { .. } | S::Finalize => restore.status.phase = Some(RestorePhase::Completed),
            S::Fail(_) | S::FailVeleros(_) => restore.status.phase = Some(RestorePhase::Failed),
            S::LookAfter | S::CancelOperations => restore.status.phase = Some(RestorePhase::Finalizing),
        }
        self.world.restores.put(restore);
    }

    /// Objects that are not at their end, and could be.
    fn unfinished(&self) -> Vec<Object> {
        let is_hopeless = |object: &Object| matches!(self.luck[object].0, Luck::None | Luck::NoneInTheMiddle);
        // What is being deleted again and again shares the luck of its deletion.
        let is_unlucky = |request: &&DeleteBackupRequest| {
            is_hopeless(&Object(MirroredKind::DeleteBackupRequest, request.metadata.name.clone()))
        };
        let unlucky = self.world.delete_requests.iter().filter(is_unlucky);
        let unlucky: BTreeSet<&str> = unlucky.map(|request| request.spec.backup_name.as_str()).collect();
        let is_unlucky = |object: &Object| {
            let Object(kind, name) = object;
            *kind == MirroredKind::Backup
                && self.world.backups.get(&named(name)).is_some()
                && unlucky.contains(name.as_str())
        };
        self.not_over().into_iter().filter(|object| !is_hopeless(object) && !is_unlucky(object)).collect()
    }

    /// Objects that are not at their end.
    fn not_over(&self) -> Vec<Object> {
        let mut out = Vec::new();
        let mut add = |kind, name: &str, is_over: bool| {
            out.extend((!is_over).then(|| Object(kind, name.to_owned())));
        };
        for backup in self.world.backups.iter() {
            use BackupPhase as P;
            let is_over = matches!(
                backup.status.phase,
                Some(P::Completed | P::Failed | P::FailedValidation | P::Deleting | P::PartiallyFailed)
            );
            // One that the finalizer of another program holds is left alone.
            let is_left = backup.metadata.deletion_timestamp.is_some();
            add(MirroredKind::Backup, &backup.metadata.name, is_over || is_left);
        }
        for restore in self.world.restores.iter() {
            use RestorePhase as P;
            let is_over = matches!(restore.status.phase, Some(P::Completed | P::Failed | P::FailedValidation));
            let is_held = restore.metadata.finalizers.iter().any(|f| f == FINALIZER);
            let is_gone = restore.metadata.deletion_timestamp.is_some();
            add(
                MirroredKind::Restore,
                &restore.metadata.name,
                if is_gone { !is_held } else { is_over && is_held == has_files(restore) },
            );
        }
        for location in self.world.locations.iter() {
            let is_validated = location.status.last_validation_time.is_some();
            add(MirroredKind::BackupStorageLocation, &location.metadata.name, is_validated);
        }
        for request in self.world.delete_requests.iter() {
            let is_over = request.status.phase == Some(DeleteBackupRequestPhase::Processed);
            add(MirroredKind::DeleteBackupRequest, &request.metadata.name, is_over);
        }
        for request in self.world.download_requests.iter() {
            let is_over = request.status.phase == Some(DownloadRequestPhase::Processed);
            add(MirroredKind::DownloadRequest, &request.metadata.name, is_over);
        }
        for request in self.world.status_requests.iter() {
            let is_over = request.status.phase == Some(ServerStatusRequestPhase::Processed);
            add(MirroredKind::ServerStatusRequest, &request.metadata.name, is_over);
        }
        for repository in self.world.repositories.iter() {
            let place = named(&repository.spec.backup_storage_location);
            let next = phase::repository::next(repository, self.world.locations.get(&place));
            add(MirroredKind::BackupRepository, &repository.metadata.name, next == Decision::Rest);
        }
        for schedule in self.world.schedules.iter() {
            let is_left = schedule.spec.paused || schedule.metadata.deletion_timestamp.is_some();
            let is_over = schedule.status.phase.is_some() && schedule.spec.skip_immediately.is_some();
            add(MirroredKind::Schedule, &schedule.metadata.name, is_left || is_over);
        }
        for object in self.world.schedules.unreadable() {
            add(
                MirroredKind::Schedule,
                &object.meta.name,
                unreadable_step::step(MirroredKind::Schedule, object).is_none(),
            );
        }
        for object in self.world.backups.unreadable() {
            add(MirroredKind::Backup, &object.meta.name, unreadable_step::step(MirroredKind::Backup, object).is_none());
        }
        for object in self.world.restores.unreadable() {
            add(
                MirroredKind::Restore,
                &object.meta.name,
                unreadable_step::step(MirroredKind::Restore, object).is_none(),
            );
        }
        for object in self.world.locations.unreadable() {
            add(
                MirroredKind::BackupStorageLocation,
                &object.meta.name,
                unreadable_step::step(MirroredKind::BackupStorageLocation, object).is_none(),
            );
        }
        out
    }
}

/// Notes on a backup without a record what keeps it.
fn noted(backup: &mut Backup, note: Option<&KeptBy>) {
    let annotations = &mut backup.metadata.annotations;
    if let Some(note) = note {
        annotations.insert(well_known::ANNOTATION_KEPT_BY.into(), note.value());
    }
    phase::hold::agree_alone(annotations);
    phase::kept_by::agree_alone(annotations);
}

fn object_of(work: &KeyedStep) -> Object {
    let object = work.key.object();
    let (kind, key) = object.object();
    Object(kind, key.name.clone())
}

/// Four days.
const LONGEST: u64 = 4 * 24 * 3600 * 1000;

fn come_to_an_end(cast: &Cast) {
    let mut play = Play::new(cast);
    // Of what is gone or was refused there may be more to do after a moment in which all was done.
    let mut calm = 0;
    while calm < 20 {
        assert!(play.clock < LONGEST, "held up: {:?}", play.unfinished());
        play.turn();
        calm = if play.unfinished().is_empty() { calm + 1 } else { 0 };
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_fails_for_ever_holds_nothing_else_up(cast in cast()) {
        come_to_an_end(&cast);
    }
}

/// A restore that fails again and again gives its place to another, and then the server is lost: both have begun.
#[test]
fn a_server_that_begins_goes_on_with_all_that_has_begun() {
    let restore = |phase, luck, takes, names| Thing { phase, luck, takes, cancelled: false, deleted: false, names };
    let backup = |luck, takes| Thing { phase: None, luck, takes, cancelled: false, deleted: false, names: 0 };
    let phase = Some(BackupStorageLocationPhase::Available);
    come_to_an_end(&Cast {
        backups: vec![backup(Luck::Bad(2), 23), backup(Luck::Good, 1), backup(Luck::Good, 43)],
        restores: vec![
            restore(None, Luck::Lost(1), 1, 2),
            restore(Some(RestorePhase::InProgress), Luck::Bad(3), 43, 0),
        ],
        locations: vec![Thing { phase, luck: Luck::Good, takes: 1, cancelled: false, deleted: false, names: 0 }],
        deletions: vec![],
        downloads: vec![],
        statuses: vec![],
        unreadable: vec![],
        schedules: vec![],
        repositories: vec![],
        concurrent: 1,
    });
}
