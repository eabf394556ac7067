//! The dialect against what Velero's releases make of it, and the changes of clocks against a count of all times.

use super::*;
use crate::reference::{FieldValues as Values, text_of as text, times_of as counted};
use jiff::civil::date;
use proptest::prelude::*;
use proptest::sample::select;
use serde::Deserialize;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn cron(text: &str) -> Cron {
    Cron::parse(text, &TimeZone::UTC).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// A line that `crates/testbed/go/cron` has printed.
#[derive(Deserialize)]
struct Golden {
    spec: String,
    error: Option<String>,
    from: Option<Timestamp>,
    #[serde(default)]
    next: Vec<Timestamp>,
}

#[test]
fn schedules_are_read_as_by_velero() {
    let lines = include_str!("../../../testbed/fixtures/velero/cron.jsonl").lines();
    let mut count = 0;
    for golden in lines.map(|line| serde_json::from_str::<Golden>(line).unwrap()) {
        let spec = &golden.spec;
        let parsed = Cron::parse(spec, &TimeZone::UTC);
        let Some(from) = golden.from else {
            assert_eq!(parsed.err().map(|e| e.to_string()), golden.error, "{spec}");
            continue;
        };
        let cron = parsed.unwrap_or_else(|e| panic!("{spec}: {e}"));
        let (mut now, mut next) = (from, Vec::new());
        while next.len() < golden.next.len() {
            now = cron.next(now).unwrap();
            next.push(now);
        }
        assert_eq!(next, golden.next, "{spec} from {from}");
        if let Cron::At(_) = cron {
            assert_eq!(cron.latest(from, now), Some(now), "{spec} from {from}");
        }
        count += 1;
    }
    assert!(count > 400, "only {count} lines");
}

/// Velero makes a backup of such a schedule at each look, or ends in a panic that it catches.
#[test]
fn what_never_comes_is_refused() {
    for spec in ["0 0 30 2 *", "0 0 31 4,6,9,11 *", ", * * * *", "* , * * *", "0 0 * , *"] {
        assert_eq!(Cron::parse(spec, &TimeZone::UTC), Err(CronError::Never(spec.to_owned())));
    }
}

#[test]
fn a_zone_alone_is_no_schedule() {
    assert_eq!(
        Cron::parse("CRON_TZ=UTC", &TimeZone::UTC).unwrap_err().to_string(),
        "missing fields after timezone in spec \"CRON_TZ=UTC\""
    );
}

#[test]
fn the_leap_day_after_a_century_without_one_comes_eight_years_later() {
    // The year 2100 has no such day.
    assert_eq!(cron("0 0 29 2 *").next(at("2096-03-01T00:00:00Z")), Some(at("2104-02-29T00:00:00Z")));
    assert_eq!(cron("0 0 29 2 *").latest(at("2096-03-01T00:00:00Z"), at("2104-02-28T00:00:00Z")), None);
}

#[test]
fn a_schedule_without_a_zone_goes_by_that_of_the_server() {
    let tokyo = TimeZone::get("Asia/Tokyo").unwrap();
    let from = at("2026-01-01T00:00:00Z");
    for (spec, expected) in [
        ("0 3 * * *", "2026-01-01T18:00:00Z"),
        ("CRON_TZ=Local 0 3 * * *", "2026-01-01T18:00:00Z"),
        ("CRON_TZ=UTC 0 3 * * *", "2026-01-01T03:00:00Z"),
        ("TZ= 0 3 * * *", "2026-01-01T03:00:00Z"),
        ("@daily", "2026-01-01T15:00:00Z"),
    ] {
        assert_eq!(Cron::parse(spec, &tokyo).unwrap().next(from), Some(at(expected)), "{spec}");
    }
}

/// A run in an hour that the clocks leave out is due when they go on, and a run in an hour that they show twice is due
/// once.
#[test]
fn a_day_whose_clocks_change_has_each_run_once() {
    for (what, spec, from, expected) in [
        (
            "2:00 to 3:00",
            "CRON_TZ=Europe/Berlin 30 2 * * *",
            "2026-03-28T12:00:00Z",
            ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
        ),
        (
            "several in the gap",
            "CRON_TZ=Europe/Berlin */20 2,3 * * *",
            "2026-03-29T00:00:00Z",
            ["2026-03-29T01:00:00Z", "2026-03-29T01:20:00Z"],
        ),
        (
            "3:00 to 2:00",
            "CRON_TZ=Europe/Berlin 30 2 * * *",
            "2026-10-24T12:00:00Z",
            ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
        ),
        (
            "from within the hour that comes twice",
            "CRON_TZ=Europe/Berlin 45 2 * * *",
            "2026-10-25T01:15:00Z",
            ["2026-10-26T01:45:00Z", "2026-10-27T01:45:00Z"],
        ),
        (
            "the hour after it",
            "CRON_TZ=Europe/Berlin 0 3 * * *",
            "2026-10-25T00:30:00Z",
            ["2026-10-25T02:00:00Z", "2026-10-26T02:00:00Z"],
        ),
        (
            "midnight left out",
            "CRON_TZ=America/Santiago @daily",
            "2026-09-05T12:00:00Z",
            ["2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"],
        ),
        (
            "midnight is that of the new day",
            "CRON_TZ=America/Santiago @daily",
            "2026-04-04T12:00:00Z",
            ["2026-04-05T04:00:00Z", "2026-04-06T04:00:00Z"],
        ),
        (
            "half an hour",
            "CRON_TZ=Australia/Lord_Howe 15 2 * * *",
            "2026-10-03T00:00:00Z",
            ["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"],
        ),
        (
            "a whole day left out",
            "CRON_TZ=Pacific/Apia 0 9 * * *",
            "2011-12-29T20:00:00Z",
            ["2011-12-30T10:00:00Z", "2011-12-30T19:00:00Z"],
        ),
    ] {
        let cron = cron(spec);
        let first = cron.next(at(from)).unwrap();
        assert_eq!([first, cron.next(first).unwrap()], expected.map(at), "{what}");
        assert_eq!(cron.latest(at(from), first), Some(first), "{what}");
    }
}

#[test]
fn an_interval_begins_with_the_last_run() {
    let every = cron("@every 90s");
    let since = at("2026-01-01T00:00:00.7Z");
    assert_eq!(every.next(since), Some(at("2026-01-01T00:01:30Z")));
    for (now, expected) in [
        ("2026-01-01T00:01:29.9Z", None),
        ("2026-01-01T00:01:30Z", Some("2026-01-01T00:01:30Z")),
        ("2026-01-01T00:59:59Z", Some("2026-01-01T00:58:30Z")),
        ("2025-01-01T00:00:00Z", None),
    ] {
        assert_eq!(every.latest(since, at(now)), expected.map(at), "{now}");
    }
    // Nothing that a clock can show.
    assert_eq!(cron("@every 2562047h").next(Timestamp::MAX), None);
    assert_eq!(cron("0 0 29 2 *").next(Timestamp::MAX), None);
}

/// Seconds that are looked at: four weeks.
const LONGEST: i64 = 28 * 24 * 3600;

const ZONES: [&str; 8] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Africa/Casablanca",
    "Asia/Tehran",
    "Pacific/Apia",
];

fn some(least: i8, most: i8) -> impl Strategy<Value = Values> {
    let star = Just(Values::all(least, most));
    let list = proptest::collection::vec(least..=most, 1..4).prop_map(|values| Values::of(&values));
    let steps = (least..=most, 2..9i8).prop_map(move |(start, step)| Values {
        text: format!("{start}-{most}/{step}"),
        values: (start..=most).step_by(step as usize).collect(),
    });
    prop_oneof![star, list, steps]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn each_moment_is_the_next_and_the_latest_once(
        fields in (some(0, 59), some(0, 23), some(1, 31), some(1, 12), some(0, 6)),
        zone in select(ZONES.to_vec()),
        (year, change) in (select(vec![2011i16, 2020, 2026, 2038]), 0usize..3),
        probes in proptest::collection::vec(0i64..LONGEST, 12),
    ) {
        let fields: [Values; 5] = fields.into();
        let cron = match Cron::parse(&format!("CRON_TZ={zone} {}", text(&fields)), &TimeZone::UTC) {
            Ok(cron) => cron,
            Err(CronError::Never(_)) => {
                // With a leap day.
                let (first, last) = (date(2027, 1, 1), date(2029, 1, 1));
                prop_assert!(counted(&fields, &TimeZone::UTC, first, last).is_empty());
                return Ok(());
            }
            Err(e) => return Err(TestCaseError::fail(e.to_string())),
        };
        let zone = TimeZone::get(zone).unwrap();
        let year = date(year, 1, 1).to_zoned(TimeZone::UTC).unwrap().timestamp();
        let change = zone.following(year).nth(change).map_or(year, |change| change.timestamp());
        let begin = change - SignedDuration::from_secs(LONGEST / 2);
        let day = |at: Timestamp| zone.to_datetime(at).date();
        let all = counted(&fields, &zone, day(begin), day(begin + SignedDuration::from_secs(LONGEST)));
        // Also around the change of the clocks.
        let around = [-7200, -3600, -1, 0, 1, 600, 1800, 3599, 3600, 5400].map(|shift| LONGEST / 2 + shift);
        for probe in probes.into_iter().chain(around) {
            let now = begin + SignedDuration::from_secs(probe);
            let next = all.range(now + SignedDuration::from_secs(1)..).next().copied();
            if next.is_some() {
                prop_assert_eq!(cron.next(now), next, "after {}", now);
            }
            let latest = all.range(begin + SignedDuration::from_secs(1)..=now).next_back().copied();
            prop_assert_eq!(cron.latest(begin, now), latest, "up to {}", now);
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "(CRON_TZ=|TZ=|)(UTC |Europe/Berlin |)(@every |)[-0-9*/,?+@a-z .]{0,20}", now in any::<i32>()) {
        if let Ok(cron) = Cron::parse(&text, &TimeZone::UTC) {
            let now = Timestamp::from_second(i64::from(now)).unwrap();
            if let Some(next) = cron.next(now) {
                prop_assert!(next > now);
                prop_assert!(cron.latest(now, next).is_some());
            }
        }
    }
}
