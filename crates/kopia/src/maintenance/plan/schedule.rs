//! The owner of maintenance and its times (kopia: repo/maintenance/maintenance_run.go).

use crate::KopiaError;
use crate::format::maintenance::{Cycle, MaintenanceParameters, Schedule};
use crate::format::time::{MINUTE, UnixNanos};
use crate::maintenance::delays::in_words;

/// The difference of clocks that is no mistake, in nanoseconds.
const TOLERANCE: i64 = 5 * MINUTE;

/// A kind of maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Indexes alone.
    Quick,
    /// Everything.
    Full,
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Quick => "quick",
            Self::Full => "full",
        })
    }
}

/// The kind of maintenance that is due, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The kind; `None` where nothing is due.
    pub mode: Option<Mode>,
    /// The reason.
    pub reason: String,
}

/// Finds the kind that is due at `now`, the time of the storage. A time further away than its interval was written by a
/// clock that was wrong, or before the interval became shorter: it is due.
pub fn due(schedule: &Schedule, parameters: &MaintenanceParameters, now: UnixNanos) -> Due {
    let full = reason(parameters.full, schedule.next_full, now);
    let quick = reason(parameters.quick, schedule.next_quick, now);
    match (full, quick) {
        (Ok(reason), _) => Due { mode: Some(Mode::Full), reason: format!("full maintenance {reason}") },
        (_, Ok(reason)) => Due { mode: Some(Mode::Quick), reason: format!("quick maintenance {reason}") },
        (Err(full), Err(quick)) => {
            Due { mode: None, reason: format!("full maintenance {full}; quick maintenance {quick}") }
        }
    }
}

/// The reason for which it is due, or not.
fn reason(cycle: Cycle, next: Option<UnixNanos>, now: UnixNanos) -> Result<String, String> {
    if !cycle.enabled {
        return Err("is switched off".to_owned());
    }
    let Some(next) = next else { return Ok("has not run yet".to_owned()) };
    let wait = next.0.saturating_sub(now.0);
    if wait <= 0 {
        return Ok(format!("is due since {next}"));
    }
    if wait > cycle.interval.saturating_add(TOLERANCE) {
        return Ok(format!("is planned for {next}, which is further away than its interval"));
    }
    Err(format!("is due in {}, at {next}", in_words(wait)))
}

/// Refuses whoever is not the owner of maintenance. An identity may be shared, as `default@default` is by all clients of
/// Velero, so that this protects from other tools only; [`crate::maintenance::claim`] protects from a second run.
///
/// # Errors
/// [`KopiaError::NotOwner`].
pub fn require_owner(parameters: &MaintenanceParameters, identity: &str) -> Result<(), KopiaError> {
    if parameters.owner == identity {
        return Ok(());
    }
    Err(KopiaError::NotOwner { owner: parameters.owner.clone(), identity: identity.to_owned() })
}

/// Sets the next times, as they are written before a run begins: a run that fails is repeated at its next time.
pub fn begin(schedule: &mut Schedule, parameters: &MaintenanceParameters, mode: Mode, now: UnixNanos) {
    let after = |cycle: Cycle| Some(UnixNanos(now.0.saturating_add(cycle.interval.max(0))));
    schedule.next_quick = after(parameters.quick);
    if mode == Mode::Full {
        schedule.next_full = after(parameters.full);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::time::HOUR;

    const NOW: UnixNanos = UnixNanos(1_795_900_000_000_000_000);

    fn schedule(full: Option<i64>, quick: Option<i64>) -> Schedule {
        let time = |hours: i64| UnixNanos(NOW.0 + hours * HOUR);
        Schedule { next_full: full.map(time), next_quick: quick.map(time), ..Schedule::default() }
    }

    #[test]
    fn full_maintenance_comes_before_quick_and_each_at_its_time() {
        let parameters = MaintenanceParameters::default();
        for (full, quick, expected) in [
            (None, None, Some(Mode::Full)),
            (Some(0), Some(1), Some(Mode::Full)),
            (Some(1), Some(-1), Some(Mode::Quick)),
            (Some(1), None, Some(Mode::Quick)),
            (Some(24), Some(1), None),
            // Further away than the interval.
            (Some(48), Some(1), Some(Mode::Full)),
            (Some(24), Some(2), Some(Mode::Quick)),
        ] {
            assert_eq!(due(&schedule(full, quick), &parameters, NOW).mode, expected, "{full:?} {quick:?}");
        }
        let off = MaintenanceParameters { full: Cycle::default(), ..parameters };
        assert_eq!(due(&schedule(None, Some(-1)), &off, NOW).mode, Some(Mode::Quick));
        let nothing = due(&schedule(None, Some(1)), &off, NOW);
        let reason =
            "full maintenance is switched off; quick maintenance is due in 60 minutes, at 2026-11-28T23:06:40Z";
        assert_eq!(
            nothing,
            Due { mode: None, reason: reason.replace("2026-11-28T23:06:40Z", &UnixNanos(NOW.0 + HOUR).to_string()) }
        );
    }

    #[test]
    fn a_run_sets_the_times_of_its_kind_before_it_begins() {
        let parameters = MaintenanceParameters::default();
        let mut changed = schedule(Some(-1), Some(-1));
        begin(&mut changed, &parameters, Mode::Quick, NOW);
        assert_eq!(changed, schedule(Some(-1), Some(1)));
        begin(&mut changed, &parameters, Mode::Full, NOW);
        assert_eq!(changed, schedule(Some(24), Some(1)));
    }

    #[test]
    fn only_the_owner_maintains() {
        let owned = MaintenanceParameters { owner: "a@b".to_owned(), ..MaintenanceParameters::default() };
        let refusal = |parameters: &MaintenanceParameters, identity| {
            require_owner(parameters, identity).err().map(|error| error.to_string())
        };
        assert_eq!(refusal(&owned, "a@b"), None);
        assert_eq!(refusal(&owned, "a@c").unwrap(), "maintenance was not run: a@b owns it, not a@c");
        let expected = "maintenance was not run: nobody owns it, and only an owner may, such as a@b";
        assert_eq!(refusal(&MaintenanceParameters::default(), "a@b").unwrap(), expected);
    }
}
