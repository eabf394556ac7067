//! Options and the report of a restore.

use std::path::PathBuf;

/// The treatment of files that are there already.
///
/// Files, symlinks, pipes, sockets and empty directories in the place of another type are replaced; a directory that is not
/// empty only with [`RestoreOptions::delete_extra`]. A file with more than one hard link is replaced and never written
/// through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// A file of equal size and modification time is left alone; of any other only the pieces that differ are written: its
    /// bytes are hashed piece by piece and compared with the IDs of the contents, so that only what differs is fetched.
    /// Where the machine has crashed a file may have its time without its bytes: then take [`Existing::Verify`].
    #[default]
    Update,
    /// As [`Existing::Update`], but times are not believed: every file is hashed.
    Verify,
    /// Every file is written anew.
    Overwrite,
    /// Anything but a directory that is there is an error of that entry, and stays as it is.
    Keep,
}

/// Options of a restore.
#[derive(Debug, Clone)]
pub struct RestoreOptions {
    /// The folder into which the tree goes, or the file or device. A folder is made when it is missing (its parent is not).
    pub target: PathBuf,
    /// The treatment of files that are there.
    pub existing: Existing,
    /// Deletes entries of the target that the snapshot does not have. Never outside of the target, never through a link.
    pub delete_extra: bool,
    /// Leaves blocks of zeros out of files (holes) and zeroes ranges of devices instead of writing them.
    pub sparse: bool,
    /// Sets owner and group; without the right to do so it is told once, not an error of each entry.
    pub owners: bool,
    /// Sets permissions, setuid, setgid and sticky bits. Setuid and setgid are left out where the owner or group that they
    /// stand for is not set.
    pub permissions: bool,
    /// Sets modification times.
    pub times: bool,
    /// Ends the restore at the first entry that fails; otherwise the rest goes on and the report names it.
    pub stop_at_first_error: bool,
    /// The most errors whose text is kept; all are counted.
    pub errors_kept: usize,
    /// The length of a file or device that is restored alone, where the snapshot has it filled up to whole blocks. `None`
    /// takes what the snapshot says; a tree has none.
    pub length: Option<u64>,
    /// Waits at the end until the file system of the target has everything on disk.
    pub sync: bool,
}

impl RestoreOptions {
    /// Options with the defaults: update what is there, holes for zeros, all attributes, nothing deleted.
    pub fn new(target: impl Into<PathBuf>) -> Self {
        Self {
            target: target.into(),
            existing: Existing::default(),
            delete_extra: false,
            sparse: true,
            owners: true,
            permissions: true,
            times: true,
            stop_at_first_error: false,
            errors_kept: 1000,
            length: None,
            sync: true,
        }
    }
}

/// An entry that is not as the snapshot has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryFailure {
    /// The path below the root of the snapshot; empty for the root itself.
    pub path: String,
    /// The attempted action and the reason.
    pub why: String,
}

/// The account of a restore: what was done, and what is not as it was when the snapshot was taken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestoreReport {
    /// The counters.
    pub totals: crate::Totals,
    /// Entries of the target that were deleted; a directory with all that was in it is one.
    pub deleted: u64,
    /// Entries that failed: all are counted, the first are kept.
    pub failed: u64,
    /// The first of them.
    pub failures: Vec<EntryFailure>,
    /// Entries that were not readable when the snapshot was taken, by its own summary.
    pub missing_in_snapshot: u64,
    /// True where owners could not be set for want of the right to do so.
    pub owners_not_set: bool,
    /// Entries of other owners whose permissions or times could not be set for want of the right to do so.
    pub attributes_not_set: u64,
    /// Extended attributes that this user or the file system of the target cannot have.
    pub extended_attributes_not_set: u64,
    /// Files that were being uploaded when the snapshot was cut off (`.checkpointed.`), left out.
    pub unfinished: u64,
    /// Names with bytes that are no UTF-8, which the repository has not: U+FFFD stands for each of them.
    pub names_changed: u64,
    /// Sockets, which are left out: the program that listens makes them.
    pub sockets: u64,
    /// Directories in which nothing was deleted, because the snapshot does not have all that was in them.
    pub not_cleared: u64,
}
