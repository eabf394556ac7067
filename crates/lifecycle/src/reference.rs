//! Slow references of the rules: they share no code with them, so that tests of any crate can compare.

use crate::phase::retention::RetentionCandidate;
use jiff::civil::{Date, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};
use lifeboat_api::Retention;
use std::collections::BTreeSet;

/// The same by other means: a backup is kept by a rule when it is the newest good one of its time, and fewer than so many
/// times with good backups are newer. Which time that is, is a text.
#[must_use]
pub fn keeps_by_rules(rules: &Retention, zone: &TimeZone, candidates: &[RetentionCandidate]) -> Vec<bool> {
    let numbers = rules.numbers().map(|(_, number)| number.unwrap_or(0));
    let all: Vec<(&RetentionCandidate, [String; 6])> = candidates.iter().map(|one| (one, texts(one, zone))).collect();
    let is_kept = |(one, own): &(&RetentionCandidate, [String; 6])| {
        let is_newer =
            |other: &RetentionCandidate| other.is_good && (other.stands_for, &other.name) > (one.stands_for, &one.name);
        let newer: Vec<&[String; 6]> =
            all.iter().filter(|(other, _)| is_newer(other)).map(|(_, texts)| texts).collect();
        let by_rule = |rule: usize| {
            let times: BTreeSet<&String> = newer.iter().map(|texts| &texts[rule]).collect();
            !times.contains(&own[rule]) && (times.len() as i64) < numbers[rule]
        };
        one.is_good && (newer.is_empty() || (0..6).any(by_rule))
    };
    all.iter().map(is_kept).collect()
}

/// The hour, day and so on of a backup, in the order of the rules; of the newest each is one of its own.
fn texts(candidate: &RetentionCandidate, zone: &TimeZone) -> [String; 6] {
    let shown = candidate.stands_for.to_zoned(zone.clone());
    let form = |form: &str| shown.strftime(form).to_string();
    let back = shown.date().weekday().since(Weekday::Monday);
    let monday = shown.date().checked_sub(i64::from(back).days()).expect("a date").to_string();
    [candidate.name.clone(), form("%Y-%m-%d %H %z"), form("%Y-%m-%d"), monday, form("%Y-%m"), form("%Y")]
}

/// Some values of a field, in the dialect.
#[derive(Clone, Debug)]
pub struct FieldValues {
    /// Its text.
    pub text: String,
    /// The values.
    pub values: BTreeSet<i8>,
}

impl FieldValues {
    /// The values given, as a list.
    #[must_use]
    pub fn of(values: &[i8]) -> Self {
        let text = values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        Self { text, values: values.iter().copied().collect() }
    }

    /// All from one to another, as a star.
    #[must_use]
    pub fn all(least: i8, most: i8) -> Self {
        Self { text: "*".into(), values: (least..=most).collect() }
    }
}

/// Five fields as a schedule.
#[must_use]
pub fn text_of(fields: &[FieldValues; 5]) -> String {
    fields.each_ref().map(|field| field.text.as_str()).join(" ")
}

/// All moments of some days at which a schedule is due, by a look at each day, hour and minute.
#[must_use]
pub fn times_of(fields: &[FieldValues; 5], zone: &TimeZone, first: Date, last: Date) -> BTreeSet<Timestamp> {
    let [minutes, hours, days, months, weekdays] = fields;
    let mut found = BTreeSet::new();
    for day in first.series(jiff::Span::new().days(1)).take_while(|day| *day <= last) {
        let by_day = days.values.contains(&day.day());
        let by_weekday = weekdays.values.contains(&day.weekday().to_sunday_zero_offset());
        let either = days.text != "*" && weekdays.text != "*";
        let is_meant = if either { by_day || by_weekday } else { by_day && by_weekday };
        if !is_meant || !months.values.contains(&day.month()) {
            continue;
        }
        for (hour, minute) in hours.values.iter().flat_map(|hour| minutes.values.iter().map(move |m| (*hour, *m))) {
            let time = day.at(hour, minute, 0, 0);
            match zone.to_ambiguous_timestamp(time).offset() {
                AmbiguousOffset::Unambiguous { offset } => {
                    found.insert(offset.to_timestamp(time).expect("a time"));
                }
                AmbiguousOffset::Fold { before, after } => {
                    found.insert(before.to_timestamp(time).expect("a time"));
                    if hours.text == "*" {
                        found.insert(after.to_timestamp(time).expect("a time"));
                    }
                }
                AmbiguousOffset::Gap { before, .. } => {
                    if hours.text != "*" {
                        let change =
                            zone.preceding(before.to_timestamp(time).expect("a time") + SignedDuration::from_nanos(1));
                        found.insert({ change }.next().expect("a change").timestamp());
                    }
                }
            }
        }
    }
    found
}
