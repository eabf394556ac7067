//! Hooks: commands that run in containers of pods.

use lifeboat_api::{Duration, HookErrorMode};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The longest time for a command that names no time (velero: internal/hook).
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest time for a command, whatever it names.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(4 * 3600);

/// A command that runs in a container of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hook {
    /// Its name in the resource; `<from-annotation>` for one of an annotation.
    pub name: String,
    /// The origin of the hook.
    pub source: HookSource,
    /// The number of the hook among those of its name and moment, from 0.
    pub index: usize,
    /// The container; empty for the first one of the pod.
    pub container: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// True when its failure keeps the pod's further hooks from running, and before a backup the pod out of it.
    pub fails_pod: bool,
    /// The longest time for the command: more than zero, and no more than four hours.
    pub timeout: Duration,
}

/// The origin of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HookSource {
    /// An annotation of the pod.
    Annotation,
    /// The spec of the backup or restore.
    Spec,
}

/// The moment at which a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// Before the pod is backed up.
    Pre,
    /// After the pod was backed up.
    Post,
    /// After the pod was restored.
    Restored,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pre => "pre",
            Self::Post => "post",
            Self::Restored => "restore",
        })
    }
}

/// The name of a hook that an annotation asks for.
pub(crate) const FROM_ANNOTATION: &str = "<from-annotation>";

/// The time that a command has, of the time that was asked for (velero: internal/hook).
pub(crate) fn effective_timeout(asked: Duration) -> Duration {
    if asked <= Duration::ZERO { DEFAULT_TIMEOUT } else { asked.min(LONGEST_TIMEOUT) }
}

/// Returns true if a failure counts for the whole pod. compat: an unset mode is `Continue`, although Velero's
/// documentation says `Fail`.
pub(crate) fn fails_pod(mode: Option<&HookErrorMode>) -> bool {
    mode == Some(&HookErrorMode::Fail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_thirty_seconds_unless_it_asks_for_up_to_four_hours() {
        for (asked, expected) in [(-5, 30), (0, 30), (1, 1), (14_400, 14_400), (14_401, 14_400)] {
            let expected = Duration::from_secs(expected);
            assert_eq!(effective_timeout(Duration::from_secs(asked)), expected, "{asked}");
        }
    }
}
