//! What is worked on: which work excludes which, and how much of each kind is done at once.

use crate::world::{Kind, World};
use lifeboat_reconcile::TaskKey;

/// One kind of work on one object. Failures are counted for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    /// The place of a backup in the queue.
    Queue(String),
    /// The end of its waiting.
    Start(String),
    Backup(String),
    /// The end of a backup or restore that no task works on; it does not wait for what failed before.
    CancelBackup(String),
    CancelRestore(String),
    /// Of what the backup of a name has left in a location.
    Sweep {
        backup: String,
        location: String,
    },
    /// The run of a restore, which needs one of the places for them.
    Restore(String),
    /// What else is done with a restore.
    Upkeep(String),
    CleanUp(String),
    Validation(String),
    Default(String),
    Sync(String),
    /// Of the backup, for one of those that ask for it.
    Deletion {
        backup: String,
        request: String,
    },
    /// A request for a deletion that is only answered.
    Refusal(String),
    Download(String),
    Status(String),
    Unreadable(Kind, String),
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

impl TaskKey for Key {
    type Subject = Subject;

    fn subject(&self) -> Subject {
        match self {
            Self::Queue(name)
            | Self::Start(name)
            | Self::Backup(name)
            | Self::CancelBackup(name)
            | Self::Sweep { backup: name, .. }
            | Self::Deletion { backup: name, .. }
            | Self::Unreadable(Kind::Backup, name) => Subject::Backup(name.clone()),
            Self::Restore(name)
            | Self::Upkeep(name)
            | Self::CancelRestore(name)
            | Self::CleanUp(name)
            | Self::Unreadable(Kind::Restore, name) => Subject::Restore(name.clone()),
            Self::Validation(name) | Self::Default(name) | Self::Sync(name) | Self::Unreadable(_, name) => {
                Subject::Location(name.clone())
            }
            Self::Refusal(name) => Subject::DeleteRequest(name.clone()),
            Self::Download(name) => Subject::DownloadRequest(name.clone()),
            Self::Status(name) => Subject::StatusRequest(name.clone()),
        }
    }
}

impl Subject {
    /// The kind and name of the object.
    pub(super) fn object(&self) -> (Kind, &str) {
        match self {
            Self::Backup(name) => (Kind::Backup, name),
            Self::Restore(name) => (Kind::Restore, name),
            Self::Location(name) => (Kind::BackupStorageLocation, name),
            Self::DeleteRequest(name) => (Kind::DeleteBackupRequest, name),
            Self::DownloadRequest(name) => (Kind::DownloadRequest, name),
            Self::StatusRequest(name) => (Kind::ServerStatusRequest, name),
        }
    }

    /// Whether there is such an object, be it one that cannot be read.
    pub(super) fn is_there(&self, world: &World) -> bool {
        let (kind, name) = self.object();
        world.is_there(kind, name)
    }
}

impl Key {
    /// The object that asks for this work: what is worked on, but for a deletion, which is work on the backup.
    pub(super) fn object(&self) -> Subject {
        match self {
            Self::Deletion { request, .. } => Subject::DeleteRequest(request.clone()),
            key => key.subject(),
        }
    }

    /// How many of a kind run at once, for all locations together: each holds a connection to the API server or to a bucket.
    pub(super) const MOST_IN_ALL: usize = 64;

    /// How many of its kind run at once for one location, or of what speaks to none. Of what has failed again and again it
    /// is a quarter, which leaves places to the others. Backups and restores have bounds of their own as well.
    pub(super) fn most(&self, is_late: bool) -> usize {
        let most = self.most_for_one_location();
        if is_late { (most / 4).max(1) } else { most }
    }

    fn most_for_one_location(&self) -> usize {
        match self {
            Self::Queue(_) | Self::Start(_) | Self::Backup(_) | Self::Restore(_) | Self::Upkeep(_) => 32,
            Self::Download(_) | Self::Refusal(_) | Self::Status(_) => 16,
            Self::CancelBackup(_)
            | Self::CancelRestore(_)
            | Self::CleanUp(_)
            | Self::Validation(_)
            | Self::Default(_)
            | Self::Sync(_)
            | Self::Deletion { .. }
            | Self::Unreadable(..) => 8,
            Self::Sweep { .. } => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_on_one_thing_excludes_the_other() {
        let name = || "x".to_owned();
        let deletion = Key::Deletion { backup: name(), request: "r".to_owned() };
        let same = [
            vec![
                Key::Queue(name()),
                Key::Start(name()),
                Key::Backup(name()),
                Key::CancelBackup(name()),
                Key::Sweep { backup: name(), location: name() },
            ],
            vec![deletion, Key::Unreadable(Kind::Backup, name()), Key::Backup(name())],
            vec![Key::Restore(name()), Key::Upkeep(name()), Key::CancelRestore(name()), Key::CleanUp(name())],
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
