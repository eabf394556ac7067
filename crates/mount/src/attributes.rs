//! Attributes of an entry as a file system tells them.

use lifeboat_mover::tree::{Attributes, EntryKind, SourceEntry, SpecialFile};
use std::time::{Duration, SystemTime};

/// The permissions of what has none in the repository: the root of a snapshot of restic, and the folder of all snapshots.
const PERMISSIONS_OF_FOLDERS: u32 = 0o555;
/// The bits of a mode that are permissions.
const PERMISSIONS: u32 = 0o7777;

/// The type of an entry, as file systems know types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// A file, and what has a type that is not known.
    File,
    /// A directory.
    Directory,
    /// A symlink.
    Symlink,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A device of characters.
    CharacterDevice,
    /// A device of blocks.
    BlockDevice,
}

impl NodeKind {
    /// The type of an entry of a snapshot.
    fn of(kind: &EntryKind) -> Self {
        match kind {
            EntryKind::File | EntryKind::Unknown(_) => Self::File,
            EntryKind::Directory => Self::Directory,
            EntryKind::Symlink => Self::Symlink,
            EntryKind::Special(SpecialFile::Pipe) => Self::Pipe,
            EntryKind::Special(SpecialFile::Socket) => Self::Socket,
            EntryKind::Special(SpecialFile::CharacterDevice(_)) => Self::CharacterDevice,
            EntryKind::Special(SpecialFile::BlockDevice(_)) => Self::BlockDevice,
        }
    }
}

/// The attributes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeAttributes {
    /// The type.
    pub kind: NodeKind,
    /// The bytes of a file or of the target of a symlink.
    pub size: u64,
    /// The permissions with setuid, setgid and sticky.
    pub permissions: u16,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The time of the last change.
    pub modified: SystemTime,
    /// The number of a device.
    pub device: u64,
}

impl NodeAttributes {
    /// The attributes of an entry of a snapshot.
    #[must_use]
    pub fn of(entry: &SourceEntry) -> Self {
        let (mode, uid, gid, modified) = match &entry.attributes {
            Some(Attributes { mode, uid, gid, modified, .. }) => (*mode, *uid, *gid, time(modified.0)),
            None => (PERMISSIONS_OF_FOLDERS, 0, 0, SystemTime::UNIX_EPOCH),
        };
        let device = match entry.kind {
            EntryKind::Special(SpecialFile::CharacterDevice(number) | SpecialFile::BlockDevice(number)) => number,
            _ => 0,
        };
        let kind = NodeKind::of(&entry.kind);
        let size = if kind == NodeKind::Directory { 0 } else { entry.size };
        Self { kind, size, permissions: (mode & PERMISSIONS) as u16, uid, gid, modified, device }
    }
}

/// The time so many nanoseconds after 1970, or before.
fn time(nanoseconds: i64) -> SystemTime {
    let distance = Duration::from_nanos(nanoseconds.unsigned_abs());
    let epoch = SystemTime::UNIX_EPOCH;
    let time = if nanoseconds < 0 { epoch.checked_sub(distance) } else { epoch.checked_add(distance) };
    time.unwrap_or(epoch)
}
