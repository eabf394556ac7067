//! What keeps a backup whose time is over: a hold, or the rules of its schedule; and until when its expiration is moved for that.

use super::facts::{deletion_has_begun, is_good, stands_for};
use super::hold::Hold;
use super::retention::{Candidate, Rule, kept};
use super::taken_over::is_of_another_cluster;
use crate::cron::zone_of;
use jiff::tz::TimeZone;
use jiff::{RoundMode, SignedDuration, Timestamp, TimestampRound, Unit};
use lifeboat_api::{Backup, Retention, Schedule};
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
        rules: Vec<Rule>,
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
            Self::Rules { schedule, rules } => write!(f, "kept by schedule {schedule}: {}", listed(rules)),
            Self::WrongRules { schedule, why } => {
                write!(f, "kept, because the retention of schedule {schedule} cannot be followed: {why}")
            }
        }
    }
}

/// Rules in one line.
fn listed(rules: &[Rule]) -> String {
    rules.iter().map(Rule::to_string).collect::<Vec<_>>().join(", ")
}

/// What keeps a backup, in one line.
#[must_use]
pub fn describe(keepers: &[Keeper]) -> String {
    keepers.iter().map(Keeper::to_string).collect::<Vec<_>>().join("; ")
}

/// What keeps a backup at this time: its hold, then the rules of its schedule; `kept` is what these keep. What is half gone is not
/// kept any more.
pub(crate) fn keepers(backup: &Backup, kept: Option<&Kept>, now: Timestamp) -> Vec<Keeper> {
    if deletion_has_begun(backup) {
        return Vec::new();
    }
    let hold = Hold::at(&backup.metadata, now).map(Keeper::Hold);
    hold.into_iter().chain(kept.and_then(|kept| kept.keeper(backup))).collect()
}

/// What the rules of one schedule keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    schedule: String,
    /// What is wrong with the rules.
    wrong: Option<String>,
    /// Names of backups, and by which rules they are kept.
    backups: BTreeMap<String, Vec<Rule>>,
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
            let by_rules = kept(rules, zone, &candidates);
            candidates.into_iter().map(|candidate| candidate.name).zip(by_rules)
        };
        let backups = of(own).chain(of(others)).filter(|(_, rules)| !rules.is_empty()).collect();
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
        let rules = self.backups.get(&backup.metadata.name)?;
        let schedule = self.schedule.clone();
        Some(match &self.wrong {
            None => Keeper::Rules { schedule, rules: rules.clone() },
            Some(why) => Keeper::WrongRules { schedule, why: why.clone() },
        })
    }
}

fn candidate(schedule: &str, backup: &Backup, asked: bool) -> Candidate {
    let stands_for = stands_for(schedule, backup).unwrap_or(Timestamp::MIN);
    Candidate { name: backup.metadata.name.clone(), stands_for, is_good: is_good(backup, asked) }
}

/// What is kept has its expiration moved when so much time is left, or half of its `ttl` where that is less.
const MARGIN: SignedDuration = SignedDuration::from_hours(24);
/// At least so much, so that a server has its turn before the time is over.
const LEAST_MARGIN: SignedDuration = SignedDuration::from_mins(1);
/// What is kept lasts for so long, beside the time that is left when it is moved again.
const PROLONGED_BY: SignedDuration = SignedDuration::from_hours(24);

/// How much time is left when the expiration of a backup is moved.
pub(crate) fn margin(backup: &Backup) -> SignedDuration {
    match backup.spec.ttl.nanoseconds() {
        ttl if ttl > 0 => SignedDuration::from_nanos(ttl / 2).clamp(LEAST_MARGIN, MARGIN),
        // That of the server's flag, which is not known here.
        _ => MARGIN,
    }
}

/// Until when a backup that is kept lasts: what a hold says, or else so long that it is looked at again before.
pub(crate) fn lasts_until(backup: &Backup, keepers: &[Keeper], now: Timestamp) -> Option<Timestamp> {
    let again = || now.saturating_add(PROLONGED_BY + margin(backup)).unwrap_or(Timestamp::MAX);
    let until = keepers.iter().map(|keeper| match keeper {
        Keeper::Hold(Hold::Until(end)) => *end,
        _ => again(),
    });
    // Times in resources have whole seconds: never before the hold ends.
    let whole = TimestampRound::new().smallest(Unit::Second).mode(RoundMode::Ceil);
    until.max().map(|until| until.round(whole).unwrap_or(until))
}

#[cfg(test)]
mod tests {
    use super::super::taken_over::note_taken_over;
    use super::*;
    use lifeboat_api::{BackupPhase, Duration, Time, well_known};

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
    fn a_hold_keeps_and_then_the_rules_until_the_deletion_has_begun() {
        let now = at("22T00:00:00");
        let mut one = backup("nightly-20261121233000", BackupPhase::Completed);
        let kept = Kept::of(&nightly(Some("{}")), &TimeZone::UTC, [(&one, false)].into_iter()).unwrap();
        let rules = "kept by schedule nightly: last good";
        assert_eq!(describe(&keepers(&one, Some(&kept), now)), rules);
        assert_eq!(describe(&keepers(&one, None, now)), "");
        one.metadata.annotations.insert(well_known::ANNOTATION_HOLD.into(), "2026-11-22T00:00:01Z".into());
        let hold = "held until 2026-11-22T00:00:01Z";
        assert_eq!(describe(&keepers(&one, Some(&kept), now)), format!("{hold}; {rules}"));
        assert_eq!(describe(&keepers(&one, Some(&kept), at("22T00:00:01"))), rules);
        one.status.phase = Some(BackupPhase::Deleting);
        assert_eq!(describe(&keepers(&one, Some(&kept), now)), "");
    }

    #[test]
    fn what_is_kept_lasts_until_it_is_looked_at_again_and_what_is_held_until_its_end() {
        let now = at("22T00:00:00");
        let rules = Keeper::Rules { schedule: "s".into(), rules: vec![Rule::LastGood] };
        let until = |text: &str| Keeper::Hold(Hold::Until(at(text)));
        let forever = || Keeper::Hold(Hold::Forever);
        for (ttl, keepers, left, expected) in [
            (0, vec![rules.clone()], 24 * 3600, Some("24T00:00:00")),
            (720 * 3600, vec![rules.clone()], 24 * 3600, Some("24T00:00:00")),
            (3600, vec![forever()], 1800, Some("23T00:30:00")),
            (20, vec![forever(), rules.clone()], 60, Some("23T00:01:00")),
            (20, vec![until("22T00:00:30")], 60, Some("22T00:00:30")),
            (20, vec![until("22T00:00:30"), rules.clone()], 60, Some("23T00:01:00")),
            (20, vec![until("22T00:00:30.2")], 60, Some("22T00:00:31")),
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
