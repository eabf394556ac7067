//! The limits of the wait for volumes that are being saved or filled. Pure.

use lifeboat_action::LONGEST_IDLE;
use lifeboat_api::well_known::{ANNOTATION_MOVED_AT, ANNOTATION_MOVED_FILES, ANNOTATION_OTHERS_MOVED_AT};
use lifeboat_api::{DataMoveProgress, DataPathPhase};
use std::collections::BTreeMap;
use std::time::Duration;

/// The characters of a message of a node agent that a reason has at most.
const MOST_CHARACTERS: usize = 500;

/// The longest time without any progress while a volume is being read or filled.
pub(super) const IDLE: Duration = LONGEST_IDLE.unsigned_abs();

/// The progress of one volume as its resource shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VolumeProgress {
    phase: Option<DataPathPhase>,
    bytes: (i64, i64),
    /// The time at which bytes or files last moved and the files that are done, as the node agent has noted them: files
    /// may be empty.
    moved: [Option<String>; 2],
    /// The words of the node agent, such as what it waits for.
    message: String,
    /// The time at which those that it waits for last moved something, as the node agent has noted it.
    others: Option<String>,
}

impl VolumeProgress {
    /// The progress that a resource shows with its status and its annotations.
    pub(super) fn of(
        phase: Option<DataPathPhase>,
        progress: &DataMoveProgress,
        message: &str,
        annotations: &BTreeMap<String, String>,
    ) -> Self {
        Self {
            phase,
            bytes: (progress.bytes_done, progress.total_bytes),
            moved: [ANNOTATION_MOVED_AT, ANNOTATION_MOVED_FILES].map(|name| annotations.get(name).cloned()),
            message: message.chars().take(MOST_CHARACTERS).collect(),
            others: annotations.get(ANNOTATION_OTHERS_MOVED_AT).cloned(),
        }
    }

    /// Returns true while a mover works on it. Before that it waits for a place, for others of its node or for its pod,
    /// which the node agent limits.
    fn is_moving(&self) -> bool {
        matches!(self.phase, Some(DataPathPhase::InProgress | DataPathPhase::Canceling))
    }

    /// Returns true if the other state is as far, whatever is said about it.
    fn is_as_far_as(&self, other: &Self) -> bool {
        (self.phase, self.bytes, &self.moved) == (other.phase, other.bytes, &other.moved)
    }

    /// The state for people.
    fn words(&self) -> String {
        let state = match self.phase {
            None | Some(DataPathPhase::New) => "no node agent has taken it up".to_owned(),
            Some(phase) => format!("it is {}", phase.as_str()),
        };
        if self.message.is_empty() { state } else { format!("{state}: {}", self.message) }
    }
}

/// The message of a resource that has ended badly.
pub(super) fn said(message: &str) -> &str {
    if message.is_empty() { "the node agent gives no reason; look at its log" } else { message }
}

/// The limits of a wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitLimits {
    /// Of the whole wait, but for volumes of which bytes or files are moved.
    pub(super) whole: Duration,
    /// Of the time without any progress while a volume is being moved, and after the whole limit.
    pub(super) idle: Duration,
    /// The message when the whole wait was too long.
    pub(super) late: &'static str,
}

/// The progress of all volumes that are waited for. Times are counted from the begin of the wait.
#[derive(Debug, Default)]
pub(super) struct WaitProgress {
    seen: BTreeMap<String, VolumeProgress>,
    changed: Duration,
    /// The last time at which a mover has begun, has moved bytes or files, or has ended, or others have for which a
    /// volume waits.
    moved: Option<Duration>,
}

impl WaitProgress {
    /// Takes the state of all volumes that have not ended, by the names of their resources. Gives those that are waited
    /// for no longer, with the reason of each.
    pub(super) fn look(
        &mut self,
        now: Duration,
        states: BTreeMap<String, VolumeProgress>,
        limits: WaitLimits,
    ) -> BTreeMap<String, String> {
        self.take(now, states);
        let is_idle = |since: Duration| now.saturating_sub(since) >= limits.idle;
        if now >= limits.whole && self.moved.is_none_or(is_idle) {
            return self.given_up(|_| true, limits.late);
        }
        // One that only waits has its turn when those before it have ended.
        if is_idle(self.changed) {
            let why = format!("no volume has made any progress for {} s", limits.idle.as_secs());
            return self.given_up(VolumeProgress::is_moving, &why);
        }
        BTreeMap::new()
    }

    fn take(&mut self, now: Duration, mut states: BTreeMap<String, VolumeProgress>) {
        for (name, state) in &mut states {
            // It could not be looked at.
            if state.phase.is_none()
                && let Some(known) = self.seen.get(name).filter(|known| known.phase.is_some())
            {
                state.clone_from(known);
            }
        }
        let before = &self.seen;
        let is_as_before =
            |(name, state): (&String, &VolumeProgress)| before.get(name).is_some_and(|known| state.is_as_far_as(known));
        if states.len() != before.len() || !states.iter().all(is_as_before) {
            self.changed = now;
        }
        let has_moved = |(name, state): (&String, &VolumeProgress)| {
            let known = before.get(name);
            let others = known.is_some_and(|known| state.others.is_some() && state.others != known.others);
            let is_further = |known: &VolumeProgress| state.bytes.0 > known.bytes.0 || state.moved != known.moved;
            let began = known.is_none_or(|known| !known.is_moving() || is_further(known));
            others || (state.is_moving() && began)
        };
        let has_ended = |(name, state): (&String, &VolumeProgress)| state.is_moving() && !states.contains_key(name);
        if states.iter().any(has_moved) || before.iter().any(has_ended) {
            self.moved = Some(now);
        }
        self.seen = states;
    }

    fn given_up(&self, is_chosen: impl Fn(&VolumeProgress) -> bool, why: &str) -> BTreeMap<String, String> {
        let all = self.seen.iter().filter(|(_, state)| is_chosen(state));
        all.map(|(name, state)| (name.clone(), format!("{why}; {}", state.words()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataPathPhase::{Accepted, InProgress, New, Prepared};

    fn minutes(n: u64) -> Duration {
        Duration::from_secs(60 * n)
    }

    fn limits() -> WaitLimits {
        WaitLimits { whole: minutes(240), idle: minutes(30), late: "late" }
    }

    fn all(progress: &[(&str, Option<DataPathPhase>, i64)]) -> BTreeMap<String, VolumeProgress> {
        let one = |(name, phase, bytes): &(&str, Option<DataPathPhase>, i64)| {
            let progress = DataMoveProgress { bytes_done: *bytes, total_bytes: 100, ..DataMoveProgress::default() };
            let message = if *phase == Some(Prepared) { "its node is busy" } else { "" };
            ((*name).to_owned(), VolumeProgress::of(*phase, &progress, message, &BTreeMap::new()))
        };
        progress.iter().map(one).collect()
    }

    fn reasons(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        all.iter().map(|(name, why)| ((*name).to_owned(), (*why).to_owned())).collect()
    }

    #[test]
    fn a_wait_ends_by_its_whole_limit_or_without_progress_while_bytes_move() {
        let mut progress = WaitProgress::default();
        for (time, states, expected) in [
            // Nobody has taken them up: a node agent may be busy.
            (0, all(&[("a", None, 0), ("b", Some(New), 0)]), reasons(&[])),
            (200, all(&[("a", None, 0), ("b", Some(New), 0)]), reasons(&[])),
            (201, all(&[("a", Some(Accepted), 0), ("b", Some(New), 0)]), reasons(&[])),
            (210, all(&[("a", Some(InProgress), 0), ("b", Some(New), 0)]), reasons(&[])),
            // Any progress of any of them counts, and so does one that has ended.
            (239, all(&[("a", Some(InProgress), 5), ("b", Some(New), 0)]), reasons(&[])),
            (241, all(&[("b", Some(New), 0)]), reasons(&[])),
            (270, all(&[("b", Some(New), 0)]), reasons(&[])),
            (271, all(&[("b", Some(New), 0)]), reasons(&[("b", "late; no node agent has taken it up")])),
        ] {
            assert_eq!(progress.look(minutes(time), states, limits()), expected, "{time}");
        }
    }

    #[test]
    fn a_wait_goes_on_past_its_whole_limit_as_long_as_bytes_move() {
        let mut progress = WaitProgress::default();
        let mut look = |time: u64, bytes: i64| {
            let states = all(&[("a", Some(InProgress), bytes), ("b", Some(Prepared), 0)]);
            progress.look(minutes(time), states, limits())
        };
        for (time, bytes) in (0..1000).step_by(20).zip(1..) {
            assert_eq!(look(time, bytes), reasons(&[]), "{time}");
        }
        let late = [("a", "late; it is InProgress"), ("b", "late; it is Prepared: its node is busy")];
        assert_eq!((look(1009, 50), look(1010, 50)), (reasons(&[]), reasons(&late)));
    }

    #[test]
    fn a_volume_that_waits_for_others_of_its_node_is_not_given_up_as_idle() {
        let mut progress = WaitProgress::default();
        let mut look = |time: u64, states: &[(&str, Option<DataPathPhase>, i64)]| {
            progress.look(minutes(time), all(states), limits())
        };
        let (a, b) = (("a", Some(Prepared), 0), ("b", Some(Accepted), 0));
        for time in [0, 30, 60, 239] {
            assert_eq!(look(time, &[a, b]), reasons(&[]), "{time}");
        }
        let late = [("a", "late; it is Prepared: its node is busy"), ("b", "late; it is Accepted")];
        assert_eq!(look(240, &[a, b]), reasons(&late));
    }

    #[test]
    fn a_volume_whose_node_moves_those_of_others_waits_past_the_whole_limit() {
        let mut progress = WaitProgress::default();
        let mut look = |time: u64, others: u64| {
            let noted = BTreeMap::from([("lifeboat.io/others-moved-at".to_owned(), format!("minute {others}"))]);
            let state = VolumeProgress::of(Some(Prepared), &DataMoveProgress::default(), "its node is busy", &noted);
            progress.look(minutes(time), BTreeMap::from([("a".to_owned(), state)]), limits())
        };
        for time in (0..600).step_by(10) {
            assert_eq!(look(time, time), reasons(&[]), "{time}");
        }
        let late = reasons(&[("a", "late; it is Prepared: its node is busy")]);
        assert_eq!((look(619, 590), look(620, 590)), (reasons(&[]), late));
    }

    #[test]
    fn empty_files_that_are_moved_are_progress() {
        let mut progress = WaitProgress::default();
        let mut look = |time: u64, files: u64| {
            let noted = BTreeMap::from([("lifeboat.io/moved-files".to_owned(), format!("{files}/100000"))]);
            let state = VolumeProgress::of(Some(InProgress), &DataMoveProgress::default(), "", &noted);
            progress.look(minutes(time), BTreeMap::from([("a".to_owned(), state)]), limits())
        };
        for time in (0..600).step_by(20) {
            assert_eq!(look(time, time), reasons(&[]), "{time}");
        }
        let late = reasons(&[("a", "late; it is InProgress")]);
        assert_eq!((look(609, 580), look(610, 580)), (reasons(&[]), late));
    }

    #[test]
    fn a_volume_that_nobody_takes_up_says_what_it_waits_for() {
        let mut progress = WaitProgress::default();
        // The resource is made first, and has no phase before it is accepted.
        for (time, message, expected) in [
            (0, "", reasons(&[])),
            (1, "the queue is full", reasons(&[])),
            (240, "the queue is full", reasons(&[("a", "late; no node agent has taken it up: the queue is full")])),
        ] {
            let state = VolumeProgress::of(None, &DataMoveProgress::default(), message, &BTreeMap::new());
            let states = BTreeMap::from([("a".to_owned(), state)]);
            assert_eq!(progress.look(minutes(time), states, limits()), expected, "{time}");
        }
    }

    #[test]
    fn only_a_volume_that_is_being_moved_is_given_up_as_idle() {
        let mut progress = WaitProgress::default();
        let states = || all(&[("a", Some(InProgress), 5), ("b", Some(Prepared), 0)]);
        // A look that the cluster does not answer changes nothing.
        let unknown = all(&[("a", None, 0), ("b", None, 0)]);
        for (time, states) in [(0, states()), (29, unknown), (29, states())] {
            assert_eq!(progress.look(minutes(time), states, limits()), reasons(&[]), "{time}");
        }
        let idle = [("a", "no volume has made any progress for 1800 s; it is InProgress")];
        assert_eq!(progress.look(minutes(30), states(), limits()), reasons(&idle));
    }
}
