//! An entry of a directory, whatever the format of its repository.

use lifeboat_kopia::format::content_id::ContentId;
use lifeboat_kopia::format::object_id::ObjectId;
use lifeboat_kopia::format::time::UnixNanos;
use lifeboat_kopia::snapshot::EntryState;
use lifeboat_restic::Id;
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceEntry {
    /// Its name, which may be anything.
    pub name: OsString,
    /// True where bytes of the name are lost in the repository.
    pub is_lossy: bool,
    /// Its type.
    pub kind: EntryKind,
    /// The bytes of a file.
    pub size: u64,
    /// Mode, owner and time; `None` for the root of a snapshot of restic, which has none.
    pub attributes: Option<Attributes>,
    /// The entries or bytes; `None` where there are none, or cannot be.
    pub object: Option<Object>,
    /// The state of the entry.
    pub state: EntryState,
    /// True where the snapshot has everything that was below it.
    pub is_complete: bool,
    /// Entries below it that could not be read when the snapshot was taken.
    pub missing: u64,
    /// The files below it and their bytes, where the repository says so.
    pub expected: Option<(u64, u64)>,
    /// The identity of a file with several names: device and inode, where the repository has them.
    pub hard_link: Option<(u64, u64)>,
}

impl SourceEntry {
    /// A directory of which nothing is known but its name.
    #[must_use]
    pub fn directory(name: OsString) -> Self {
        Self {
            name,
            is_lossy: false,
            kind: EntryKind::Directory,
            size: 0,
            attributes: None,
            object: None,
            state: EntryState::Whole,
            is_complete: true,
            missing: 0,
            expected: None,
            hard_link: None,
        }
    }
}

/// The type of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symlink.
    Symlink,
    /// A pipe, a device or a socket.
    Special(SpecialFile),
    /// A type that is not known, in the repository's own word.
    Unknown(String),
}

/// A file that has no bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialFile {
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A device of characters, with its number.
    CharacterDevice(u64),
    /// A device of blocks, with its number.
    BlockDevice(u64),
}

/// Mode, owner and time, and extended attributes, as the snapshot has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    /// The permissions with setuid, setgid and sticky, as POSIX has them.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The modification time.
    pub modified: UnixNanos,
    /// Extended attributes; `None` where there are none, as in all repositories of kopia.
    pub extended: Option<Arc<[ExtendedAttribute]>>,
}

/// An extended attribute: an access control list, a capability, or one that a user has set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtendedAttribute {
    /// Its name, such as `user.origin`.
    pub name: String,
    /// Its value.
    pub value: Vec<u8>,
}

/// The place in a repository of a directory's entries or of a file's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// An object of kopia's.
    Kopia(ObjectId),
    /// A directory of restic's.
    Tree(Id),
    /// The pieces of a file of restic's.
    Pieces(Arc<[Id]>),
    /// The target of a symlink, which is in the directory itself.
    Target(Vec<u8>),
}

impl Object {
    /// Returns true if it has so many parts that reading it may take long.
    pub(crate) fn is_long(&self) -> bool {
        match self {
            Self::Kopia(object) => object.levels > 0,
            Self::Pieces(pieces) => pieces.len() > 1,
            Self::Tree(_) | Self::Target(_) => false,
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kopia(object) => fmt::Display::fmt(object, f),
            Self::Tree(tree) => fmt::Display::fmt(tree, f),
            Self::Pieces(pieces) => write!(f, "{} pieces", pieces.len()),
            Self::Target(target) => f.write_str(&String::from_utf8_lossy(target)),
        }
    }
}

/// A part of a file that is stored as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The offset in the file.
    pub(crate) start: u64,
    /// The length.
    pub(crate) length: u64,
    /// The place in the repository.
    pub(crate) stored: Stored,
}

/// The place of an extent in its repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    /// A content of kopia's.
    Kopia {
        /// The content.
        content: ContentId,
        /// True where its bytes are to be decompressed once more, so that their hash is another.
        is_compressed: bool,
    },
    /// A blob of restic's.
    Restic(Id),
}
