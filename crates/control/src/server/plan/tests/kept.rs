//! Five years of schedules with rules of retention, and of holds, in which servers die and clocks are wrong: what is kept is what a
//! naive model keeps, and nothing that was promised goes.

use super::years::Dice;
use super::*;
use jiff::tz::TimeZone;
use lifeboat_api::{BackupStorageLocation, KeptBy, Retention};
use lifeboat_lifecycle::cron::zone_of;
use lifeboat_lifecycle::phase::expiry::Step as E;
use lifeboat_lifecycle::phase::facts::stands_for;
use lifeboat_lifecycle::phase::kept_backups::rules_of;
use lifeboat_lifecycle::phase::retention::RetentionCandidate;
use lifeboat_lifecycle::phase::schedule::{ScheduledRun, Step as S, run_name};
use lifeboat_lifecycle::phase::writable::note_writable;
use lifeboat_lifecycle::phase::{hold, kept_by};
use lifeboat_lifecycle::reference::keeps_by_rules;
use std::collections::BTreeMap;

const HOLD: &str = well_known::ANNOTATION_HOLD;
/// Time within which a backup that is no longer kept goes.
const SLACK: SignedDuration = SignedDuration::from_hours(48);

/// A record in the bucket.
struct Record {
    expiration: Timestamp,
    annotations: BTreeMap<String, String>,
}

fn noted(backup: &mut Backup, note: Option<&KeptBy>) {
    let said = note.map(|note| (well_known::ANNOTATION_KEPT_BY.to_owned(), note.value()));
    backup.metadata.annotations.extend(said);
}

/// A server that dies and begins anew, with a clock that may be wrong, and a bucket.
struct Keeping {
    world: World,
    memory: Memory,
    options: Options,
    base: Instant,
    /// By the clock of the API server.
    now: Timestamp,
    /// Time by which the clock of the server that leads is ahead of it.
    ahead: SignedDuration,
    jumps: bool,
    dice: Dice,
    bucket: BTreeMap<String, Record>,
    /// The backups of the model, by schedule.
    model: BTreeMap<String, Vec<Backup>>,
    /// When each backup was seen to be kept last.
    kept: BTreeMap<String, Timestamp>,
    deleted: usize,
    prolonged: usize,
    taken_over: usize,
}

impl Keeping {
    fn new(seed: u64, jumps: bool) -> Self {
        let parts = ["backup", "backup-queue", "backup-finalizer", "backup-operations", "backup-sync"];
        let disabled = parts.map(|name| name.parse().unwrap()).into();
        let mut play = Self {
            world: World::default(),
            memory: Memory { default_is_marked: true, ..Memory::default() },
            options: Options { disabled, ..options(1) },
            base: Instant::now(),
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            ahead: SignedDuration::ZERO,
            jumps,
            dice: Dice(seed),
            bucket: BTreeMap::new(),
            model: BTreeMap::new(),
            kept: BTreeMap::new(),
            deleted: 0,
            prolonged: 0,
            taken_over: 0,
        };
        let mut location = BackupStorageLocation { metadata: meta("l0".into(), 0, false), ..Default::default() };
        location.status.phase = Some(BackupStorageLocationPhase::Available);
        note_writable(&mut location, Timestamp::UNIX_EPOCH);
        location.status.last_validation_time = Some(Time::new(play.now));
        location.spec.validation_frequency = Some(lifeboat_api::Duration::ZERO);
        play.world.locations.put(location);
        let all = |numbers: [i64; 6]| {
            let [last, hourly, daily, weekly, monthly, yearly] = numbers.map(|n| (n >= 0).then_some(n));
            Retention {
                keep_last: last,
                keep_hourly: hourly,
                keep_daily: daily,
                keep_weekly: weekly,
                keep_monthly: monthly,
                keep_yearly: yearly,
                ..Retention::default()
            }
        };
        for (name, times, hours, rules) in [
            ("plain", "CRON_TZ=Europe/Berlin 30 2 * * *", 100, None),
            ("last-good", "30 2 * * *", 30, Some(all([-1; 6]))),
            ("often", "CRON_TZ=America/New_York 15 */12 * * *", 50, Some(all([3, 4, 4, 2, 3, -1]))),
            ("daily", "CRON_TZ=America/Santiago 0 0 * * *", 26, Some(all([-1, -1, 4, 3, -1, 3]))),
            ("weekly", "@weekly", 24 * 10, Some(all([0, -1, -1, 3, 2, 2]))),
            ("hours", "CRON_TZ=Europe/Berlin 0 * 1,25 3,10 *", 2, Some(all([-1, 6, -1, -1, 2, -1]))),
        ] {
            let mut schedule = Schedule { metadata: meta(name.to_owned(), 0, false), ..Schedule::default() };
            schedule.metadata.creation_timestamp = Some(Time::new(play.now));
            schedule.spec.schedule = times.into();
            schedule.spec.template.ttl = lifeboat_api::Duration::from_secs(hours * 3600);
            schedule.spec.template.storage_location = "l0".into();
            schedule.spec.retention = rules;
            play.world.schedules.put(schedule);
        }
        let location = play.world.locations.get(&named("l0")).unwrap();
        play.memory.validated.insert(named("l0"), (location.spec.clone(), play.base));
        play
    }

    fn clock(&self) -> Timestamp {
        self.now + self.ahead
    }

    /// A server looks until nothing is to be done, and wants to look again at this time; or is killed.
    fn looks(&mut self) -> Option<Timestamp> {
        loop {
            let moment = self.base + Duration::from_secs(self.now.as_second().unsigned_abs() - 1_700_000_000);
            let view = PlanInput {
                world: &self.world,
                options: &self.options,
                memory: &self.memory,
                now: (self.clock(), moment),
                explain: false,
            };
            let plan = plan(view, std::iter::empty());
            self.memory.looked(&self.world);
            if plan.work.is_empty() {
                self.check();
                return Some(plan.wake.unwrap() - self.ahead);
            }
            for work in plan.work {
                self.memory.begins(&work, moment);
                let goes_on = match work.step {
                    ServerStep::Schedule(schedule, step) => self.runs(*schedule, step),
                    ServerStep::Expire(backup, Some(_), step) => self.expires(*backup, step),
                    step => panic!("{step:?}"),
                };
                if !goes_on {
                    let validated = std::mem::take(&mut self.memory.validated);
                    self.memory = Memory { default_is_marked: true, validated, ..Memory::default() };
                    return None;
                }
            }
        }
    }

    /// Draws the number of writes of a step that are done before the server is killed; more than a step has when the
    /// server lives.
    fn writes(&mut self) -> u64 {
        if self.dice.one_in(40) { self.dice.below(2) } else { 9 }
    }

    fn runs(&mut self, mut schedule: Schedule, step: S) -> bool {
        match step {
            S::Postpone { .. } => panic!("each backup ends at once"),
            S::Note(after) => self.world.schedules.put(*after),
            S::Run(run) => {
                let writes = self.writes();
                if writes == 0 {
                    return false;
                }
                self.make(&schedule, run);
                if writes == 1 {
                    return false;
                }
                schedule.status.last_backup = Some(Time::new(run.now));
                self.world.schedules.put(schedule);
            }
        }
        true
    }

    fn make(&mut self, schedule: &Schedule, run: ScheduledRun) {
        let name = run_name(&schedule.metadata.name, run.due);
        if self.world.backups.get(&named(&name)).is_some() {
            return;
        }
        let mut backup = schedule.backup();
        backup.metadata = ObjectMeta { labels: backup.metadata.labels, ..meta(name.clone(), 0, false) };
        backup.metadata.creation_timestamp = Some(Time::new(self.now));
        backup.status.start_timestamp = Some(Time::new(self.clock()));
        let end = self.clock() + SignedDuration::from_nanos(backup.spec.ttl.nanoseconds());
        backup.status.expiration = Some(Time::new(end));
        let phase = if self.dice.one_in(6) { BackupPhase::PartiallyFailed } else { BackupPhase::Completed };
        backup.status.phase = Some(phase);
        if let Some(rules) = rules_of(schedule, &TimeZone::UTC) {
            backup.metadata.annotations.insert(well_known::ANNOTATION_KEPT_BY.into(), rules.value());
        }
        self.model.entry(schedule.metadata.name.clone()).or_default().push(backup.clone());
        self.bucket.insert(name, Record { expiration: end, annotations: BTreeMap::new() });
        self.world.backups.put(backup);
    }

    /// As `work` does: the bucket first.
    fn expires(&mut self, mut backup: Backup, step: E) -> bool {
        let (name, clock) = (backup.metadata.name.clone(), self.clock());
        let writes = self.writes();
        if writes == 0 {
            return false;
        }
        let recorded = self.bucket[&name].expiration;
        let own = backup.status.expiration.unwrap().timestamp();
        let until = match step {
            E::LabelFailure(_) => panic!("the location can be written"),
            E::Delete if recorded > clock => {
                self.taken_over += 1;
                own
            }
            E::Delete => {
                self.check_deletion(&backup);
                self.deleted += 1;
                self.bucket.remove(&name);
                self.world.backups.remove(&ObjectIdentity::of(&backup.metadata));
                return true;
            }
            E::Prolong { until, by, note } => {
                assert!(until > own && !by.is_empty(), "{name} {until}");
                self.check_kept(&backup);
                self.prolonged += 1;
                noted(&mut backup, note.as_deref());
                until
            }
            E::Record { note } => {
                noted(&mut backup, note.as_deref());
                own
            }
        };
        let record = self.bucket.get_mut(&name).unwrap();
        record.expiration = record.expiration.max(until);
        hold::agree(&mut backup.metadata.annotations, &mut record.annotations);
        kept_by::agree(&mut backup.metadata.annotations, &mut record.annotations, true);
        if writes == 1 {
            return false;
        }
        backup.status.expiration = Some(Time::new(record.expiration));
        self.world.backups.put(backup);
        true
    }

    fn own(&self, schedule: &str) -> Vec<Backup> {
        let own = |backup: &&Backup| backup.metadata.labels.get(well_known::LABEL_SCHEDULE_NAME).unwrap() == schedule;
        self.world.backups.iter().filter(own).cloned().collect()
    }

    /// The names of those that the model keeps of these by the rules of their schedule.
    fn promised(&self, schedule: &str, backups: &[Backup]) -> BTreeSet<String> {
        let found = self.world.schedules.get(&named(schedule)).unwrap();
        let Some(rules) = &found.spec.retention else { return BTreeSet::new() };
        let candidate = |backup: &Backup| RetentionCandidate {
            name: backup.metadata.name.clone(),
            stands_for: stands_for(schedule, backup).unwrap(),
            is_good: backup.status.phase == Some(BackupPhase::Completed),
        };
        let candidates: Vec<RetentionCandidate> = backups.iter().map(candidate).collect();
        let kept = keeps_by_rules(rules, &zone_of(&found.spec.schedule, &TimeZone::UTC), &candidates);
        let place = |candidate: &RetentionCandidate| (candidate.stands_for, candidate.name.clone());
        let newest = |is_good| candidates.iter().filter(|one| one.is_good == is_good).map(place).max();
        let with_errors = newest(false).filter(|place| Some(place) > newest(true).as_ref()).map(|(_, name)| name);
        let kept = candidates.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(candidate, _)| candidate.name);
        kept.chain(with_errors).collect()
    }

    /// Something keeps what is prolonged.
    fn check_kept(&mut self, backup: &Backup) {
        let (name, clock) = (&backup.metadata.name, self.clock());
        self.kept.insert(name.clone(), clock);
        if !self.dice.one_in(50) {
            return;
        }
        let schedule = &backup.metadata.labels[well_known::LABEL_SCHEDULE_NAME];
        let is_promised = self.promised(schedule, &self.own(schedule)).contains(name);
        assert!(is_promised || backup.metadata.annotations.contains_key(HOLD), "{name} is prolonged at {clock}");
    }

    fn check_deletion(&mut self, backup: &Backup) {
        let (name, clock) = (&backup.metadata.name, self.clock());
        let schedule = backup.metadata.labels[well_known::LABEL_SCHEDULE_NAME].clone();
        assert!(backup.status.expiration.unwrap().timestamp() <= clock, "{name} goes too early");
        assert!(!backup.metadata.annotations.contains_key(HOLD), "{name} is held");
        if self.dice.one_in(4) {
            let promised = self.promised(&schedule, &self.own(&schedule));
            assert!(!promised.contains(name), "{name} was promised");
        }
    }

    /// When nothing is to be done: what is kept is what the model has kept, and what is not kept goes soon.
    fn check(&mut self) {
        // The model takes its time.
        if self.jumps || !self.dice.one_in(50) {
            return;
        }
        let (clock, names) = (self.clock(), self.model.keys().cloned().collect::<Vec<_>>());
        for schedule in names {
            let own = self.own(&schedule);
            let mut model = self.model.remove(&schedule).unwrap();
            let promised = self.promised(&schedule, &model);
            let ttl = |backup: &Backup| SignedDuration::from_nanos(backup.spec.ttl.nanoseconds());
            let end = |backup: &Backup| backup.status.start_timestamp.unwrap().timestamp() + ttl(backup);
            model.retain(|backup| promised.contains(&backup.metadata.name) || end(backup) > clock);
            assert_eq!(self.promised(&schedule, &own), promised, "{schedule} at {clock}");
            let names: BTreeSet<&String> = own.iter().map(|backup| &backup.metadata.name).collect();
            for backup in &model {
                assert!(names.contains(&backup.metadata.name), "{} is missing at {clock}", backup.metadata.name);
            }
            self.model.insert(schedule, model);
            for backup in &own {
                let name = &backup.metadata.name;
                if promised.contains(name) || backup.metadata.annotations.contains_key(HOLD) {
                    self.kept.insert(name.clone(), clock);
                    assert!(
                        backup.status.expiration.unwrap().timestamp() > clock,
                        "{name} is kept, and looks as if it was over"
                    );
                    continue;
                }
                let last = self.kept.get(name).copied().unwrap_or(clock).max(end(backup));
                let expiration = backup.status.expiration.unwrap().timestamp();
                // The last look at which it was kept may have been up to some looks ago.
                let latest = last.max(end(backup)) + SLACK + SLACK;
                assert!(
                    expiration <= latest,
                    "{name} stays until {expiration} though nothing keeps it since {last}, at {clock}"
                );
                assert!(expiration > clock, "{name} should be gone at {clock}");
            }
        }
    }

    /// A user holds a backup or releases one.
    fn holds(&mut self) {
        let all: Vec<Backup> = self.world.backups.iter().cloned().collect();
        if all.is_empty() {
            return;
        }
        let mut backup = all[self.dice.below(all.len() as u64) as usize].clone();
        if backup.metadata.annotations.remove(HOLD).is_none() {
            backup.metadata.annotations.insert(HOLD.into(), "forever".into());
        }
        self.world.backups.put(backup);
        // Not too many are held.
        for mut backup in all.into_iter().filter(|backup| backup.metadata.annotations.contains_key(HOLD)).skip(3) {
            backup.metadata.annotations.remove(HOLD);
            self.world.backups.put(backup);
        }
    }

    fn live(&mut self, end: &str) {
        let end: Timestamp = end.parse().unwrap();
        while self.now < end {
            let next = match self.looks() {
                None if self.dice.one_in(3) => self.now + self.dice.up_to(SignedDuration::from_hours(80)),
                None => self.now + self.dice.up_to(SignedDuration::from_secs(20)),
                Some(wake) => wake,
            };
            if self.dice.one_in(200) {
                self.holds();
                continue;
            }
            if self.jumps && self.dice.one_in(60) {
                let jump = self.dice.up_to(SignedDuration::from_hours(30 * 24));
                self.ahead = match self.dice.below(4) {
                    0 => jump,
                    1 => -jump,
                    _ => SignedDuration::ZERO,
                };
                continue;
            }
            self.now = next.max(self.now + SignedDuration::from_secs(1));
        }
    }
}

#[test]
fn what_is_kept_for_five_years_is_what_the_rules_promise() {
    let mut play = Keeping::new(0, false);
    play.live("2031-01-01T00:00:00Z");
    let counts = (play.deleted, play.prolonged, play.taken_over, play.world.backups.len());
    assert!(play.deleted > 2000 && play.prolonged > 5000, "{counts:?}");
    assert!(play.taken_over > 0, "a server dies between the bucket and the cluster");
}

#[test]
fn nothing_goes_that_the_rules_promise_whatever_the_clocks_say() {
    let mut play = Keeping::new(1, true);
    play.live("2028-01-01T00:00:00Z");
    let counts = (play.deleted, play.prolonged, play.taken_over, play.world.backups.len());
    assert!(play.deleted > 700 && play.prolonged > 2000, "{counts:?}");
}
