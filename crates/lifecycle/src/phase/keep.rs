//! The reasons that keep a backup whose time is over, a hold or the rules of its schedule, and the time to which its
//! expiration is moved.

use super::hold::Hold;
use super::retention::Rule;
use jiff::{RoundMode, SignedDuration, Timestamp, TimestampRound, Unit};
use lifeboat_api::Backup;
use std::fmt;

/// The reason for which a backup stays although its time is over.
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
    /// By rules that its record says, because those of its schedule are not in force here.
    Recorded {
        /// The schedule.
        schedule: String,
        /// The rules.
        rules: Vec<Rule>,
        /// The reason for which those of the schedule are not in force.
        absence: Absence,
    },
    /// It is the last good one of a schedule that has no rules, or a newer one that is not as good, and a server of ours or a command has
    /// made it.
    WithoutRules {
        /// The schedule.
        schedule: String,
        /// The backup.
        backup: String,
        /// Its standing among the backups of the schedule.
        standing: Standing,
    },
    /// The rules of its schedule cannot be followed: until somebody mends them, all good backups of it stay.
    WrongRules {
        /// The schedule.
        schedule: String,
        /// The error in the rules.
        why: String,
    },
}

/// The standing of a backup among those of a schedule that has no rules, for which it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is the last good one.
    LastGood,
    /// It is newer than the last good one, and has lost objects against it.
    LostObjects,
    /// It is newer than the last good one, and ended with errors.
    WithErrors,
}

/// The reason for which the rules of the schedule of a backup are not in force here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absence {
    /// There is no such schedule.
    Gone,
    /// It has no rules.
    NoRules,
    /// It is one of the cluster with this UID.
    OfCluster(String),
    /// It is one of the cluster with this UID, and they came with the object that the backup was made from.
    ImportedFrom(String),
}

impl fmt::Display for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hold(hold) => hold.fmt(f),
            Self::Rules { schedule, rules } => write!(f, "kept by schedule {schedule}: {}", listed(rules)),
            Self::Recorded { schedule, rules, absence } => {
                match absence {
                    Absence::Gone => write!(f, "kept by the rules of schedule {schedule}, which is not here any more")?,
                    Absence::NoRules => write!(f, "kept by the rules that schedule {schedule} had")?,
                    Absence::OfCluster(uid) => write!(f, "kept by the rules of schedule {schedule} of cluster {uid}")?,
                    Absence::ImportedFrom(uid) => {
                        write!(
                            f,
                            "kept by the rules of schedule {schedule} of cluster {uid}, which came with an exported object"
                        )?;
                    }
                }
                write!(f, ": {} (`expiry --release --schedule {schedule}", listed(rules))?;
                if let Absence::OfCluster(uid) = absence {
                    write!(f, " --source-cluster {uid}")?;
                }
                f.write_str("` lets it go)")
            }
            Self::WithoutRules { schedule, backup, standing } => {
                let (what, but) = match standing {
                    Standing::LostObjects => ("newest", ", though it has lost objects"),
                    Standing::WithErrors => ("newest", ", though it ended with errors"),
                    Standing::LastGood => ("last good", ""),
                };
                write!(
                    f,
                    "kept, because it is the {what} backup of schedule {schedule}{but} (`expiry --release {backup}` lets it go)"
                )
            }
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

/// Joins reasons in one line.
#[must_use]
pub fn describe(keepers: &[Keeper]) -> String {
    keepers.iter().map(Keeper::to_string).collect::<Vec<_>>().join("; ")
}

/// Largest remaining time at which the expiration of a kept backup is moved; half of its `ttl` where that is less.
const MARGIN: SignedDuration = SignedDuration::from_hours(24);
/// Smallest remaining time, so that a server has its turn before the time is over.
const LEAST_MARGIN: SignedDuration = SignedDuration::from_mins(1);
/// Time by which a kept backup outlives the next move of its expiration.
const PROLONGED_BY: SignedDuration = SignedDuration::from_hours(24);

/// The remaining time at which the expiration of a backup is moved.
pub fn margin(backup: &Backup) -> SignedDuration {
    match backup.spec.ttl.nanoseconds() {
        ttl if ttl > 0 => SignedDuration::from_nanos(ttl / 2).clamp(LEAST_MARGIN, MARGIN),
        // That of the server's flag, which is not known here.
        _ => MARGIN,
    }
}

/// The time until which a kept backup lasts: the end of its hold, or else a time before which it is looked at again.
pub fn lasts_until(backup: &Backup, keepers: &[Keeper], now: Timestamp) -> Option<Timestamp> {
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
    use super::*;
    use lifeboat_api::Duration;

    fn at(text: &str) -> Timestamp {
        format!("2026-11-{text}Z").parse().unwrap()
    }

    #[test]
    fn what_keeps_a_backup_without_its_schedule_says_how_it_is_let_go() {
        let by =
            |absence| Keeper::Recorded { schedule: "s".into(), rules: vec![Rule::LastGood, Rule::Daily(1)], absence };
        for (absence, expected) in [
            (
                Absence::Gone,
                "kept by the rules of schedule s, which is not here any more: last good, daily 1 (`expiry --release --schedule s` lets it go)",
            ),
            (
                Absence::NoRules,
                "kept by the rules that schedule s had: last good, daily 1 (`expiry --release --schedule s` lets it go)",
            ),
            (
                Absence::OfCluster("u".into()),
                "kept by the rules of schedule s of cluster u: last good, daily 1 (`expiry --release --schedule s --source-cluster u` lets \
                 it go)",
            ),
            (
                Absence::ImportedFrom("u".into()),
                "kept by the rules of schedule s of cluster u, which came with an exported object: last good, daily 1 (`expiry --release \
                 --schedule s` lets it go)",
            ),
        ] {
            assert_eq!(by(absence).to_string(), expected);
        }
    }

    #[test]
    fn a_kept_backup_lasts_to_the_next_look_and_a_held_one_to_the_end_of_it() {
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
