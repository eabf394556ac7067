//! Directories (kopia: snapshot/snapshotfs, snapshot/manifest.go, fs/entry.go).

use super::FormatError;
use super::object_id::ObjectId;
use super::time::UnixNanos;
use std::io::Read;

/// The type of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryType {
    /// `f`
    File,
    /// `d`
    Directory,
    /// `s`
    Symlink,
    /// Any other word; readers tell it as an error of that entry.
    Unknown(String),
}

/// A directory entry, or the root of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The base name as the repository has it. Bytes that were no UTF-8 are U+FFFD there already.
    pub name: String,
    /// The type.
    pub entry_type: EntryType,
    /// Permission bits and setuid, setgid, sticky at their POSIX positions (0o7777).
    pub mode: u32,
    /// The length of a file, of a link's target; 0 for directories. See `.checkpointed.` for when it is not the object's.
    pub size: u64,
    /// The time of the last change.
    pub modified: UnixNanos,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The bytes; `None` where the entry has none, which is an error of that entry.
    pub object: Option<ObjectId>,
    /// The totals below a directory.
    pub summary: Option<Summary>,
}

/// The totals below a directory, itself included.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// The bytes of all files.
    pub size: u64,
    /// The number of files.
    pub files: u64,
    /// The number of symlinks.
    pub symlinks: u64,
    /// The number of directories, this one included.
    pub directories: u64,
    /// The latest change below it.
    pub max_time: UnixNanos,
    /// The reason for which the directory is not complete.
    pub incomplete: Option<String>,
    /// The number of entries that could not be read.
    pub failed: u64,
    /// The number of entries that could not be read and were passed over by policy.
    pub ignored: u64,
    /// Paths below the root, with the error of each.
    pub errors: Vec<EntryError>,
}

/// An entry that could not be read when the snapshot was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryError {
    /// The path below the root.
    pub path: String,
    /// The error.
    pub error: String,
}

/// A directory with its totals.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Directory {
    /// The entries in the order of the document.
    pub entries: Vec<DirectoryEntry>,
    /// The totals.
    pub summary: Option<Summary>,
}

/// Reads a directory entry by entry, so that one of a million files needs no list of them. `each` may stop the reading by
/// an error. Gives the totals.
///
/// # Errors
/// No directory; those of `each`.
pub fn read<E: From<FormatError>>(
    source: impl Read,
    each: impl FnMut(DirectoryEntry) -> Result<(), E>,
) -> Result<Option<Summary>, E> {
    todo!()
}

/// Writes a directory as kopia writes it: equal directories give equal bytes.
pub fn write(directory: &Directory) -> Vec<u8> {
    todo!()
}
