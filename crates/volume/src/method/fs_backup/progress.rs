//! The limits of the wait for volumes that are being saved or filled. Pure.

use lifeboat_api::{DataMoveProgress, DataPathPhase};
use std::collections::BTreeMap;
use std::time::Duration;

/// The progress of one volume as its resource shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VolumeProgress {
    pub(super) phase: Option<DataPathPhase>,
    bytes: (i64, i64),
}

impl VolumeProgress {
    pub(super) fn of(phase: Option<DataPathPhase>, progress: &DataMoveProgress) -> Self {
        Self { phase, bytes: (progress.bytes_done, progress.total_bytes) }
    }

    /// Returns true once a node agent has taken it up.
    fn is_accepted(&self) -> bool {
        self.phase.is_some_and(|phase| phase != DataPathPhase::New)
    }
}

/// The message of a resource that has ended badly.
pub(super) fn said(message: &str) -> &str {
    if message.is_empty() { "the node agent gives no reason; look at its log" } else { message }
}

/// The limits of a wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitLimits {
    /// Of the whole wait.
    pub(super) whole: Duration,
    /// Of the time without any progress, once a node agent has taken a volume up.
    pub(super) idle: Duration,
    /// The message when the whole wait was too long.
    pub(super) late: &'static str,
}

/// The progress of all volumes that are waited for. Times are counted from the begin of the wait.
#[derive(Debug, Default)]
pub(super) struct WaitProgress {
    seen: BTreeMap<String, VolumeProgress>,
    changed: Duration,
}

impl WaitProgress {
    /// Takes the state of all volumes that have not ended, by the names of their resources. Gives the reason to wait no longer.
    pub(super) fn look(
        &mut self,
        now: Duration,
        states: BTreeMap<String, VolumeProgress>,
        limits: WaitLimits,
    ) -> Option<String> {
        if states != self.seen {
            (self.seen, self.changed) = (states, now);
        }
        if now >= limits.whole {
            return Some(limits.late.to_owned());
        }
        let is_accepted = self.seen.values().any(VolumeProgress::is_accepted);
        (is_accepted && now - self.changed >= limits.idle)
            .then(|| format!("no volume has made any progress for {} s", limits.idle.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_by_its_whole_limit_or_without_progress_once_accepted() {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        let limits = WaitLimits { whole: minutes(240), idle: minutes(30), late: "late" };
        let all = |progress: &[(&str, Option<DataPathPhase>, i64)]| -> BTreeMap<String, VolumeProgress> {
            let one = |(name, phase, bytes): &(&str, Option<DataPathPhase>, i64)| {
                ((*name).to_owned(), VolumeProgress { phase: *phase, bytes: (*bytes, 100) })
            };
            progress.iter().map(one).collect()
        };
        let idle = Some("no volume has made any progress for 1800 s".to_owned());
        let late = Some("late".to_owned());
        let (new, moving) = (Some(DataPathPhase::New), Some(DataPathPhase::InProgress));
        let mut progress = WaitProgress::default();
        for (time, states, expected) in [
            // Nobody has taken them up: a node agent may be busy.
            (0, all(&[("a", None, 0), ("b", new, 0)]), None),
            (200, all(&[("a", None, 0), ("b", new, 0)]), None),
            (201, all(&[("a", Some(DataPathPhase::Accepted), 0), ("b", new, 0)]), None),
            (230, all(&[("a", moving, 0), ("b", new, 0)]), None),
            // Any progress of any of them counts, and so does one that has ended.
            (231, all(&[("a", moving, 5), ("b", new, 0)]), None),
            (239, all(&[("b", new, 0)]), None),
            (240, all(&[("b", new, 0)]), late),
        ] {
            assert_eq!(progress.look(minutes(time), states, limits), expected, "{time}");
        }
        let mut stuck = WaitProgress::default();
        let state = || all(&[("a", moving, 5)]);
        let found = [0, 29, 30].map(|time| stuck.look(minutes(time), state(), limits));
        assert_eq!(found, [None, None, idle]);
    }
}
