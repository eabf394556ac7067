//! The wait for a pod to have a node and to run. Pure.

use crate::method::mover_pod::ROOM_LIMIT;
use std::time::Duration;

/// Words of the scheduler about nodes that would do if they were not full. Other resources, such as those of devices, are left out: there
/// may never be any.
const WITHOUT_ROOM: [&str; 5] = [
    "Insufficient cpu",
    "Insufficient memory",
    "Insufficient ephemeral-storage",
    "Too many pods",
    "exceed max volume count",
];

/// Returns true for words of the scheduler about nodes that are full.
pub(super) fn is_about_room(scheduler: &str) -> bool {
    WITHOUT_ROOM.iter().any(|words| scheduler.contains(words))
}

/// The wait for a pod. Time for which no node has room for it counts apart from the rest. Times are counted from its begin.
#[derive(Debug)]
pub(super) struct PlaceWait {
    /// Longest time for all but room.
    limit: Duration,
    looked: Duration,
    /// The time without room until the last look.
    full: Duration,
    /// No node had room at the last look.
    is_full: bool,
}

impl PlaceWait {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, looked: Duration::ZERO, full: Duration::ZERO, is_full: false }
    }

    /// Takes a look at the pod. Returns true when it is the first that shows that no node has room.
    pub(super) fn look(&mut self, now: Duration, is_full: bool) -> bool {
        if self.is_full {
            self.full += now.saturating_sub(self.looked);
        }
        self.looked = now;
        let was_full = std::mem::replace(&mut self.is_full, is_full);
        is_full && !was_full
    }

    /// Returns true if the wait is over before the next look, at this time.
    pub(super) fn is_over(&self, next: Duration) -> bool {
        match self.is_full {
            true => self.full + next.saturating_sub(self.looked) > ROOM_LIMIT.max(self.limit),
            false => next.saturating_sub(self.full) > self.limit,
        }
    }

    /// The limit by which the wait is over, for people; `flag` is that by which they can change it.
    pub(super) fn limit_words(&self, flag: &str) -> String {
        match self.is_full {
            true => {
                let minutes = ROOM_LIMIT.max(self.limit).as_secs() / 60;
                let time = match (minutes / 60, minutes % 60) {
                    (hours, 0) => format!("{hours} h"),
                    (hours, rest) => format!("{hours} h {rest} min"),
                };
                format!("{time} in which no node had room for it")
            }
            false => format!("{} s ({flag})", self.limit.as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_room_on_any_node_counts_apart_from_the_rest() {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        let mut wait = PlaceWait::new(minutes(10));
        let mut is_over = |time: u64, is_full: bool| {
            let is_first = wait.look(minutes(time), is_full);
            (is_first, wait.is_over(minutes(time + 1)), wait.limit_words("--flag"))
        };
        let (short, long) = ("600 s (--flag)".to_owned(), "4 h in which no node had room for it".to_owned());
        for (time, is_full, is_first, expected) in [
            (0, false, false, false),
            (5, true, true, false),
            (60, true, false, false),
            // It has a node after an hour and three quarters, and five minutes of its time are left.
            (110, false, false, false),
            (114, false, false, false),
            (115, false, false, true),
            // It was evicted, and the nodes are full again: two hours and a quarter are left.
            (116, true, true, false),
            (250, true, false, false),
            (251, true, false, true),
        ] {
            let limit = if is_full { &long } else { &short };
            assert_eq!(is_over(time, is_full), (is_first, expected, limit.clone()), "{time}");
        }
        let mut longer = PlaceWait::new(minutes(270));
        longer.look(Duration::ZERO, true);
        assert_eq!(longer.limit_words("--flag"), "4 h 30 min in which no node had room for it");
        let mut never = PlaceWait::new(Duration::ZERO);
        assert!(!never.look(Duration::ZERO, false) && never.is_over(Duration::from_millis(100)));
    }

    #[test]
    fn full_nodes_are_told_from_volumes_that_are_elsewhere() {
        for (words, expected) in [
            ("0/3 nodes are available: 3 Insufficient memory.", true),
            ("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", false),
            ("0/3 nodes are available: 1 Too many pods, 2 node(s) had volume node affinity conflict.", true),
            ("0/3 nodes are available: 3 node(s) exceed max volume count.", true),
            ("0/3 nodes are available: 3 node(s) had volume node affinity conflict.", false),
            ("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.", false),
            ("the scheduler has said nothing about it", false),
        ] {
            assert_eq!(is_about_room(words), expected, "{words}");
        }
    }
}
