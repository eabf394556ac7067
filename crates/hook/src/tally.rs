//! Counts hooks, as the status of a backup or restore says them.

use crate::hook::{Hook, HookSource, Moment};
use lifeboat_api::HookStatus;
use std::collections::BTreeMap;

/// The hooks that were due, by pod, and those that failed (velero: internal/hook).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookTally {
    /// True, by hook, when it failed.
    hooks: BTreeMap<Key, bool>,
}

/// Identifies a hook: pod, source, container, moment, name and index.
type Key = (String, HookSource, String, Moment, String, usize);

fn key(pod: &str, hook: &Hook, moment: Moment) -> Key {
    (pod.to_owned(), hook.source, hook.container.clone(), moment, hook.name.clone(), hook.index)
}

impl HookTally {
    /// Notes that a hook is due. Those count that never came to run because one before them failed.
    pub fn due(&mut self, pod: &str, hook: &Hook, moment: Moment) {
        self.hooks.entry(key(pod, hook, moment)).or_default();
    }

    /// Notes that a hook failed.
    pub fn failed(&mut self, pod: &str, hook: &Hook, moment: Moment) {
        self.hooks.insert(key(pod, hook, moment), true);
    }

    /// Adds what another worker counted.
    pub fn add(&mut self, other: Self) {
        for (key, failed) in other.hooks {
            *self.hooks.entry(key).or_default() |= failed;
        }
    }

    /// The counts; `None` when no hook was due.
    #[must_use]
    pub fn status(&self) -> Option<HookStatus> {
        let count = |hooks: usize| i64::try_from(hooks).unwrap_or(i64::MAX);
        let failed = self.hooks.values().filter(|failed| **failed).count();
        (!self.hooks.is_empty()).then(|| HookStatus {
            hooks_attempted: count(self.hooks.len()),
            hooks_failed: count(failed),
            ..HookStatus::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::Duration;

    #[test]
    fn each_hook_of_a_pod_counts_once() {
        let hook = |name: &str, index| Hook {
            name: name.to_owned(),
            source: HookSource::Spec,
            index,
            container: String::new(),
            command: Vec::new(),
            fails_pod: false,
            timeout: Duration::ZERO,
        };
        let mut tally = HookTally::default();
        assert_eq!(tally.status(), None);
        tally.due("a/b", &hook("h", 0), Moment::Pre);
        tally.due("a/b", &hook("h", 1), Moment::Pre);
        tally.failed("a/b", &hook("h", 1), Moment::Pre);
        tally.due("a/b", &hook("h", 1), Moment::Pre);
        let mut other = HookTally::default();
        other.due("a/b", &hook("h", 0), Moment::Pre);
        other.due("a/b", &hook("h", 0), Moment::Post);
        other.failed("a/c", &hook("h", 0), Moment::Pre);
        tally.add(other);
        assert_eq!(tally.status(), Some(HookStatus { hooks_attempted: 4, hooks_failed: 2, ..HookStatus::default() }));
    }
}
