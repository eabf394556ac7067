//! Five years of schedules in which servers die and clocks are wrong: each run that was due is made, and none twice. What is due
//! is counted beforehand, day by day, by other code than the plan's.

use super::*;
use jiff::civil::date;
use jiff::tz::TimeZone;
use lifeboat_api::{Schedule, well_known};
use lifeboat_lifecycle::phase::schedule::{ScheduledRun, Step as S};
use lifeboat_lifecycle::reference::{FieldValues as Values, text_of as text, times_of as counted};
use std::collections::BTreeMap;

/// The first look.
const BEGIN: &str = "2026-01-01T00:00:00Z";
/// As long as `lastBackup` can be wrong by a clock.
const LONGEST_JUMP: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Numbers that look random, the same for the same seed.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    pub(super) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub(super) fn up_to(&mut self, longest: SignedDuration) -> SignedDuration {
        SignedDuration::from_secs(self.below(longest.as_secs().unsigned_abs()) as i64)
    }
}

/// The runs of a schedule, known without asking the plan.
enum Due {
    /// All times.
    At(BTreeSet<Timestamp>),
    /// So many seconds after the last run.
    Every(i64),
}

/// A server that dies and begins anew, with a clock that may be wrong.
struct Years {
    world: World,
    memory: Memory,
    options: Options,
    base: Instant,
    /// By the clock of the API server.
    now: Timestamp,
    /// Time by which the clock of the server that leads is ahead of it.
    ahead: SignedDuration,
    dice: Dice,
    due: BTreeMap<String, Due>,
    /// The number of times that a backup of each name was made.
    made: BTreeMap<String, u32>,
    /// Backups that run, and until when.
    running: BTreeMap<String, Timestamp>,
    jumps: bool,
    late: usize,
    taken_over: usize,
}

impl Years {
    fn new(seed: u64, jumps: bool) -> Self {
        let now = BEGIN.parse().unwrap();
        let parts = ["backup", "backup-queue", "backup-finalizer", "backup-operations", "gc"];
        let disabled = parts.map(|name| name.parse().unwrap()).into();
        let mut years = Self {
            world: World::default(),
            memory: Memory { default_is_marked: true, ..Memory::default() },
            options: Options { disabled, ..options(1) },
            base: Instant::now(),
            now,
            ahead: SignedDuration::ZERO,
            dice: Dice(seed),
            due: BTreeMap::new(),
            made: BTreeMap::new(),
            running: BTreeMap::new(),
            jumps,
            late: 0,
            taken_over: 0,
        };
        let all = Values::all;
        for (name, zone, fields) in [
            ("gap", "Europe/Berlin", [Values::of(&[30]), Values::of(&[2]), all(1, 31), all(1, 12), all(0, 6)]),
            (
                "midnight",
                "America/Santiago",
                [Values::of(&[0]), Values::of(&[0]), all(1, 31), all(1, 12), Values::of(&[0, 3])],
            ),
            (
                "either",
                "UTC",
                [Values::of(&[15]), Values::of(&[6, 18]), Values::of(&[1, 15]), all(1, 12), Values::of(&[1])],
            ),
            (
                "hourly",
                "America/New_York",
                [Values::of(&[0]), all(0, 23), Values::of(&[1, 8]), Values::of(&[3, 11]), all(0, 6)],
            ),
        ] {
            let times = counted(&fields, &TimeZone::get(zone).unwrap(), date(2025, 11, 1), date(2031, 3, 1));
            years.put(name, &format!("CRON_TZ={zone} {}", text(&fields)));
            years.due.insert(name.into(), Due::At(times));
        }
        if !jumps {
            years.put("every", "@every 31h7m");
            years.due.insert("every".into(), Due::Every(31 * 3600 + 7 * 60));
        }
        years
    }

    fn put(&mut self, name: &str, times: &str) {
        let mut schedule = Schedule { metadata: meta(name.to_owned(), 0, false), ..Schedule::default() };
        schedule.metadata.creation_timestamp = Some(Time::new(self.now));
        schedule.spec.schedule = times.into();
        self.world.schedules.put(schedule);
    }

    /// The time by the clock of the server.
    fn clock(&self) -> Timestamp {
        self.now + self.ahead
    }

    fn moment(&self) -> Instant {
        self.base + Duration::from_secs(self.now.as_second().saturating_sub(1_700_000_000).unsigned_abs())
    }

    /// A server looks until nothing is to be done, and wants to look again at this time; or is killed.
    fn looks(&mut self) -> Option<Timestamp> {
        loop {
            let now = (self.clock(), self.moment());
            let view =
                PlanInput { world: &self.world, options: &self.options, memory: &self.memory, now, explain: true };
            let plan = plan(view, std::iter::empty());
            self.memory.looked(&self.world);
            if plan.work.is_empty() {
                // Of all that are held the ends of backups are waited for.
                let wake = plan.wake.unwrap_or(now.0 + SignedDuration::from_hours(1));
                self.check(wake);
                return Some(wake - self.ahead);
            }
            for work in plan.work {
                self.memory.begins(&work, now.1);
                let ServerStep::Schedule(schedule, step) = work.step else { panic!("{:?}", work.step) };
                if !self.does(*schedule, step) {
                    self.memory = Memory::default();
                    return None;
                }
            }
        }
    }

    /// Performs a step; false when the server is killed in it.
    fn does(&mut self, mut schedule: Schedule, step: S) -> bool {
        match step {
            S::Postpone { .. } => panic!("nothing is to be done for a run that is postponed"),
            S::Note(after) => self.world.schedules.put(*after),
            S::Run(run) => {
                let dies = if self.dice.one_in(12) { self.dice.below(3) } else { 3 };
                if dies == 0 {
                    return false;
                }
                self.make(&schedule, run);
                if dies == 1 {
                    return false;
                }
                schedule.status.last_backup = Some(Time::new(run.now));
                schedule.status.message.clear();
                self.world.schedules.put(schedule);
                return dies > 2;
            }
        }
        !self.dice.one_in(50)
    }

    fn make(&mut self, schedule: &Schedule, run: ScheduledRun) {
        let name = phase::schedule::run_name(&schedule.metadata.name, run.due);
        assert!(run.due <= run.now && run.since <= run.due, "{name} {run:?}");
        self.check_due(schedule, run);
        if self.world.backups.get(&named(&name)).is_some() {
            self.taken_over += 1;
            return;
        }
        *self.made.entry(name.clone()).or_default() += 1;
        let mut backup = schedule.backup();
        backup.metadata = ObjectMeta { labels: backup.metadata.labels, ..meta(name.clone(), 0, false) };
        backup.metadata.creation_timestamp = Some(Time::new(self.now));
        if self.dice.one_in(8) {
            backup.status.phase = Some(BackupPhase::InProgress);
            let until = self.now + self.dice.up_to(SignedDuration::from_hours(60));
            self.running.insert(name, until);
        } else {
            backup.status.phase = Some(BackupPhase::Completed);
        }
        assert_eq!(backup.metadata.labels[well_known::LABEL_SCHEDULE_NAME], schedule.metadata.name);
        self.world.backups.put(backup);
    }

    /// It is a time that was counted, and the newest.
    fn check_due(&mut self, schedule: &Schedule, run: ScheduledRun) {
        match &self.due[&schedule.metadata.name] {
            Due::At(times) => assert_eq!(times.range(..=run.now).next_back(), Some(&run.due), "{run:?}"),
            Due::Every(seconds) => {
                let last = schedule.status.last_backup.or(schedule.metadata.creation_timestamp).unwrap().timestamp();
                let passed = run.due.as_second() - last.as_second();
                assert_eq!(passed % seconds, 0, "{run:?} after {last}");
                assert!(run.now.as_second() - run.due.as_second() < *seconds, "{run:?} after {last}");
            }
        }
        self.late += usize::from(run.since < run.due);
    }

    /// When nothing is to be done, no run is missing, and the next is not overslept.
    fn check(&self, wake: Timestamp) {
        let clock = self.clock();
        for (name, due) in &self.due {
            let is_held = self.running.keys().any(|backup| backup.starts_with(&format!("{name}-")));
            let Due::At(times) = due else { continue };
            if is_held {
                continue;
            }
            // What was due before the schedule was made is of no interest.
            let made = self.world.schedules.get(&named(name)).unwrap().metadata.creation_timestamp.unwrap().timestamp();
            if let Some(latest) = times.range(..=clock).next_back().filter(|latest| **latest > made) {
                let run = phase::schedule::run_name(name, *latest);
                // A clock that was ahead has made another one since then.
                let is_newer = |backup: &Backup| {
                    let made = backup.metadata.creation_timestamp.map(Time::timestamp);
                    self.jumps && backup.metadata.name.starts_with(&format!("{name}-")) && made >= Some(*latest)
                };
                // When nothing is known but a time to come, runs are counted anew.
                let last = self.world.schedules.get(&named(name)).unwrap().status.last_backup;
                let is_counted = self.jumps && last.map(Time::timestamp) >= Some(*latest);
                let is_there = self.made.contains_key(&run) || self.world.backups.iter().any(is_newer) || is_counted;
                assert!(is_there, "{run} is missing at {clock}");
            }
            let next = times.range(clock + SignedDuration::from_secs(1)..).next();
            // A clock that was ahead may have made it already.
            let is_to_come = |next: &&Timestamp| !self.made.contains_key(&phase::schedule::run_name(name, **next));
            if let Some(next) = next.filter(|_| self.ahead.is_zero()).filter(is_to_come) {
                assert!(wake <= *next, "{name} at {next} would be overslept until {wake}");
            }
        }
    }

    /// Time passes until then; backups end meanwhile.
    fn pass(&mut self, until: Timestamp) {
        self.now = until.max(self.now + SignedDuration::from_secs(1));
        let ended: Vec<String> =
            self.running.iter().filter(|(_, until)| **until <= self.now).map(|(name, _)| name.clone()).collect();
        for name in ended {
            self.running.remove(&name);
            let mut backup = self.world.backups.get(&named(&name)).unwrap().clone();
            backup.status.phase = Some(BackupPhase::Completed);
            self.world.backups.put(backup);
        }
        let oldest = self.now - LONGEST_JUMP - LONGEST_JUMP - LONGEST_JUMP;
        let is_old =
            |backup: &&Backup| backup.metadata.creation_timestamp.is_some_and(|made| made.timestamp() < oldest);
        let old: Vec<ObjectIdentity> =
            self.world.backups.iter().filter(is_old).map(|backup| ObjectIdentity::of(&backup.metadata)).collect();
        old.iter().for_each(|backup| self.world.backups.remove(backup));
    }

    fn live(&mut self) {
        let end: Timestamp = "2031-01-01T00:00:00Z".parse().unwrap();
        while self.now < end {
            let next = match self.looks() {
                // The server is away for a moment, or for days.
                None if self.dice.one_in(3) => self.now + self.dice.up_to(SignedDuration::from_hours(80)),
                None => self.now + self.dice.up_to(SignedDuration::from_secs(20)),
                Some(wake) => self.running.values().copied().fold(wake, Ord::min),
            };
            if self.jumps && self.dice.one_in(15) {
                let jump = self.dice.up_to(LONGEST_JUMP);
                let jump = if self.dice.one_in(2) { SignedDuration::from_secs(jump.as_secs() / 9000) } else { jump };
                self.ahead = match self.dice.below(4) {
                    0 => jump,
                    1 => -jump,
                    _ => SignedDuration::ZERO,
                };
                continue;
            }
            self.pass(next);
        }
        let twice: Vec<&String> = self.made.iter().filter(|(_, count)| **count > 1).map(|(name, _)| name).collect();
        assert!(twice.is_empty(), "made twice: {twice:?}");
    }
}

#[test]
fn each_run_of_five_years_is_made_once_whatever_dies() {
    for seed in 0..2 {
        let mut years = Years::new(seed, false);
        years.live();
        assert!(years.made.len() > 3000, "{} runs", years.made.len());
        assert!(years.late > 50 && years.taken_over > 20, "{} late, {} taken over", years.late, years.taken_over);
    }
}

#[test]
fn no_run_is_made_twice_or_missing_when_clocks_jump() {
    for seed in 0..2 {
        let mut years = Years::new(seed, true);
        years.live();
        assert!(years.made.len() > 2000, "{} runs", years.made.len());
    }
}
