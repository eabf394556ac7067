//! The pauses of steps: those that failed, and those that only wait.

use crate::StepBackoff;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;
use tokio::time::Instant;

/// The steps that are not tried again before some moment. A process that starts without it only tries earlier.
#[derive(Clone, Debug)]
pub struct RetryMemory<K>(HashMap<K, StepBackoff>);

impl<K> Default for RetryMemory<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> RetryMemory<K> {
    /// The failures of a step and the time of its next attempt; `None` when nothing is known against it.
    #[must_use]
    pub fn get(&self, step: &K) -> Option<&StepBackoff> {
        self.0.get(step)
    }

    /// All steps that are remembered.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &StepBackoff)> {
        self.0.iter()
    }

    /// The moment before which a step is not tried again; `None` when it may be tried now.
    #[must_use]
    pub fn paused_until(&self, step: &K, now: Instant) -> Option<Instant> {
        self.0.get(step).map(|backoff| backoff.until).filter(|until| *until > now)
    }

    /// Remembers a pause as it is.
    pub fn remember(&mut self, step: K, backoff: StepBackoff) {
        self.0.insert(step, backoff);
    }

    /// Counts a failure of a step: each pauses it for longer than the one before.
    pub fn failed(&mut self, step: K, now: Instant) -> StepBackoff {
        let backoff = StepBackoff::after(self.0.get(&step).copied(), now);
        self.0.insert(step, backoff);
        backoff
    }

    /// Pauses a step that has not failed. Its failures before are forgotten.
    pub fn waits(&mut self, step: K, pause: Duration, now: Instant) {
        self.remember(step, StepBackoff::waits(pause, now));
    }

    /// Forgets a step that has succeeded.
    pub fn succeeded(&mut self, step: &K) {
        self.0.remove(step);
    }

    /// Forgets the steps that this does not keep, such as those of objects that are gone.
    pub fn retain(&mut self, keeps: impl Fn(&K) -> bool) {
        self.0.retain(|step, _| keeps(step));
    }

    /// Forgets all steps.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_failed_is_paused_until_it_succeeds() {
        let (now, mut memory) = (Instant::now(), RetryMemory::default());
        assert_eq!((memory.failed("a", now).count, memory.failed("a", now).count), (1, 2));
        let pause = |step| memory.paused_until(&step, now).map(|until| (until - now).as_millis());
        assert_eq!([pause("a"), pause("b")], [Some(400), None]);
        assert_eq!(memory.paused_until(&"a", now + Duration::from_millis(401)), None);
        memory.succeeded(&"a");
        assert_eq!(memory.failed("a", now).count, 1);
    }

    #[test]
    fn a_step_that_waits_has_not_failed() {
        let (now, mut memory) = (Instant::now(), RetryMemory::default());
        memory.failed("a", now);
        memory.waits("a", Duration::from_secs(5), now);
        assert_eq!(
            memory.get(&"a").map(|backoff| (backoff.count, backoff.until - now)),
            Some((0, Duration::from_secs(5)))
        );
        assert_eq!(memory.failed("a", now).count, 1);
    }

    #[test]
    fn steps_of_objects_that_are_gone_are_forgotten() {
        let (now, mut memory) = (Instant::now(), RetryMemory::default());
        for step in ["a", "b"] {
            memory.failed(step, now);
        }
        memory.retain(|step| *step == "b");
        assert_eq!(memory.iter().map(|(step, _)| *step).collect::<Vec<_>>(), ["b"]);
        memory.clear();
        assert!(memory.iter().next().is_none());
    }
}
