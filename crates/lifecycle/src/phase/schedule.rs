//! A schedule (velero: pkg/controller/schedule_controller.go): whether it is valid, and which run of it is due.
//!
//! A run is the newest time up to now at which the schedule was due, and its name is made of that time: whichever server makes
//! it, and however often, there is one backup of the name. After a long pause there is one run, not many.

use super::{CLOCK_SKEW, Decision};
use crate::cron::Cron;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use lifeboat_api::{Schedule, SchedulePhase, Time};
use serde::{Serialize, Serializer};

/// The next step for a schedule.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Change it to this: it says something that is not so any more, or not yet.
    Note(Box<Schedule>),
    /// Make the backup of a run.
    Run(ScheduledRun),
    /// A run is due since this time, and a backup before it has not ended.
    Postpone {
        /// The backup.
        behind: String,
        /// The time at which it was due.
        since: Timestamp,
    },
}

/// A run that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledRun {
    /// When it is due: the newest time up to now.
    pub due: Timestamp,
    /// The first time at which one was due since the last run; those between are left out.
    pub since: Timestamp,
    /// When it was decided.
    pub now: Timestamp,
}

/// The facts about the backups of a schedule.
pub trait Runs {
    /// The name of one that waits to begin, or is in progress.
    fn unfinished(&self) -> Option<String>;

    /// When the newest was made of those that were made until then, by the clock of the API server.
    fn newest(&self, until: Timestamp) -> Option<Timestamp>;
}

/// Defaults from the server's flags and environment.
#[derive(Clone, Copy, Debug)]
pub struct Defaults<'a> {
    /// True when a schedule without `skipImmediately` leaves out the run that is due when it is seen first.
    pub skip_immediately: bool,
    /// The zone of schedules that name none.
    pub zone: &'a TimeZone,
}

/// The longest name that the API server takes.
const LONGEST_NAME: usize = 253;

/// The name of the backup of a run. compat: Velero's form; always in UTC, because the clocks of other zones show some times twice.
pub fn run_name(schedule: &str, due: Timestamp) -> String {
    format!("{schedule}-{}", due.strftime("%Y%m%d%H%M%S"))
}

/// The time of the run that a backup of this name was made for; `None` for other names.
pub fn run_time(schedule: &str, backup: &str) -> Option<Timestamp> {
    let stamp = backup.strip_prefix(schedule)?.strip_prefix('-')?.as_bytes();
    if stamp.len() != 14 || !stamp.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |digits: &[u8]| digits.iter().fold(0, |number: i16, digit| number * 10 + i16::from(digit - b'0'));
    let [month, day, hour, minute, second] = [4, 6, 8, 10, 12].map(|at| number(&stamp[at..at + 2]) as i8);
    let parsed = DateTime::new(number(&stamp[..4]), month, day, hour, minute, second, 0).ok()?;
    TimeZone::UTC.to_timestamp(parsed).ok()
}

/// The message in the status of a schedule while a run is postponed.
pub fn postponed(behind: &str, since: Timestamp) -> String {
    format!("a run is due since {since}, and begins when backup {behind} has ended")
}

/// Decides the next step for the schedule at `now`, from its object and its backups alone.
pub fn step(schedule: &Schedule, runs: &impl Runs, defaults: Defaults<'_>, now: Timestamp) -> Decision<Step> {
    if schedule.metadata.deletion_timestamp.is_some() {
        return Decision::Rest;
    }
    if schedule.spec.paused {
        return without_message(schedule).map_or(Decision::Rest, Decision::Do);
    }
    let cron = valid(schedule, defaults.zone);
    let after = noted(schedule, cron.as_ref().err(), defaults, now);
    if after != *schedule {
        return Decision::Do(Step::Note(Box::new(after)));
    }
    let Ok(cron) = cron else { return Decision::Rest };
    let Some(last) = last(schedule, runs, now) else {
        let mut after = after;
        after.status.last_backup = Some(Time::new(now));
        return Decision::Do(Step::Note(Box::new(after)));
    };
    let next = cron.next(last);
    let Some(due) = cron.latest(last, now) else {
        let wait = || next.map_or(Decision::Rest, Decision::Wait);
        return without_message(schedule).map_or_else(wait, Decision::Do);
    };
    let since = next.unwrap_or(due);
    Decision::Do(match runs.unfinished() {
        Some(behind) => Step::Postpone { behind, since },
        None => Step::Run(ScheduledRun { due, since, now }),
    })
}

/// When the next run is due, or has been since: counted from what the status says. `None` for a schedule that is not valid.
pub fn next_run(schedule: &Schedule, zone: &TimeZone) -> Option<Timestamp> {
    let status = &schedule.status;
    let last = status.last_backup.or(schedule.metadata.creation_timestamp)?.timestamp();
    let skipped = status.last_skipped.map(Time::timestamp);
    valid(schedule, zone).ok()?.next(skipped.map_or(last, |skipped| last.max(skipped)))
}

/// Seconds from its next run to the one after; `None` when it has none.
pub fn interval(schedule: &Schedule, zone: &TimeZone, now: Timestamp) -> Option<i64> {
    let cron = valid(schedule, zone).ok()?;
    let next = cron.next(now)?;
    Some(cron.next(next)?.duration_since(next).as_secs())
}

/// The state of a schedule: whether it makes backups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleStanding {
    /// No server has looked at it yet.
    New,
    /// It does.
    Enabled,
    /// It is not valid.
    FailedValidation,
    /// It was told to rest.
    Paused,
}

impl ScheduleStanding {
    /// The standing that its status says.
    pub fn of(schedule: &Schedule) -> Self {
        match schedule.status.phase {
            _ if schedule.spec.paused => Self::Paused,
            None | Some(SchedulePhase::New) => Self::New,
            Some(SchedulePhase::Enabled) => Self::Enabled,
            Some(SchedulePhase::FailedValidation) => Self::FailedValidation,
        }
    }

    /// The word as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "New",
            Self::Enabled => "Enabled",
            Self::FailedValidation => "FailedValidation",
            Self::Paused => "Paused",
        }
    }
}

impl Serialize for ScheduleStanding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Returns the reason for which a server would refuse a schedule; `zone` is that of schedules that name none.
#[must_use]
pub fn refusal(schedule: &Schedule, zone: &TimeZone) -> Option<String> {
    valid(schedule, zone).err()
}

/// Its times, or why it has none.
fn valid(schedule: &Schedule, zone: &TimeZone) -> Result<Cron, String> {
    let text = &schedule.spec.schedule;
    if text.is_empty() {
        return Err("Schedule must be a non-empty valid Cron expression".to_owned());
    }
    let cron = Cron::parse(text, zone).map_err(|e| format!("invalid schedule: {e}"))?;
    let length = run_name(&schedule.metadata.name, Timestamp::UNIX_EPOCH).len();
    if length > LONGEST_NAME {
        return Err(format!(
            "invalid schedule: the names of its backups would have {length} characters, and may have {LONGEST_NAME}; give it a \
             shorter name"
        ));
    }
    schedule.retention()?;
    schedule.shrink_threshold()?;
    Ok(cron)
}

/// The schedule as it should be.
fn noted(schedule: &Schedule, wrong: Option<&String>, defaults: Defaults<'_>, now: Timestamp) -> Schedule {
    let mut after = schedule.clone();
    let skips = schedule.spec.skip_immediately.unwrap_or(defaults.skip_immediately);
    if skips {
        after.status.last_skipped = Some(Time::new(now));
    }
    // compat: the flag of the server counts once, and is written down.
    if skips || schedule.spec.skip_immediately.is_none() {
        after.spec.skip_immediately = Some(false);
    }
    after.status.validation_errors = wrong.cloned().into_iter().collect();
    after.status.phase = Some(if wrong.is_some() { SchedulePhase::FailedValidation } else { SchedulePhase::Enabled });
    if wrong.is_some() {
        after.status.message.clear();
    }
    after
}

/// Takes back what its status says of a run that is postponed, where it says that.
fn without_message(schedule: &Schedule) -> Option<Step> {
    let is_there = !schedule.status.message.is_empty();
    is_there.then(|| {
        let mut after = schedule.clone();
        after.status.message.clear();
        Step::Note(Box::new(after))
    })
}

/// Since when the next run is counted: the last run, or else the making of the schedule; a run that was left out later. `None`
/// when there were runs of which nothing is known but a time to come: then they are counted from now on.
fn last(schedule: &Schedule, runs: &impl Runs, now: Timestamp) -> Option<Timestamp> {
    let (status, made) = (&schedule.status, schedule.metadata.creation_timestamp.map(Time::timestamp));
    // What is further ahead is of a clock that was wrong: a schedule would rest until then.
    let until = now.saturating_add(CLOCK_SKEW).unwrap_or(Timestamp::MAX);
    let is_known = |at: &Timestamp| *at <= until;
    let last = match status.last_backup.map(Time::timestamp) {
        None => made?,
        Some(last) if is_known(&last) => last,
        Some(_) => runs.newest(until)?,
    };
    let skipped = status.last_skipped.map(Time::timestamp).filter(is_known);
    Some(skipped.map_or(last, |skipped| last.max(skipped)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("2026-11-{text}Z").parse().unwrap()
    }

    fn time(text: &str) -> Option<Time> {
        Some(Time::new(at(text)))
    }

    struct Known {
        unfinished: Option<&'static str>,
        newest: Option<Timestamp>,
    }

    impl Runs for Known {
        fn unfinished(&self) -> Option<String> {
            self.unfinished.map(str::to_owned)
        }

        fn newest(&self, until: Timestamp) -> Option<Timestamp> {
            self.newest.filter(|newest| *newest <= until)
        }
    }

    const NONE: Known = Known { unfinished: None, newest: None };
    const FLAGS: Defaults<'_> = Defaults { skip_immediately: false, zone: &TimeZone::UTC };

    /// Valid, every night at three, made on the 20th at noon.
    fn nightly() -> Schedule {
        let mut schedule = Schedule::default();
        schedule.metadata.name = "nightly".into();
        schedule.metadata.creation_timestamp = time("20T12:00:00");
        schedule.spec.schedule = "0 3 * * *".into();
        schedule.spec.skip_immediately = Some(false);
        schedule.status.phase = Some(SchedulePhase::Enabled);
        schedule
    }

    fn changed(change: impl FnOnce(&mut Schedule)) -> Schedule {
        let mut schedule = nightly();
        change(&mut schedule);
        schedule
    }

    fn run(due: &str, since: &str, now: &str) -> Decision<Step> {
        Decision::Do(Step::Run(ScheduledRun { due: at(due), since: at(since), now: at(now) }))
    }

    fn wait(until: &str) -> Decision<Step> {
        Decision::Wait(at(until))
    }

    #[test]
    fn the_newest_run_that_is_due_is_made_once() {
        let after = |last: &str| changed(|schedule| schedule.status.last_backup = time(last));
        for (what, schedule, now, expected) in [
            ("a new one waits for its time", nightly(), "20T12:00:01", wait("21T03:00:00")),
            ("it has come", nightly(), "21T03:00:00", run("21T03:00:00", "21T03:00:00", "21T03:00:00")),
            ("it has been", after("21T03:00:00"), "21T03:00:00", wait("22T03:00:00")),
            ("it was made late", after("21T17:00:00"), "21T17:00:01", wait("22T03:00:00")),
            ("one run for all", after("21T03:00:00"), "25T11:00:00", run("25T03:00:00", "22T03:00:00", "25T11:00:00")),
        ] {
            assert_eq!(step(&schedule, &NONE, FLAGS, at(now)), expected, "{what}");
        }
        assert_eq!(run_name("nightly", at("25T03:00:00")), "nightly-20261125030000");
    }

    #[test]
    fn a_run_waits_for_the_one_before() {
        let busy = Known { unfinished: Some("nightly-1"), newest: None };
        let postponed = Decision::Do(Step::Postpone { behind: "nightly-1".into(), since: at("21T03:00:00") });
        assert_eq!(step(&nightly(), &busy, FLAGS, at("23T04:00:00")), postponed);
        assert_eq!(step(&nightly(), &busy, FLAGS, at("20T13:00:00")), wait("21T03:00:00"));
        assert_eq!(
            super::postponed("nightly-1", at("21T03:00:00")),
            "a run is due since 2026-11-21T03:00:00Z, and begins when backup nightly-1 has ended"
        );
    }

    #[test]
    fn what_a_schedule_says_of_itself_is_kept_true() {
        let invalid = "invalid schedule: end of range (61) above maximum (59): 61";
        let empty = "Schedule must be a non-empty valid Cron expression";
        let long = "invalid schedule: the names of its backups would have 255 characters, and may have 253; give it a shorter name";
        let refused = |schedule: &mut Schedule, why: &str| {
            schedule.status.phase = Some(SchedulePhase::FailedValidation);
            schedule.status.validation_errors = vec![why.to_owned()];
        };
        type Change<'a> = &'a dyn Fn(&mut Schedule);
        let cases: [(&str, bool, Change<'_>, Change<'_>); 10] = [
            ("a new one", false, &|s| (s.status.phase, s.spec.skip_immediately) = (None, None), &|_| {}),
            (
                "a new one, and the server's flag",
                true,
                &|s| (s.status.phase, s.spec.skip_immediately) = (None, None),
                &|s| s.status.last_skipped = time("21T03:00:00"),
            ),
            ("the flag does not count twice", true, &|s| s.status.phase = None, &|_| {}),
            ("it says so itself", false, &|s| s.spec.skip_immediately = Some(true), &|s| {
                s.status.last_skipped = time("21T03:00:00");
            }),
            ("wrong", false, &|s| s.spec.schedule = "61 * * * *".into(), &|s| {
                s.spec.schedule = "61 * * * *".into();
                refused(s, invalid);
            }),
            (
                "wrong while a run is postponed",
                false,
                &|s| {
                    s.spec.schedule.clear();
                    s.status.message = "x".into();
                },
                &|s| {
                    s.spec.schedule.clear();
                    refused(s, empty);
                },
            ),
            ("a long name", false, &|s| s.metadata.name = "n".repeat(240), &|s| {
                s.metadata.name = "n".repeat(240);
                refused(s, long);
            }),
            ("mended", false, &|s| refused(s, invalid), &|_| {}),
            (
                "wrong otherwise",
                false,
                &|s| {
                    s.spec.schedule.clear();
                    refused(s, invalid);
                },
                &|s| {
                    s.spec.schedule.clear();
                    refused(s, empty);
                },
            ),
            (
                "paused while a run is postponed",
                false,
                &|s| {
                    s.spec.paused = true;
                    s.status.message = "x".into();
                },
                &|s| s.spec.paused = true,
            ),
        ];
        for (what, skip_immediately, before, after) in cases {
            let expected = Decision::Do(Step::Note(Box::new(changed(after))));
            let decided = step(&changed(before), &NONE, Defaults { skip_immediately, ..FLAGS }, at("21T03:00:00"));
            assert_eq!(decided, expected, "{what}");
        }
        let done = changed(|s| {
            s.status.message = "x".into();
            s.status.last_backup = time("21T03:00:00");
        });
        let expected = changed(|s| s.status.last_backup = time("21T03:00:00"));
        let decided = step(&done, &NONE, FLAGS, at("21T03:00:00"));
        assert_eq!(decided, Decision::Do(Step::Note(Box::new(expected))), "nothing is postponed any more");
    }

    #[test]
    fn a_run_is_known_by_the_name_of_its_backup() {
        let due = at("21T03:00:07");
        assert_eq!(run_time("a-b", &run_name("a-b", due)), Some(due));
        for name in
            ["a-b", "a-b-", "a-b-2026112103000", "a-b-20261121030007x", "a-c-20261121030007", "a-b-20261321030007"]
        {
            assert_eq!(run_time("a-b", name), None, "{name}");
        }
    }

    #[test]
    fn rules_that_cannot_be_followed_are_refused() {
        let refused = |change: &dyn Fn(&mut Schedule)| refusal(&changed(change), &TimeZone::UTC);
        let number = |number| Some(lifeboat_api::Retention { keep_weekly: Some(number), ..Default::default() });
        assert_eq!(refused(&|s| s.spec.retention = number(0)), None);
        let why = "invalid retention: keepWeekly is -1, and must not be negative";
        assert_eq!(refused(&|s| s.spec.retention = number(-1)).as_deref(), Some(why));
        let why = "invalid annotation lifeboat.io/retention: it is no JSON object";
        let annotation = ("lifeboat.io/retention".to_owned(), "4".to_owned());
        assert_eq!(refused(&|s| s.metadata.annotations = [annotation.clone()].into()).as_deref(), Some(why));
    }

    #[test]
    fn a_schedule_that_is_paused_deleted_or_refused_makes_nothing() {
        for (what, schedule) in [
            ("paused", changed(|s| s.spec.paused = true)),
            ("paused and never looked at", changed(|s| (s.spec.paused, s.status.phase) = (true, None))),
            ("deleted", changed(|s| s.metadata.deletion_timestamp = time("20T13:00:00"))),
            (
                "refused",
                changed(|s| {
                    s.spec.schedule = "@".into();
                    s.status.phase = Some(SchedulePhase::FailedValidation);
                    s.status.validation_errors = vec!["invalid schedule: unrecognized descriptor: @".into()];
                }),
            ),
        ] {
            assert_eq!(step(&schedule, &NONE, FLAGS, at("25T00:00:00")), Decision::Rest, "{what}");
        }
    }

    #[test]
    fn what_is_left_out_is_not_made_up_for() {
        let skipped = |last: Option<Time>| {
            changed(|s| (s.status.last_backup, s.status.last_skipped) = (last, time("22T03:30:00")))
        };
        for last in [None, time("20T13:00:00"), time("22T03:00:00")] {
            assert_eq!(step(&skipped(last), &NONE, FLAGS, at("22T03:30:00")), wait("23T03:00:00"), "{last:?}");
        }
        let later = skipped(time("23T03:00:00"));
        assert_eq!(step(&later, &NONE, FLAGS, at("23T03:00:00")), wait("24T03:00:00"));
        // As after the end of a pause.
        let after_pause = changed(|s| s.status.last_backup = time("20T13:00:00"));
        assert_eq!(
            step(&after_pause, &NONE, FLAGS, at("22T10:00:00")),
            run("22T03:00:00", "21T03:00:00", "22T10:00:00")
        );
    }

    #[test]
    fn a_clock_that_was_ahead_does_not_silence_a_schedule() {
        let ahead = |last: &str| changed(|s| s.status.last_backup = time(last));
        let made = |newest: &str| Known { unfinished: None, newest: Some(at(newest)) };
        // A little: it may be the run that is due now.
        assert_eq!(step(&ahead("21T03:00:00"), &NONE, FLAGS, at("21T02:59:30")), wait("22T03:00:00"));
        // By days, and what the API server says of its backups is right.
        assert_eq!(step(&ahead("27T03:00:00"), &made("21T03:00:01"), FLAGS, at("21T12:00:00")), wait("22T03:00:00"));
        let due = run("22T03:00:00", "22T03:00:00", "22T12:00:00");
        assert_eq!(step(&ahead("27T03:00:00"), &made("21T03:00:01"), FLAGS, at("22T12:00:00")), due);
        // By days, and so is the clock of the API server, or there are no backups: what was missed is not known.
        let counted = changed(|s| s.status.last_backup = time("22T12:00:00"));
        for runs in [made("27T03:00:01"), NONE] {
            let decided = step(&ahead("27T03:00:00"), &runs, FLAGS, at("22T12:00:00"));
            assert_eq!(decided, Decision::Do(Step::Note(Box::new(counted.clone()))));
            assert_eq!(step(&counted, &runs, FLAGS, at("22T12:00:01")), wait("23T03:00:00"));
        }
        let due = run("22T03:00:00", "21T03:00:00", "22T12:00:00");
        let skipped = changed(|s| s.status.last_skipped = time("27T03:00:00"));
        assert_eq!(step(&skipped, &NONE, FLAGS, at("22T12:00:00")), due, "left out in days to come");
        // The clock of this server is behind: nothing is known of the time before the schedule was made.
        assert_eq!(step(&nightly(), &NONE, FLAGS, at("10T00:00:00")), wait("21T03:00:00"));
    }
}
