//! The keys of work: which work excludes which, and how many tasks of each kind run at once.

use crate::world::{MirroredKind, World};
use lifeboat_api::NamespacedName;
use lifeboat_reconcile::TaskKey;

/// A kind of work on an object. Failures are counted for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    /// The place of a backup in the queue.
    Queue(NamespacedName),
    /// The end of its waiting.
    Start(NamespacedName),
    Backup(NamespacedName),
    /// The end of a backup or restore that no task works on; it does not wait for what failed before.
    CancelBackup(NamespacedName),
    CancelRestore(NamespacedName),
    /// The removal of the files that the backup of a name has left in a location, which is in the same namespace.
    Sweep {
        backup: NamespacedName,
        location: NamespacedName,
    },
    /// The run of a restore, which needs one of the places for them.
    Restore(NamespacedName),
    /// Other work on a restore.
    Upkeep(NamespacedName),
    CleanUp(NamespacedName),
    Validation(NamespacedName),
    Default(NamespacedName),
    Sync(NamespacedName),
    /// The deletion of the backup, for a request that asks for it, which is in the same namespace.
    Deletion {
        backup: NamespacedName,
        request: NamespacedName,
    },
    /// A request for a deletion that is only answered.
    Refusal(NamespacedName),
    Download(NamespacedName),
    Status(NamespacedName),
    /// An update of the status of a schedule, or a run of it.
    Schedule(NamespacedName),
    /// The expiry of a backup, or a change of its expiration.
    Expiry(NamespacedName),
    Repository(NamespacedName),
    /// The maintenance of a repository.
    Maintenance(NamespacedName),
    Unreadable(MirroredKind, NamespacedName),
}

/// The thing that a task has for itself: at most one task works on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Subject {
    /// The object of this name, its files, and its place in the queue.
    Backup(NamespacedName),
    Restore(NamespacedName),
    Location(NamespacedName),
    DeleteRequest(NamespacedName),
    DownloadRequest(NamespacedName),
    StatusRequest(NamespacedName),
    Schedule(NamespacedName),
    Repository(NamespacedName),
}

impl TaskKey for Key {
    type Subject = Subject;

    fn subject(&self) -> Subject {
        match self {
            Self::Queue(key)
            | Self::Start(key)
            | Self::Backup(key)
            | Self::CancelBackup(key)
            | Self::Expiry(key)
            | Self::Sweep { backup: key, .. }
            | Self::Deletion { backup: key, .. } => Subject::Backup(key.clone()),
            Self::Restore(key) | Self::Upkeep(key) | Self::CancelRestore(key) | Self::CleanUp(key) => {
                Subject::Restore(key.clone())
            }
            Self::Validation(key) | Self::Default(key) | Self::Sync(key) => Subject::Location(key.clone()),
            Self::Refusal(key) => Subject::DeleteRequest(key.clone()),
            Self::Download(key) => Subject::DownloadRequest(key.clone()),
            Self::Status(key) => Subject::StatusRequest(key.clone()),
            Self::Schedule(key) => Subject::Schedule(key.clone()),
            Self::Repository(key) | Self::Maintenance(key) => Subject::Repository(key.clone()),
            Self::Unreadable(kind, key) => Subject::of(*kind, key.clone()),
        }
    }
}

impl Subject {
    /// The object of this kind that is called so.
    pub(super) fn of(kind: MirroredKind, key: NamespacedName) -> Self {
        match kind {
            MirroredKind::Backup => Self::Backup(key),
            MirroredKind::Restore => Self::Restore(key),
            MirroredKind::BackupStorageLocation => Self::Location(key),
            MirroredKind::DeleteBackupRequest => Self::DeleteRequest(key),
            MirroredKind::DownloadRequest => Self::DownloadRequest(key),
            MirroredKind::ServerStatusRequest => Self::StatusRequest(key),
            MirroredKind::Schedule => Self::Schedule(key),
            MirroredKind::BackupRepository => Self::Repository(key),
        }
    }

    /// The kind of the object, and how it is called.
    pub(super) fn object(&self) -> (MirroredKind, &NamespacedName) {
        match self {
            Self::Backup(key) => (MirroredKind::Backup, key),
            Self::Restore(key) => (MirroredKind::Restore, key),
            Self::Location(key) => (MirroredKind::BackupStorageLocation, key),
            Self::DeleteRequest(key) => (MirroredKind::DeleteBackupRequest, key),
            Self::DownloadRequest(key) => (MirroredKind::DownloadRequest, key),
            Self::StatusRequest(key) => (MirroredKind::ServerStatusRequest, key),
            Self::Schedule(key) => (MirroredKind::Schedule, key),
            Self::Repository(key) => (MirroredKind::BackupRepository, key),
        }
    }

    /// Returns true if the object exists, even one that cannot be read.
    pub(super) fn is_there(&self, world: &World) -> bool {
        let (kind, key) = self.object();
        world.is_there(kind, key)
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

    /// Largest number of tasks of a kind, for all locations together: each holds a connection to the API server or to a
    /// bucket.
    pub(super) const MOST_IN_ALL: usize = 64;

    /// The largest number of tasks of its kind for one location, or for none. Work that has failed again and again gets
    /// a quarter of it, which leaves places to the rest. Backups and restores have bounds of their own as well.
    pub(super) fn most(&self, is_late: bool) -> usize {
        let most = self.most_for_one_location();
        if is_late { (most / 4).max(1) } else { most }
    }

    fn most_for_one_location(&self) -> usize {
        match self {
            Self::Queue(_) | Self::Start(_) | Self::Backup(_) | Self::Restore(_) | Self::Upkeep(_) => 32,
            Self::Download(_) | Self::Refusal(_) | Self::Status(_) | Self::Schedule(_) => 16,
            Self::CancelBackup(_)
            | Self::Expiry(_)
            | Self::CancelRestore(_)
            | Self::CleanUp(_)
            | Self::Validation(_)
            | Self::Default(_)
            | Self::Sync(_)
            | Self::Deletion { .. }
            | Self::Unreadable(..) => 8,
            // Keys are derived from the password, which takes a processor and memory.
            Self::Repository(_) => 4,
            Self::Sweep { .. } => 2,
            // A server that runs in no pod does all of it itself.
            Self::Maintenance(_) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::named;

    #[test]
    fn work_on_one_thing_excludes_the_other() {
        let name = || named("x");
        let deletion = Key::Deletion { backup: name(), request: named("r") };
        let same = [
            vec![
                Key::Queue(name()),
                Key::Start(name()),
                Key::Backup(name()),
                Key::CancelBackup(name()),
                Key::Sweep { backup: name(), location: name() },
                Key::Expiry(name()),
            ],
            vec![deletion, Key::Unreadable(MirroredKind::Backup, name()), Key::Backup(name())],
            vec![Key::Restore(name()), Key::Upkeep(name()), Key::CancelRestore(name()), Key::CleanUp(name())],
            vec![Key::Validation(name()), Key::Default(name()), Key::Sync(name())],
            vec![Key::Repository(name()), Key::Maintenance(name())],
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
            Key::Schedule(name()),
            Key::Repository(name()),
        ]
        .iter()
        .map(Key::subject)
        .collect();
        assert_eq!(subjects.len(), 8);
    }

    #[test]
    fn work_on_things_of_one_name_in_two_namespaces_excludes_nothing() {
        let [here, there] =
            ["here", "there"].map(|namespace| NamespacedName { namespace: namespace.into(), ..named("x") });
        let keys = |key: &NamespacedName| {
            let key = || key.clone();
            [
                Key::Queue(key()),
                Key::Deletion { backup: key(), request: key() },
                Key::Sweep { backup: key(), location: key() },
                Key::Restore(key()),
                Key::Sync(key()),
                Key::Refusal(key()),
                Key::Download(key()),
                Key::Status(key()),
                Key::Schedule(key()),
                Key::Expiry(key()),
                Key::Repository(key()),
                Key::Maintenance(key()),
                Key::Unreadable(MirroredKind::Backup, key()),
            ]
        };
        for (one, other) in keys(&here).iter().zip(&keys(&there)) {
            assert_ne!(one, other);
            assert_ne!(one.subject(), other.subject());
            assert_ne!(one.object(), other.object());
        }
    }
}
