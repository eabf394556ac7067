//! Decides by the error of a snapshot how long it is still waited for. Pure.

use std::time::Duration;
use tokio::time::Instant;

/// The longest time that an error that can pass may stay while pods stand still.
pub(crate) const FROZEN_PATIENCE: Duration = Duration::from_secs(120);

/// Codes of drivers that no later try changes: the request is wrong, not possible, or not allowed.
const FINAL_CODES: [&str; 3] = ["InvalidArgument", "Unimplemented", "PermissionDenied"];

/// Returns true if the error that a controller or a driver writes into a status can never pass. They try again all the
/// same, so an unknown error counts as one that can pass.
pub(crate) fn is_final(message: &str) -> bool {
    let has_code = |code: &&str| message.contains(&format!("code = {code} "));
    let lower = message.to_lowercase();
    let lacks_class = lower.contains("snapshotclass") && lower.contains("not found")
        || lower.contains("cannot find default snapshot class")
        || lower.contains("cannot find default group snapshot class");
    lacks_class || FINAL_CODES.iter().any(has_code)
}

/// The end of the wait for a snapshot, by the errors that it shows: one that can pass shortens the wait where pods stand still.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitLimit {
    deadline: Instant,
    is_frozen: bool,
    /// The time when the first error was seen. An error that comes back after a moment without is not waited for anew.
    first: Option<Instant>,
    has_error: bool,
}

impl WaitLimit {
    /// A wait that ends at this deadline at the latest.
    pub(crate) fn new(deadline: Instant, is_frozen: bool) -> Self {
        Self { deadline, is_frozen, first: None, has_error: false }
    }

    /// Notes whether there is an error now.
    pub(crate) fn see(&mut self, has_error: bool, now: Instant) {
        self.has_error = has_error;
        if has_error {
            self.first.get_or_insert(now);
        }
    }

    /// Returns true if there was an error at the last look.
    pub(crate) fn has_error(&self) -> bool {
        self.has_error
    }

    /// The end of the wait as things are.
    pub(crate) fn until(&self) -> Instant {
        match self.first.filter(|_| self.is_frozen && self.has_error) {
            Some(first) => self.deadline.min(first + FROZEN_PATIENCE),
            None => self.deadline,
        }
    }

    /// Returns true if the wait is shorter than its deadline because of an error.
    pub(crate) fn is_shortened(&self) -> bool {
        self.until() < self.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_later_try_changes_ends_a_snapshot_at_once() {
        let rpc =
            |code: &str| format!("Failed to check and update snapshot content: rpc error: code = {code} desc = no");
        for (message, expected) in [
            (rpc("InvalidArgument"), true),
            (rpc("Unimplemented"), true),
            (rpc("PermissionDenied"), true),
            (rpc("NotFound"), false),
            (rpc("Aborted"), false),
            (rpc("Unavailable"), false),
            (rpc("DeadlineExceeded"), false),
            (rpc("ResourceExhausted"), false),
            (rpc("InvalidArguments"), false),
            ("failed to get snapshot class: volumesnapshotclass.snapshot.storage.k8s.io \"x\" not found".into(), true),
            ("volumegroupsnapshotclass.groupsnapshot.storage.k8s.io \"x\" not found".into(), true),
            ("Failed to set default snapshot class with error cannot find default snapshot class".into(), true),
            ("the persistentvolumeclaim \"x\" is not found".into(), false),
            ("context deadline exceeded".into(), false),
            (String::new(), false),
        ] {
            assert_eq!(is_final(&message), expected, "{message}");
        }
    }

    #[test]
    fn a_passing_error_shortens_the_wait_of_frozen_pods_and_flicker_does_not() {
        let now = Instant::now();
        let (late, soon) = (now + Duration::from_secs(600), now + FROZEN_PATIENCE);
        let mut frozen = WaitLimit::new(late, true);
        assert_eq!((frozen.until(), frozen.is_shortened()), (late, false));
        frozen.see(true, now);
        assert_eq!((frozen.until(), frozen.is_shortened()), (soon, true));
        frozen.see(false, now + Duration::from_secs(60));
        assert_eq!(frozen.until(), late);
        frozen.see(true, now + Duration::from_secs(90));
        assert_eq!((frozen.until(), frozen.has_error()), (soon, true));
        let mut common = WaitLimit::new(late, false);
        common.see(true, now);
        assert_eq!(common.until(), late);
        let mut short = WaitLimit::new(now, true);
        short.see(true, now);
        assert_eq!((short.until(), short.is_shortened()), (now, false));
    }
}
