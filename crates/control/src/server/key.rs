//! What is worked on: which work excludes which, and how much of each kind is done at once.

use std::time::Duration;
use tokio::time::Instant;

/// One kind of work on one object. Failures are counted for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    Queue(String),
    Backup(String),
    /// The end of a backup or restore that no task works on; it does not wait for what failed before.
    CancelBackup(String),
    CancelRestore(String),
    Sweep(String),
    Restore(String),
    CleanUp(String),
    Validation(String),
    Default(String),
    Sync(String),
    /// Of the backup of this name, however many ask for it.
    Deletion(String),
    /// A request for a deletion that is only answered.
    Refusal(String),
    Download(String),
    Status(String),
    Unreadable(&'static str, String),
}

/// What a task has for itself: at most one works on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Subject {
    /// All that is called so: the object, its files, its place in the queue.
    Backup(String),
    Restore(String),
    Location(String),
    DeleteRequest(String),
    DownloadRequest(String),
    StatusRequest(String),
}

impl Key {
    pub(super) fn subject(&self) -> Subject {
        match self {
            Self::Queue(name)
            | Self::Backup(name)
            | Self::CancelBackup(name)
            | Self::Sweep(name)
            | Self::Deletion(name)
            | Self::Unreadable("Backup", name) => Subject::Backup(name.clone()),
            Self::Restore(name)
            | Self::CancelRestore(name)
            | Self::CleanUp(name)
            | Self::Unreadable("Restore", name) => Subject::Restore(name.clone()),
            Self::Validation(name) | Self::Default(name) | Self::Sync(name) | Self::Unreadable(_, name) => {
                Subject::Location(name.clone())
            }
            Self::Refusal(name) => Subject::DeleteRequest(name.clone()),
            Self::Download(name) => Subject::DownloadRequest(name.clone()),
            Self::Status(name) => Subject::StatusRequest(name.clone()),
        }
    }

    /// How many of its kind run at once: each holds a connection to the API server or a client of a bucket. Backups and
    /// restores have bounds of their own as well.
    pub(super) fn most(&self) -> usize {
        match self {
            Self::Queue(_) | Self::Backup(_) | Self::Restore(_) => 32,
            Self::Download(_) | Self::Refusal(_) | Self::Status(_) => 16,
            Self::CancelBackup(_)
            | Self::CancelRestore(_)
            | Self::CleanUp(_)
            | Self::Validation(_)
            | Self::Default(_)
            | Self::Sync(_)
            | Self::Deletion(_)
            | Self::Unreadable(..) => 8,
            Self::Sweep(_) => 2,
        }
    }
}

/// What failed: how often, and when it is tried again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure {
    pub(super) count: u32,
    pub(super) until: Instant,
}

/// After so many failures a step no longer keeps others waiting.
pub(super) const STUCK: u32 = 3;
/// Pause after the first failure of a step; doubled with each further one, up to the longest.
const RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

impl Failure {
    pub(super) fn after(before: Option<Self>, now: Instant) -> Self {
        let count = before.map_or(0, |before| before.count).saturating_add(1);
        Self { count, until: now + (RETRY * 2u32.saturating_pow((count - 1).min(16))).min(LONGEST_RETRY) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_tried_again_later_and_later() {
        let now = Instant::now();
        let mut failure = None;
        let mut pauses = Vec::new();
        for _ in 0..11 {
            let next = Failure::after(failure, now);
            pauses.push((next.until - now).as_millis());
            failure = Some(next);
        }
        assert_eq!(pauses, [200, 400, 800, 1600, 3200, 6400, 12800, 25600, 51200, 60000, 60000]);
    }

    #[test]
    fn work_on_one_thing_excludes_the_other() {
        let name = || "x".to_owned();
        let same = [
            vec![Key::Queue(name()), Key::Backup(name()), Key::CancelBackup(name()), Key::Sweep(name())],
            vec![Key::Deletion(name()), Key::Unreadable("Backup", name()), Key::Backup(name())],
            vec![Key::Restore(name()), Key::CancelRestore(name()), Key::CleanUp(name())],
            vec![Key::Validation(name()), Key::Default(name()), Key::Sync(name())],
        ];
        for keys in same {
            assert!(keys.iter().all(|key| key.subject() == keys[0].subject()), "{keys:?}");
        }
        let subjects: std::collections::BTreeSet<Subject> = [
            Key::Backup(name()),
            Key::Restore(name()),
            Key::Sync(name()),
            Key::Refusal(name()),
            Key::Download(name()),
            Key::Status(name()),
        ]
        .iter()
        .map(Key::subject)
        .collect();
        assert_eq!(subjects.len(), 6);
    }
}
