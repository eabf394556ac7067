//! The time that a pending backup or restore waits when the bucket of its location or the plugins of the server cannot
//! be reached.
//!
//! Meanwhile nobody asks for the progress of its operations, and so operations whose time is over are not ended either.

use super::CLOCK_SKEW;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::well_known::ANNOTATION_UNREACHABLE;
use lifeboat_api::{Duration, ObjectMeta, Time};

/// Time limit for an outage, counted from the time at which the operations should have ended.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);

/// The decision about a pending object that cannot proceed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// It was not so before: note this time on it.
    Note(Timestamp),
    /// It is tried again later.
    Wait,
    /// It is ended; it has been so since this time.
    End(Timestamp),
}

/// Decides about a pending object whose bucket or plugins cannot be reached now. `begun` is the time at which the work
/// on the object began, `timeout` the time limit of its operations.
pub fn patience(meta: &ObjectMeta, begun: Option<Time>, timeout: Duration, now: Timestamp) -> Patience {
    let noted = meta.annotations.get(ANNOTATION_UNREACHABLE).and_then(|text| text.parse::<Timestamp>().ok());
    // A time that is further ahead is that of a clock that was wrong.
    let Some(since) = noted.filter(|since| since.duration_since(now) <= CLOCK_SKEW) else { return Patience::Note(now) };
    let timeout = SignedDuration::from_nanos(timeout.nanoseconds().max(0));
    let over = begun.and_then(|begun| begun.timestamp().checked_add(timeout).ok());
    let from = over.map_or(since, |over| over.max(since));
    if now.duration_since(from) >= LONGEST { Patience::End(since) } else { Patience::Wait }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_a_day_after_its_operations_time_out_and_the_first_failure() {
        let at = |text: &str| format!("2026-11-{text}:00:00Z").parse::<Timestamp>().unwrap();
        let decided = |since: &str, begun: Option<&str>, now: &str| {
            let since = [(ANNOTATION_UNREACHABLE.to_owned(), since.to_owned())];
            let meta = ObjectMeta { annotations: since.into(), ..ObjectMeta::default() };
            patience(&meta, begun.map(|text| Time::new(at(text))), Duration::from_secs(4 * 3600), at(now))
        };
        let noted = at("20T05").to_string();
        for (begun, now, expected) in [
            // It ran for a day before it was pending.
            (Some("19T00"), "21T04", Patience::Wait),
            (Some("19T00"), "21T05", Patience::End(at("20T05"))),
            (None, "21T05", Patience::End(at("20T05"))),
            // Its operations have their time.
            (Some("20T04"), "21T07", Patience::Wait),
            (Some("20T04"), "21T08", Patience::End(at("20T05"))),
        ] {
            assert_eq!(decided(&noted, begun, now), expected, "{begun:?} {now}");
        }
        let ahead = at("22T00").to_string();
        for unknown in ["", "yesterday", ahead.as_str()] {
            assert_eq!(decided(unknown, None, "21T00"), Patience::Note(at("21T00")), "{unknown}");
        }
        let none = patience(&ObjectMeta::default(), None, Duration::ZERO, at("21T00"));
        assert_eq!(none, Patience::Note(at("21T00")));
    }
}
