//! A cluster with its server, and what its steps do in it and in the bucket that it shares with others.

use super::super::years::Dice;
use super::super::*;
use super::promise::{Actor, Group, Numbers, Promise, Saved};
use crate::work::deletion::DeletionTarget;
use crate::work::sync::as_taken_over;
use jiff::tz::TimeZone;
use lifeboat_api::{BackupStorageLocation, BackupStorageLocationAccessMode, Retention};
use lifeboat_lifecycle::phase::backup_expiry::{BackupExpiry, ExpiryInput, expiries};
use lifeboat_lifecycle::phase::expiry::Step as E;
use lifeboat_lifecycle::phase::keep::Keeper;
use lifeboat_lifecycle::phase::kept_backups::rules_of;
use lifeboat_lifecycle::phase::kept_by::InForce;
use lifeboat_lifecycle::phase::request::is_of_expiry;
use lifeboat_lifecycle::phase::schedule::{ScheduledRun, Step as S, run_name};
use lifeboat_lifecycle::phase::taken_over::{is_of_another_cluster, note_source_cluster, note_taken_over};
use lifeboat_lifecycle::phase::writable::note_writable;
use lifeboat_lifecycle::phase::{CLOCK_SKEW, hold, kept_by};
use std::collections::BTreeMap;

pub(super) const MAIN: &str = "l0";

/// Records, with the cluster that their claims name.
pub(super) type Bucket = BTreeMap<String, (Backup, String)>;

/// The state that all clusters share.
pub(super) struct Shared {
    pub(super) bucket: Bucket,
    pub(super) promise: Promise,
    pub(super) dice: Dice,
    /// By the clock of the API servers.
    pub(super) now: Timestamp,
}

/// A cluster and its server.
pub(super) struct Site {
    pub(super) actor: Actor,
    pub(super) world: World,
    memory: Memory,
    options: Options,
    base: Instant,
    /// When it had looked into the bucket when its plan was made.
    synced: Timestamp,
    /// Time by which the clock of the server is ahead.
    pub(super) ahead: SignedDuration,
    /// Until when the server is away, and the bucket.
    pub(super) away: Timestamp,
    pub(super) out_of_reach: Timestamp,
    /// When it looks again.
    pub(super) looks: Timestamp,
    made: usize,
}

/// The origin of a request for the deletion of a backup.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker {
    Expiry,
    User,
}

/// The way in which a step ends.
enum End {
    Done,
    Failed(&'static str),
    /// The server is killed in it.
    Killed,
}

impl Site {
    pub(super) fn new(cluster: &str, takes_others: bool, now: Timestamp) -> Self {
        let parts = ["backup", "backup-queue", "backup-finalizer", "backup-operations"];
        let disabled = parts.map(|name| name.parse().unwrap()).into();
        let mut site = Self {
            actor: Actor { cluster: cluster.to_owned(), since: now, synced: now, takes_others },
            world: World::default(),
            memory: Memory::default(),
            options: Options { disabled, ..options(1) },
            base: Instant::now(),
            synced: now,
            ahead: SignedDuration::ZERO,
            away: now,
            out_of_reach: now,
            looks: now,
            made: 0,
        };
        site.install(now);
        site
    }

    /// An empty cluster with the location, which may be written.
    pub(super) fn install(&mut self, now: Timestamp) {
        self.world = World { cluster: self.actor.cluster.clone(), ..World::default() };
        let mut location = BackupStorageLocation { metadata: meta(MAIN.into(), 0, false), ..Default::default() };
        location.spec.default = true;
        location.spec.backup_sync_period = Some(lifeboat_api::Duration::from_secs(20 * 3600));
        location.spec.validation_frequency = Some(lifeboat_api::Duration::from_secs(3 * 86_400));
        if self.actor.takes_others {
            let told = (well_known::ANNOTATION_EXPIRE_OTHERS.to_owned(), "true".to_owned());
            location.metadata.annotations = [told].into();
        }
        self.world.locations.put(location);
        self.actor.since = now;
        self.forgets(now);
    }

    fn forgets(&mut self, now: Timestamp) {
        self.memory = Memory { default_is_marked: true, ..Memory::default() };
        self.looks = now;
    }

    pub(super) fn location(&self) -> BackupStorageLocation {
        self.world.locations.get(&named(MAIN)).unwrap().clone()
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.location().is_read_only()
    }

    pub(super) fn set_read_only(&mut self, read_only: bool, now: Timestamp) {
        let mut location = self.location();
        use BackupStorageLocationAccessMode::{ReadOnly, ReadWrite};
        if self.is_read_only() && !read_only {
            self.actor.since = now;
        }
        location.spec.access_mode = Some(if read_only { ReadOnly } else { ReadWrite });
        self.world.locations.put(location);
    }

    /// Returns true if it can let backups go.
    pub(super) fn can_act(&self, now: Timestamp) -> bool {
        let is_there = self.away <= now && self.out_of_reach <= now && !self.is_read_only();
        let hours = now.duration_since(self.actor.since.max(self.away).max(self.out_of_reach));
        is_there && hours > SignedDuration::from_hours(2)
    }

    pub(super) fn group(&self, schedule: &str) -> Group {
        (self.actor.cluster.clone(), schedule.to_owned())
    }

    /// The fate of a backup, as people are told.
    pub(super) fn told(&self, name: &str, now: Timestamp) -> String {
        let (world, clock) = (&self.world, self.clock(now));
        let lists = ExpiryInput {
            backups: world.backups.iter().cloned().collect(),
            schedules: world.schedules.iter().cloned().collect(),
            locations: world.locations.iter().cloned().collect(),
            cluster: world.cluster.clone(),
            ..ExpiryInput::default()
        };
        let found =
            expiries(&lists, &TimeZone::UTC, clock).into_iter().find(|expiry| expiry.backup.metadata.name == name);
        let told =
            |f: BackupExpiry| format!("{:?} {:?} {:?} {:?}", f.becomes, f.keepers, f.backup.metadata, f.backup.status);
        format!("{:?} looks at {}: {}", self.actor, self.looks, found.map(told).unwrap_or_default())
    }

    fn clock(&self, now: Timestamp) -> Timestamp {
        now + self.ahead
    }

    /// Looks until nothing is to be done.
    pub(super) fn look(&mut self, shared: &mut Shared) {
        let (now, clock) = (shared.now, self.clock(shared.now));
        let moment = self.base + Duration::from_secs(now.as_second().unsigned_abs() - 1_700_000_000);
        let ruled = self.ruled();
        let is_changed = !ruled.iter().all(|(group, numbers)| shared.promise.has_recorded(group, *numbers));
        ruled.into_iter().for_each(|(group, numbers)| shared.promise.stands(group, numbers));
        loop {
            let view = PlanInput {
                world: &self.world,
                options: &self.options,
                memory: &self.memory,
                now: (clock, moment),
                explain: false,
            };
            let plan = plan(view, std::iter::empty());
            self.synced = self.actor.synced;
            self.memory.looked(&self.world);
            if plan.work.is_empty() {
                let wake = plan.wake.map_or(now + SignedDuration::from_hours(48), |wake| wake - self.ahead);
                // A server may be busy for hours: nothing is a matter of minutes.
                let busy = now + SignedDuration::from_hours(20) + shared.dice.up_to(SignedDuration::from_hours(3));
                self.looks = wake.max(busy);
                break self.tell(shared);
            }
            for KeyedStep { key, step } in plan.work {
                let work = KeyedStep { key, step };
                self.memory.begins(&work, moment);
                match self.perform(work.step, shared) {
                    End::Done => self.memory.succeeded(&work.key, &[], moment),
                    End::Failed(why) => self.memory.failed(work.key, &StepError::Because(why.to_owned()), moment),
                    // Half of new rules may be written down, of which the model knows nothing.
                    End::Killed if is_changed => {}
                    End::Killed => return self.forgets(now + shared.dice.up_to(SignedDuration::from_hours(20))),
                }
            }
        }
    }

    /// The schedules with rules that stand.
    pub(super) fn ruled(&self) -> Vec<(Group, Numbers)> {
        let rules = |schedule: &Schedule| {
            Some((self.group(&schedule.metadata.name), numbers(schedule.spec.retention.as_ref()?)))
        };
        self.world.schedules.iter().filter_map(rules).collect()
    }

    /// Records the promises of schedules whose rules the server has written into the bucket.
    fn tell(&self, shared: &mut Shared) {
        if self.out_of_reach <= shared.now && !self.is_read_only() {
            self.ruled().into_iter().for_each(|(group, numbers)| shared.promise.is_recorded(group, numbers));
        }
    }

    fn perform(&mut self, step: ServerStep, shared: &mut Shared) -> End {
        match step {
            ServerStep::Validate(location, known) => self.validates(location, known.is_some(), shared),
            ServerStep::Sync(mut location, _) => {
                if self.out_of_reach > shared.now {
                    return End::Failed("the bucket is away");
                }
                self.syncs(shared);
                location.status.last_synced_time = Some(Time::new(self.clock(shared.now)));
                self.world.locations.put(location);
                End::Done
            }
            ServerStep::Schedule(schedule, step) => self.schedules(*schedule, step, shared),
            ServerStep::Expire(backup, location, step) => {
                let end = self.expires(*backup, step, shared);
                assert!(location.is_some());
                end
            }
            ServerStep::Delete(request, target, request::Step::Answer) => self.deletes(request, &target, shared),
            ServerStep::Delete(request, _, request::Step::Forget) => {
                self.world.delete_requests.remove(&ObjectIdentity::of(&request.metadata));
                End::Done
            }
            step => panic!("{step:?}"),
        }
    }

    /// Makes a request to delete a backup, as expiry does, or a user.
    pub(super) fn ask(&mut self, backup: &str, by: Asker, now: Timestamp) {
        self.made += 1;
        let metadata = meta(format!("{backup}-{}", self.made), 0, false);
        let mut request = DeleteBackupRequest { metadata, ..DeleteBackupRequest::default() };
        request.metadata.creation_timestamp = Some(Time::new(now));
        if by == Asker::Expiry {
            let by_expiry = (well_known::ANNOTATION_BY_EXPIRY.to_owned(), "true".to_owned());
            request.metadata.annotations = [by_expiry].into();
        }
        request.spec.backup_name = backup.to_owned();
        self.world.delete_requests.put(request);
    }

    /// As `work` does: nothing is deleted that is held, here or in its record.
    fn deletes(&mut self, mut request: DeleteBackupRequest, target: &DeletionTarget, shared: &mut Shared) -> End {
        let (name, clock) = (request.spec.backup_name.clone(), self.clock(shared.now));
        if self.out_of_reach > shared.now {
            return End::Failed("the bucket is away");
        }
        let backup = self.world.backups.get(&named(&name)).cloned();
        let is_held_elsewhere = |backup: &Backup| {
            let record = shared.bucket.get(&name);
            record.is_some_and(|(record, _)| hold::set_elsewhere(&backup.metadata, &record.metadata, clock).is_some())
        };
        if target.refusal(&request).is_some() || backup.as_ref().is_none_or(is_held_elsewhere) {
            request.status.phase = Some(DeleteBackupRequestPhase::Processed);
            self.world.delete_requests.put(request);
            return End::Done;
        }
        let is_of_expiry = is_of_expiry(&request);
        if is_of_expiry && shared.dice.one_in(3) {
            return End::Failed("claims have no volume yet");
        }
        if shared.dice.one_in(60) {
            return End::Killed;
        }
        if is_of_expiry {
            let actor = Actor { synced: self.synced, ..self.actor.clone() };
            shared.promise.goes(&name, &actor, shared.now);
        } else if let Some(saved) = shared.promise.saved.get(&name) {
            assert!(!saved.is_held, "{name} is held, and a user deletes it");
            let group = saved.of.clone();
            shared.promise.saved.remove(&name);
            shared.promise.may_end(&group);
            shared.promise.changes(&group, shared.now);
        }
        shared.bucket.remove(&name);
        backup.iter().for_each(|backup| self.world.backups.remove(&ObjectIdentity::of(&backup.metadata)));
        self.world.delete_requests.remove(&ObjectIdentity::of(&request.metadata));
        End::Done
    }

    fn validates(&mut self, mut location: BackupStorageLocation, syncs: bool, shared: &mut Shared) -> End {
        let (clock, is_there) = (self.clock(shared.now), self.out_of_reach <= shared.now);
        use BackupStorageLocationPhase::{Available, Unavailable};
        location.status.last_validation_time = Some(Time::new(clock));
        location.status.phase = Some(if is_there { Available } else { Unavailable });
        if is_there || self.is_read_only() {
            note_writable(&mut location, clock);
        }
        if syncs && is_there {
            self.syncs(shared);
            location.status.last_synced_time = Some(Time::new(clock));
        }
        self.world.locations.put(location);
        End::Done
    }

    fn syncs(&mut self, shared: &Shared) {
        self.actor.synced = shared.now;
        let location = self.location();
        for (name, (record, cluster)) in &shared.bucket {
            if self.world.backups.is_there(&named(name)) {
                continue;
            }
            let found = as_taken_over(record.clone(), &location, &BTreeMap::new(), self.clock(shared.now));
            let Some(mut backup) = found else { continue };
            note_taken_over(&mut backup.metadata, *cluster == self.actor.cluster);
            note_source_cluster(&mut backup.metadata, Some(cluster));
            self.made += 1;
            backup.metadata.uid = format!("{}-{}", self.actor.cluster, self.made);
            backup.metadata.creation_timestamp = Some(Time::new(shared.now));
            self.world.backups.put(backup);
        }
        let has_files = |backup: &&Backup| backup.status.phase.is_some_and(BackupPhase::has_contents);
        let is_gone = |backup: &&Backup| !shared.bucket.contains_key(&backup.metadata.name);
        let gone = self.world.backups.iter().filter(has_files).filter(is_gone);
        let gone: Vec<ObjectIdentity> = gone.map(|backup| ObjectIdentity::of(&backup.metadata)).collect();
        gone.iter().for_each(|gone| self.world.backups.remove(gone));
    }

    fn schedules(&mut self, mut schedule: Schedule, step: S, shared: &mut Shared) -> End {
        match step {
            S::Postpone { .. } => panic!("each backup ends at once"),
            S::Note(after) => self.world.schedules.put(*after),
            S::Run(run) => {
                self.make(&schedule, run, shared);
                if shared.dice.one_in(60) {
                    return End::Killed;
                }
                schedule.status.last_backup = Some(Time::new(run.now));
                self.world.schedules.put(schedule);
            }
        }
        End::Done
    }

    fn make(&mut self, schedule: &Schedule, run: ScheduledRun, shared: &mut Shared) {
        let (name, clock) = (run_name(&schedule.metadata.name, run.due), self.clock(shared.now));
        if self.world.backups.is_there(&named(&name)) || shared.bucket.contains_key(&name) {
            return;
        }
        let mut backup = schedule.backup();
        self.made += 1;
        backup.metadata = ObjectMeta { labels: backup.metadata.labels, ..meta(name.clone(), 0, false) };
        backup.metadata.uid = format!("{}-{}", self.actor.cluster, self.made);
        backup.metadata.creation_timestamp = Some(Time::new(shared.now));
        let annotations = &mut backup.metadata.annotations;
        if let Some(rules) = rules_of(schedule, &TimeZone::UTC) {
            let since = Some(Time::new(run.now));
            let rules = KeptBy { cluster: self.actor.cluster.clone(), since, ..rules };
            annotations.insert(well_known::ANNOTATION_KEPT_BY.into(), rules.value());
        }
        let is_shrunken = shared.dice.one_in(12);
        annotations
            .insert(well_known::ANNOTATION_NAMESPACED_ITEMS.into(), if is_shrunken { "0" } else { "100" }.to_owned());
        // As the server notes it when the backup begins.
        note_source_cluster(&mut backup.metadata, Some(&self.actor.cluster));
        let ttl = SignedDuration::from_nanos(backup.spec.ttl.nanoseconds());
        let status = &mut backup.status;
        (status.start_timestamp, status.completion_timestamp) = (Some(Time::new(clock)), Some(Time::new(clock)));
        status.expiration = Some(Time::new(clock + ttl));
        status.csi_volume_snapshots_attempted = i64::from(shared.dice.one_in(6));
        if self.out_of_reach > shared.now || self.is_read_only() {
            status.phase = Some(BackupPhase::Failed);
            return self.world.backups.put(backup);
        }
        let is_complete = !shared.dice.one_in(6);
        status.phase = Some(if is_complete { BackupPhase::Completed } else { BackupPhase::PartiallyFailed });
        let saved = Saved {
            of: self.group(&schedule.metadata.name),
            run: run.due,
            made: shared.now,
            end: shared.now + ttl,
            is_complete,
            // The first of all is what the others are compared with.
            is_shrunken,
            has_snapshots: status.csi_volume_snapshots_attempted > 0,
            is_held: false,
            is_released: false,
            free: shared.now,
        };
        shared.promise.changes(&saved.of, shared.now);
        shared.promise.saved.insert(name.clone(), saved);
        shared.bucket.insert(name, (backup.clone(), self.actor.cluster.clone()));
        self.world.backups.put(backup);
    }

    /// As `work` does: the bucket first.
    fn expires(&mut self, mut backup: Backup, step: E, shared: &mut Shared) -> End {
        let (name, now, clock) = (backup.metadata.name.clone(), shared.now, self.clock(shared.now));
        if let E::LabelFailure(obstacle) = &step {
            backup.metadata.labels.insert(well_known::LABEL_GC_FAILURE.into(), obstacle.label().into());
            self.world.backups.put(backup);
            return End::Done;
        }
        assert!(!self.is_read_only(), "{name}: {step:?}");
        if self.out_of_reach > now {
            return End::Failed("the bucket is away");
        }
        let is_own = !is_of_another_cluster(&backup, &self.actor.cluster);
        let end = backup.status.expiration.unwrap().timestamp();
        let Some((record, _)) = shared.bucket.get_mut(&name) else { return self.without_record(backup, step) };
        let recorded = record.status.expiration.unwrap().timestamp();
        let (own, there) = (&backup.metadata, &record.metadata);
        let (until, in_force) = match step {
            E::Delete => {
                let says_more = kept_by::says_more(&there.annotations, &own.annotations, is_own);
                if recorded <= clock && !says_more && hold::set_elsewhere(own, there, clock).is_none() {
                    if end.duration_since(now) > CLOCK_SKEW {
                        return End::Failed("the clock of the API server says that its time is not over");
                    }
                    self.ask(&name, Asker::Expiry, now);
                    return End::Done;
                }
                (end, InForce::No)
            }
            E::Prolong { until, by, note } => {
                assert!(until > end && !by.is_empty(), "{name} {until}");
                self.note(&mut backup, note.as_deref(), clock);
                let is_by_rules = by.iter().any(|by| matches!(by, Keeper::Rules { .. } | Keeper::WrongRules { .. }));
                (until, if is_by_rules { InForce::Yes } else { InForce::No })
            }
            E::Record { note } => {
                self.note(&mut backup, note.as_deref(), clock);
                (end, if note.is_some() { InForce::Yes } else { InForce::Unknown })
            }
            E::LabelFailure(_) => (end, InForce::Unknown),
        };
        let until = recorded.max(until).max(end);
        hold::agree(&mut backup.metadata.annotations, &mut record.metadata.annotations);
        kept_by::agree_beside(&mut backup.metadata.annotations, &mut record.metadata.annotations, is_own, in_force);
        record.status.expiration = Some(Time::new(until));
        if shared.dice.one_in(60) {
            return End::Killed;
        }
        backup.metadata.labels.remove(well_known::LABEL_GC_FAILURE);
        backup.status.expiration = Some(Time::new(until));
        self.world.backups.put(backup);
        End::Done
    }

    fn without_record(&mut self, mut backup: Backup, step: E) -> End {
        let until = match step {
            E::Delete => {
                self.world.backups.remove(&ObjectIdentity::of(&backup.metadata));
                return End::Done;
            }
            E::Prolong { until, .. } => Some(Time::new(until)),
            _ => backup.status.expiration,
        };
        backup.status.expiration = until;
        hold::agree_alone(&mut backup.metadata.annotations);
        kept_by::agree_alone(&mut backup.metadata.annotations);
        self.world.backups.put(backup);
        End::Done
    }

    fn note(&self, backup: &mut Backup, note: Option<&KeptBy>, clock: Timestamp) {
        if let Some(note) = note {
            let (cluster, since) = (self.actor.cluster.clone(), Some(Time::new(clock)));
            let note = KeptBy { cluster, since, ..note.clone() };
            backup.metadata.annotations.insert(well_known::ANNOTATION_KEPT_BY.into(), note.value());
        }
    }
}

fn numbers(rules: &Retention) -> Numbers {
    let of = |number: Option<i64>| number.map_or(0, |number| usize::try_from(number).unwrap());
    Numbers {
        last: of(rules.keep_last),
        days: of(rules.keep_daily),
        weeks: of(rules.keep_weekly),
        months: of(rules.keep_monthly),
    }
}
