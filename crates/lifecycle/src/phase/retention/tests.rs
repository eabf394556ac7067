//! The rules by a table, and beside a model that looks at each backup by itself.

use super::*;
use crate::reference::keeps_by_rules;
use jiff::SignedDuration;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

fn candidate(of: &str) -> RetentionCandidate {
    RetentionCandidate { name: of.to_owned(), stands_for: format!("{of}:00Z").parse().unwrap(), is_good: true }
}

fn rules(change: impl FnOnce(&mut Retention)) -> Retention {
    let mut rules = Retention::default();
    change(&mut rules);
    rules
}

/// The kept backups, a line each, such as `2026-11-22T03:00 last good, daily 1`.
fn lines(rules: &Retention, zone: &str, candidates: &[RetentionCandidate]) -> Vec<String> {
    let all = kept(rules, &TimeZone::get(zone).unwrap(), candidates);
    let line = |(candidate, rules): (&RetentionCandidate, Vec<Rule>)| {
        let rules: Vec<String> = rules.iter().map(Rule::to_string).collect();
        format!("{} {}", candidate.name, rules.join(", "))
    };
    candidates.iter().zip(all).filter(|(_, rules)| !rules.is_empty()).map(line).collect()
}

#[test]
fn each_rule_counts_the_times_that_have_a_good_backup() {
    let all: Vec<RetentionCandidate> = [
        "2024-12-31T03:00",
        "2025-12-29T03:00",
        "2026-10-31T03:00",
        "2026-11-01T03:00",
        "2026-11-20T03:00",
        "2026-11-21T03:00",
        "2026-11-22T03:00",
        "2026-11-22T03:30",
        "2026-11-22T09:00",
    ]
    .map(candidate)
    .into();
    for (rules, expected) in [
        (rules(|_| {}), vec!["2026-11-22T09:00 last good"]),
        (rules(|r| r.keep_last = Some(0)), vec!["2026-11-22T09:00 last good"]),
        (rules(|r| r.keep_last = Some(2)), vec!["2026-11-22T03:30 last 2", "2026-11-22T09:00 last good, last 1"]),
        (rules(|r| r.keep_hourly = Some(2)), vec!["2026-11-22T03:30 hourly 2", "2026-11-22T09:00 last good, hourly 1"]),
        (
            rules(|r| r.keep_daily = Some(4)),
            vec![
                "2026-11-01T03:00 daily 4",
                "2026-11-20T03:00 daily 3",
                "2026-11-21T03:00 daily 2",
                "2026-11-22T09:00 last good, daily 1",
            ],
        ),
        (
            rules(|r| r.keep_weekly = Some(3)),
            // The 1st is a Sunday: the last day of its week. The 29th of December begins the first week of 2026.
            vec!["2025-12-29T03:00 weekly 3", "2026-11-01T03:00 weekly 2", "2026-11-22T09:00 last good, weekly 1"],
        ),
        (
            rules(|r| (r.keep_monthly, r.keep_yearly) = (Some(2), Some(9))),
            vec![
                "2024-12-31T03:00 yearly 3",
                "2025-12-29T03:00 yearly 2",
                "2026-10-31T03:00 monthly 2",
                "2026-11-22T09:00 last good, monthly 1, yearly 1",
            ],
        ),
        (rules(|r| r.keep_last = Some(i64::MIN)), vec!["2026-11-22T09:00 last good"]),
    ] {
        assert_eq!(lines(&rules, "UTC", &all), expected, "{rules:?}");
        let mut backwards = all.clone();
        backwards.reverse();
        let expected: Vec<&str> = expected.into_iter().rev().collect();
        assert_eq!(lines(&rules, "UTC", &backwards), expected, "{rules:?}");
    }
    let all_last = rules(|r| r.keep_last = Some(i64::MAX));
    assert_eq!(lines(&all_last, "UTC", &all).len(), all.len());
}

#[test]
fn only_good_backups_count() {
    let mut all: Vec<RetentionCandidate> =
        ["2026-11-20T03:00", "2026-11-21T03:00", "2026-11-22T03:00"].map(candidate).into();
    all[2].is_good = false;
    let daily = rules(|r| r.keep_daily = Some(2));
    assert_eq!(lines(&daily, "UTC", &all), ["2026-11-20T03:00 daily 2", "2026-11-21T03:00 last good, daily 1"]);
    all.iter_mut().for_each(|candidate| candidate.is_good = false);
    assert_eq!(lines(&daily, "UTC", &all), [""; 0]);
    assert_eq!(kept(&daily, &TimeZone::UTC, &[]), [[]; 0]);
}

#[test]
fn days_and_hours_are_those_of_the_zone() {
    let daily = rules(|r| r.keep_daily = Some(2));
    let all = ["2026-11-20T22:30", "2026-11-20T23:30", "2026-11-21T01:30"].map(candidate);
    let in_utc = ["2026-11-20T23:30 daily 2", "2026-11-21T01:30 last good, daily 1"];
    assert_eq!(lines(&daily, "UTC", &all), in_utc);
    let in_berlin = ["2026-11-20T22:30 daily 2", "2026-11-21T01:30 last good, daily 1"];
    assert_eq!(lines(&daily, "Europe/Berlin", &all), in_berlin);
    // The hour from two to three, which comes twice.
    let hourly = rules(|r| r.keep_hourly = Some(9));
    let all = ["2026-10-25T00:10", "2026-10-25T00:20", "2026-10-25T01:10", "2026-10-25T02:00"].map(candidate);
    let expected = ["2026-10-25T00:20 hourly 3", "2026-10-25T01:10 hourly 2", "2026-10-25T02:00 last good, hourly 1"];
    assert_eq!(lines(&hourly, "Europe/Berlin", &all), expected);
    // Clocks of St. John's went back a minute after midnight: the day before had its end twice.
    let daily = rules(|r| r.keep_daily = Some(9));
    let all = ["2008-11-01T12:00", "2008-11-02T02:30", "2008-11-02T02:45", "2008-11-02T12:00"].map(candidate);
    assert_eq!(
        lines(&daily, "America/St_Johns", &all),
        ["2008-11-02T02:45 daily 2", "2008-11-02T12:00 last good, daily 1"]
    );
}

fn any_rules() -> impl Strategy<Value = Retention> {
    let number = || option::weighted(0.6, 0i64..6);
    (number(), number(), number(), number(), number(), number()).prop_map(
        |(last, hourly, daily, weekly, monthly, yearly)| Retention {
            keep_last: last,
            keep_hourly: hourly,
            keep_daily: daily,
            keep_weekly: weekly,
            keep_monthly: monthly,
            keep_yearly: yearly,
            ..Retention::default()
        },
    )
}

/// Times that are close together, or far apart, around changes of the clocks among others.
fn any_candidates() -> impl Strategy<Value = Vec<RetentionCandidate>> {
    let begin: Timestamp = "2026-03-28T20:00:00Z".parse().unwrap();
    let minutes = prop_oneof![0i64..600, 0i64..20_000, 0i64..2_000_000];
    vec((minutes, prop::bool::weighted(0.8)), 0..40).prop_map(move |all| {
        let made = |(at, (minutes, is_good)): (usize, (i64, bool))| RetentionCandidate {
            name: format!("b{at}"),
            stands_for: begin + SignedDuration::from_mins(minutes),
            is_good,
        };
        all.into_iter().enumerate().map(made).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_kept_is_what_a_naive_model_keeps(
        rules in any_rules(),
        candidates in any_candidates(),
        zone in select(vec!["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    ) {
        let zone = TimeZone::get(zone).unwrap();
        let found: Vec<bool> = kept(&rules, &zone, &candidates).iter().map(|rules| !rules.is_empty()).collect();
        prop_assert_eq!(found, keeps_by_rules(&rules, &zone, &candidates));
    }

    /// Backups that are not kept change nothing for the others when they go, and do not come to be kept later. So the
    /// rules can be applied again and again.
    #[test]
    fn what_goes_changes_nothing_for_the_rest(rules in any_rules(), candidates in any_candidates()) {
        let before = kept(&rules, &TimeZone::UTC, &candidates);
        let (rest, expected): (Vec<RetentionCandidate>, Vec<Vec<Rule>>) =
            candidates.into_iter().zip(before).filter(|(_, rules)| !rules.is_empty()).unzip();
        prop_assert_eq!(kept(&rules, &TimeZone::UTC, &rest), expected);
    }
}
