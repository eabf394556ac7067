//! Which backups of a schedule stay although their time is over (an addition of Lifeboat).
//!
//! The rules only ever keep: a backup goes at its expiration, as with Velero, unless a rule or a hold keeps it. What is kept has its
//! expiration moved forward, in the cluster and in its record in the bucket, so that each server of ours keeps it too. A Velero server of another
//! cluster goes by the expiration that it has read first.
//!
//! Everything here is pure. The server decides by it (`expiry.rs`), and so do `lifeboat schedule retention` and `lifeboat expiry`, which
//! print what becomes of backups.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use lifeboat_api::Retention;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;

/// The facts about a backup that the rules need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionCandidate {
    /// Its name.
    pub name: String,
    /// The time it stands for: of the run that it was made for, or else when it began.
    pub stands_for: Timestamp,
    /// True when it could be restored: it is `Completed`, and nothing has asked for its deletion.
    pub is_good: bool,
}

/// A rule by which a backup is kept, and the place that it has in that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// No other backup of the schedule is good and newer.
    LastGood,
    /// It is newer than the last good one, and has lost objects against it.
    Newest,
    /// It is newer than the last good one, and ended with errors.
    NewestWithErrors,
    /// Among the newest; its place from 1.
    Last(u32),
    /// The newest good one of its hour; the place of that hour among those that have a good backup, from 1.
    Hourly(u32),
    /// Of its day.
    Daily(u32),
    /// Of its week, which begins on a Monday (ISO 8601).
    Weekly(u32),
    /// Of its month.
    Monthly(u32),
    /// Of its year.
    Yearly(u32),
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LastGood => f.write_str("last good"),
            Self::Newest => f.write_str("newest"),
            Self::NewestWithErrors => f.write_str("newest with errors"),
            Self::Last(place) => write!(f, "last {place}"),
            Self::Hourly(place) => write!(f, "hourly {place}"),
            Self::Daily(place) => write!(f, "daily {place}"),
            Self::Weekly(place) => write!(f, "weekly {place}"),
            Self::Monthly(place) => write!(f, "monthly {place}"),
            Self::Yearly(place) => write!(f, "yearly {place}"),
        }
    }
}

/// For each candidate of one schedule, in their order, the rules that keep it; none when no rule does.
///
/// As with restic's `forget --keep-*`: each rule counts the hours, days and so on in which there is a good backup, from the newest
/// one back, so that a time without backups uses nothing up. Only good backups count and are kept, and the newest good one always is.
/// Hours, days and weeks are those of `zone`. Rules without a number keep nothing.
pub fn kept(rules: &Retention, zone: &TimeZone, candidates: &[RetentionCandidate]) -> Vec<Vec<Rule>> {
    let mut newest_first: Vec<usize> = (0..candidates.len()).filter(|at| candidates[*at].is_good).collect();
    // Of two that stand for one time, one always goes before the other.
    newest_first.sort_by_key(|at| Reverse((candidates[*at].stands_for, &candidates[*at].name)));
    let mut out = vec![Vec::new(); candidates.len()];
    if let Some(newest) = newest_first.first() {
        out[*newest].push(Rule::LastGood);
    }
    let most = |number: Option<i64>| u32::try_from(number.unwrap_or(0).max(0)).unwrap_or(u32::MAX);
    for (place, at) in (1..=most(rules.keep_last)).zip(&newest_first) {
        out[*at].push(Rule::Last(place));
    }
    type Make = fn(u32) -> Rule;
    let periods: [(Option<i64>, Period, Make); 5] = [
        (rules.keep_hourly, Period::Hour, Rule::Hourly),
        (rules.keep_daily, Period::Day, Rule::Daily),
        (rules.keep_weekly, Period::Week, Rule::Weekly),
        (rules.keep_monthly, Period::Month, Rule::Monthly),
        (rules.keep_yearly, Period::Year, Rule::Yearly),
    ];
    for (number, period, rule) in periods {
        // Where clocks go back, a day can come to its end twice: each counts once.
        let mut seen = BTreeSet::new();
        for at in &newest_first {
            if seen.len() as u64 >= u64::from(most(number)) {
                break;
            }
            if seen.insert(period.of(candidates[*at].stands_for, zone)) {
                out[*at].push(rule(u32::try_from(seen.len()).unwrap_or(u32::MAX)));
            }
        }
    }
    out
}

/// A stretch of time of which the newest good backup is kept.
#[derive(Clone, Copy)]
enum Period {
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Period {
    /// Which one a time belongs to: two times belong to the same when these numbers are the same.
    fn of(self, time: Timestamp, zone: &TimeZone) -> [i32; 4] {
        let offset = zone.to_offset(time);
        let shown = offset.to_datetime(time);
        let (year, month, day) = (i32::from(shown.year()), i32::from(shown.month()), i32::from(shown.day()));
        match self {
            // An hour that the clocks show twice is two hours.
            Self::Hour => [year, i32::from(shown.date().day_of_year()), i32::from(shown.hour()), offset.seconds()],
            Self::Day => [year, month, day, 0],
            Self::Week => {
                let week = shown.date().iso_week_date();
                [i32::from(week.year()), i32::from(week.week()), 0, 0]
            }
            Self::Month => [year, month, 0, 0],
            Self::Year => [year, 0, 0, 0],
        }
    }
}

#[cfg(test)]
pub mod tests;
