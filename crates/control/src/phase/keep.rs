//! What keeps a backup whose time is over: a hold, or the rules of its schedule; and until when its expiration is moved for that.

use super::hold::Hold;
use super::retention::{Candidate, Reason, kept};
use super::schedule::run_time;
use super::taken_over::is_of_another_cluster;
use crate::cron::zone_of;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{Backup, BackupPhase, Retention, Schedule, Time};
use std::collections::BTreeMap;
use std::fmt;

/// Why a backup stays although its time is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// It is held.
    Hold(Hold),
    /// By rules of its schedule.
    Rules {
        /// The schedule.
        schedule: String,
        /// The rules.
        reasons: Vec<Reason>,
    },
    /// The rules of its schedule cannot be followed: until somebody mends them, all good backups of it stay.
    WrongRules {
        /// The schedule.
        schedule: String,
        /// What is wrong with them.
        why: String,
    },
}

impl fmt::Display for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hold(hold) => hold.fmt(f),
            Self::Rules { schedule, reasons } => write!(f, "kept by schedule {schedule}: {}", listed(reasons)),
            Self::WrongRules { schedule, why } => {
                write!(f, "kept, because the retention of schedule {schedule} cannot be followed: {why}")
            }
        }
    }
}

/// Reasons in one line.
fn listed(reasons: &[Reason]) -> String {
    reasons.iter().map(Reason::to_string).collect::<Vec<_>>().join(", ")
}

/// What keeps a backup, in one line.
#[must_use]
pub fn told(keepers: &[Keeper]) -> String {
    keepers.iter().map(Keeper::to_string).collect::<Vec<_>>().join("; ")
}

/// What the rules of one schedule keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    schedule: String,
    /// What is wrong with the rules.
    wrong: Option<String>,
    /// Names of backups, and by which rules they are kept.
    backups: BTreeMap<String, Vec<Reason>>,
}

impl Kept {
    /// Of the backups of a schedule, each with whether its deletion is asked for; `None` when the schedule has no rules. `zone`
    /// is that of schedules that name none.
    pub(crate) fn of<'b>(
        schedule: &Schedule,
        zone: &TimeZone,
        backups: impl Iterator<Item = (&'b Backup, bool)>,
    ) -> Option<Self> {
        let name = &schedule.metadata.name;
        match schedule.retention() {
            Ok(rules) => Some(Self::by(name, &rules?, &zone_of(&schedule.spec.schedule, zone), backups)),
            Err(why) => Some(Self::wrong(name, why, backups)),
        }
    }

    /// By these rules, whatever those of the schedule are. Backups that another cluster has made, whose schedule has the name of ours,
    /// are counted by themselves: they take no place of our own.
    pub(crate) fn by<'b>(
        schedule: &str,
        rules: &Retention,
        zone: &TimeZone,
        backups: impl Iterator<Item = (&'b Backup, bool)>,
    ) -> Self {
        let (others, own): (Vec<_>, Vec<_>) = backups.partition(|(backup, _)| is_of_another_cluster(backup));
        let of = |backups: Vec<(&Backup, bool)>| {
            let candidates = backups.into_iter().map(|(backup, asked)| candidate(schedule, backup, asked));
            let candidates: Vec<Candidate> = candidates.collect();
            let reasons = kept(rules, zone, &candidates);
            candidates.into_iter().map(|candidate| candidate.name).zip(reasons)
        };
        let backups = of(own).chain(of(others)).filter(|(_, reasons)| !reasons.is_empty()).collect();
        Self { schedule: schedule.to_owned(), wrong: None, backups }
    }

    /// When the rules cannot be followed, for this reason: all good backups.
    pub(crate) fn wrong<'b>(schedule: &str, why: String, backups: impl Iterator<Item = (&'b Backup, bool)>) -> Self {
        let good = backups.filter(|(backup, asked)| is_good(backup, *asked));
        let backups = good.map(|(backup, _)| (backup.metadata.name.clone(), Vec::new())).collect();
        Self { schedule: schedule.to_owned(), wrong: Some(why), backups }
    }

    /// What it says of a backup.
    pub(crate) fn keeper(&self, backup: &Backup) -> Option<Keeper> {
        let reasons = self.backups.get(&backup.metadata.name)?;
        let schedule = self.schedule.clone();
        Some(match &self.wrong {
            None => Keeper::Rules { schedule, reasons: reasons.clone() },
            Some(why) => Keeper::WrongRules { schedule, why: why.clone() },
        })
    }
}

/// Whether a backup could be restored, as far as its object tells; `asked`: its deletion is asked for.
fn is_good(backup: &Backup, asked: bool) -> bool {
    backup.status.phase == Some(BackupPhase::Completed) && backup.metadata.deletion_timestamp.is_none() && !asked
}

fn candidate(schedule: &str, backup: &Backup, asked: bool) -> Candidate {
    let (name, of) = (backup.metadata.name.clone(), stands_for(schedule, backup).unwrap_or(Timestamp::MIN));
    Candidate { name, of, is_good: is_good(backup, asked) }
}

/// A run may be ahead of the making of its backup by so much: the clock of the server may be a little fast.
const SKEW: SignedDuration = SignedDuration::from_mins(1);

/// The time that a backup of a schedule stands for: that of the run that it was made for, or else when it began. A run that is later
/// than the making of its backup is of a clock that was wrong, or of a name that somebody gave: with it, a backup would count as the
/// newest until that time comes, so it stands for the time when it was made, by the clock of the API server.
pub(crate) fn stands_for(schedule: &str, backup: &Backup) -> Option<Timestamp> {
    let made = backup.metadata.creation_timestamp.map(Time::timestamp);
    let Some(run) = run_time(schedule, &backup.metadata.name) else {
        return backup.status.start_timestamp.map(Time::timestamp).or(made);
    };
    Some(made.filter(|made| run.duration_since(*made) > SKEW).unwrap_or(run))
}

/// What is kept has its expiration moved when so much time is left, or half of its `ttl` where that is less.
const AHEAD: SignedDuration = SignedDuration::from_hours(24);
/// At least so much, so that a server has its turn before the time is over.
const LEAST_AHEAD: SignedDuration = SignedDuration::from_mins(1);
/// What is kept lasts for so long, beside the time that is left when it is moved again.
const STEP: SignedDuration = SignedDuration::from_hours(24);

/// How much time is left when the expiration of a backup is moved.
pub(crate) fn margin(backup: &Backup) -> SignedDuration {
    match backup.spec.ttl.nanoseconds() {
        ttl if ttl > 0 => SignedDuration::from_nanos(ttl / 2).clamp(LEAST_AHEAD, AHEAD),
        // That of the server's flag, which is not known here.
        _ => AHEAD,
    }
}

/// Until when a backup that is kept lasts: what a hold says, or else so long that it is looked at again before.
pub(crate) fn lasts_until(backup: &Backup, keepers: &[Keeper], now: Timestamp) -> Option<Timestamp> {
    let again = || now.saturating_add(STEP + margin(backup)).unwrap_or(Timestamp::MAX);
    let until = keepers.iter().map(|keeper| match keeper {
        Keeper::Hold(Hold::Until(end)) => *end,
        _ => again(),
    });
    // Times in resources have whole seconds; a part of one more keeps nothing from anybody.
    until.max().and_then(|until| Timestamp::from_second(until.as_second()).ok())
}

#[cfg(test)]
mod tests {
    use super::super::taken_over::note_taken_over;
    use super::*;
    use lifeboat_api::{Duration, well_known};

    fn at(text: &str) -> Timestamp {
        format!("2026-11-{text}Z").parse().unwrap()
    }

    fn backup(name: &str, phase: BackupPhase) -> Backup {
        let mut backup = Backup::default();
        backup.metadata.name = name.into();
        backup.status.phase = Some(phase);
        backup
    }

    fn nightly(annotation: Option<&str>) -> Schedule {
        let mut schedule = Schedule::default();
        schedule.metadata.name = "nightly".into();
        schedule.spec.schedule = "CRON_TZ=Europe/Berlin 30 0 * * *".into();
        let annotation = annotation.map(|text| (well_known::ANNOTATION_RETENTION.to_owned(), text.to_owned()));
        schedule.metadata.annotations = annotation.into_iter().collect();
        schedule
    }

    /// By the run that they were made for, in the zone of the schedule: that is the day before in UTC.
    #[test]
    fn a_schedule_keeps_what_its_rules_say() {
        use BackupPhase as P;
        let mut by_hand = backup("by-hand", P::Completed);
        by_hand.status.start_timestamp = Some(Time::new(at("20T22:59:00")));
        let all = [
            by_hand,
            backup("nightly-20261120233000", P::Completed),
            backup("nightly-20261121233000", P::Completed),
            backup("nightly-20261122233000", P::Completed),
            backup("nightly-20261123233000", P::PartiallyFailed),
        ];
        let found = |schedule: &Schedule| {
            let asked = |backup: &Backup| backup.metadata.name == "nightly-20261122233000";
            let kept = Kept::of(schedule, &TimeZone::UTC, all.iter().map(|backup| (backup, asked(backup))))?;
            Some(all.iter().map(|backup| kept.keeper(backup).map(|k| k.to_string()).unwrap_or_default()).collect())
        };
        assert_eq!(found(&nightly(None)), None::<Vec<String>>);
        let rules = |rules: &str| format!("kept by schedule nightly: {rules}");
        assert_eq!(
            found(&nightly(Some(r#"{"keepDaily": 3}"#))).unwrap(),
            [rules("daily 3"), rules("daily 2"), rules("last good, daily 1"), String::new(), String::new()]
        );
        let why = "kept, because the retention of schedule nightly cannot be followed: invalid annotation \
                   lifeboat.io/retention: it is no JSON object";
        assert_eq!(found(&nightly(Some("7"))).unwrap(), [why, why, why, "", ""]);
    }

    /// Two clusters with a schedule of the same name share a bucket.
    #[test]
    fn what_another_cluster_has_made_takes_no_place_of_our_own() {
        let of_days = |days: [u8; 3], minute: u8| {
            days.map(|day| backup(&format!("nightly-202611{day}23{minute}00"), BackupPhase::Completed))
        };
        let (mut own, mut others) = (of_days([20, 21, 22], 30), of_days([21, 22, 23], 50));
        // Its own, of before its server was installed anew.
        note_taken_over(&mut own[1].metadata, true);
        others.iter_mut().for_each(|backup| note_taken_over(&mut backup.metadata, false));
        let all = own.iter().chain(&others).map(|backup| (backup, false));
        let kept = Kept::of(&nightly(Some(r#"{"keepLast": 2}"#)), &TimeZone::UTC, all).unwrap();
        let names: Vec<&str> = kept.backups.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            ["nightly-20261121233000", "nightly-20261122233000", "nightly-20261122235000", "nightly-20261123235000"]
        );
    }

    #[test]
    fn a_backup_stands_for_its_run_unless_that_is_later_than_its_making() {
        let of = |name: &str, made: Option<&str>, began: Option<&str>| {
            let mut backup = backup(name, BackupPhase::Completed);
            let time = |text: Option<&str>| text.map(|text| Time::new(at(text)));
            backup.metadata.creation_timestamp = time(made);
            backup.status.start_timestamp = time(began);
            stands_for("nightly", &backup)
        };
        let (run, late) = ("nightly-20261122030000", Some("22T05:00:00"));
        for (name, made, began, expected) in [
            (run, None, None, Some("22T03:00:00")),
            (run, late, late, Some("22T03:00:00")),
            (run, Some("22T02:59:00"), late, Some("22T03:00:00")),
            (run, Some("22T02:58:59"), late, Some("22T02:58:59")),
            ("nightly-29991122030000", Some("22T02:58:59"), Some("30T00:00:00"), Some("22T02:58:59")),
            ("by-hand", Some("22T02:58:59"), late, late),
            ("by-hand", late, None, late),
            ("by-hand", None, None, None),
        ] {
            assert_eq!(of(name, made, began), expected.map(at), "{name} {made:?} {began:?}");
        }
    }

    #[test]
    fn what_is_kept_lasts_until_it_is_looked_at_again_and_what_is_held_until_its_end() {
        let now = at("22T00:00:00");
        let rules = Keeper::Rules { schedule: "s".into(), reasons: vec![Reason::LastGood] };
        let until = |text: &str| Keeper::Hold(Hold::Until(at(text)));
        let forever = || Keeper::Hold(Hold::Forever);
        for (ttl, keepers, left, expected) in [
            (0, vec![rules.clone()], 24 * 3600, Some("24T00:00:00")),
            (720 * 3600, vec![rules.clone()], 24 * 3600, Some("24T00:00:00")),
            (3600, vec![forever()], 1800, Some("23T00:30:00")),
            (20, vec![forever(), rules.clone()], 60, Some("23T00:01:00")),
            (20, vec![until("22T00:00:30")], 60, Some("22T00:00:30")),
            (20, vec![until("22T00:00:30"), rules.clone()], 60, Some("23T00:01:00")),
            (20, vec![until("27T00:00:00"), rules], 60, Some("27T00:00:00")),
            (20, vec![], 60, None),
        ] {
            let mut backup = Backup::default();
            backup.spec.ttl = Duration::from_secs(ttl);
            assert_eq!(margin(&backup).as_secs(), left, "{ttl}");
            assert_eq!(lasts_until(&backup, &keepers, now), expected.map(at), "{ttl} {keepers:?}");
        }
    }
}
