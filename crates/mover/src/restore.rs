//! Restore of a tree, a file or a device from a snapshot.
//!
//! The tree is walked in batches of bounded size. For each batch directories are made, files are opened beneath the target
//! without following links, their contents become one plan by packs, and each piece is written at its place. A file gets
//! owner, mode and times after its last piece; directories get theirs at the end, deepest first, so that nothing that is
//! made in them changes their times.

use crate::{MoverError, Progress};
use lifeboat_kopia::Repository;
use lifeboat_kopia::format::directory::DirectoryEntry;
use std::path::PathBuf;
use std::sync::Arc;

/// The treatment of files that are there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// A file of equal size and modification time is left alone; of any other only the pieces that differ are written: its
    /// bytes are hashed piece by piece and compared with the IDs of the contents, so that only what differs is fetched.
    #[default]
    Update,
    /// As [`Existing::Update`], but times are not believed: every file is hashed.
    Verify,
    /// Every file is written anew.
    Overwrite,
    /// A file that is there is an error of that entry, and stays as it is.
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
    /// Sets owner and group; without the right to do so each entry is told once, not an error for each.
    pub owners: bool,
    /// Sets permissions, setuid, setgid and sticky bits.
    pub permissions: bool,
    /// Sets modification times.
    pub times: bool,
    /// Ends the restore at the first entry that fails; otherwise the rest goes on and the report names it.
    pub stop_at_first_error: bool,
    /// The most errors whose text is kept; all are counted.
    pub errors_kept: usize,
}

/// An entry that is not as the snapshot has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryFailure {
    /// The path below the root of the snapshot.
    pub path: String,
    /// The attempted action and the reason.
    pub why: String,
}

/// Things that the format does not hold, or that the target did not take, counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestoreReport {
    /// The counters.
    pub totals: crate::Totals,
    /// Entries of the target that were deleted.
    pub deleted: u64,
    /// Entries that failed: all are counted, the first are kept.
    pub failed: u64,
    /// The first of them.
    pub failures: Vec<EntryFailure>,
    /// Entries that were not readable when the snapshot was taken, by its own summary.
    pub missing_in_snapshot: u64,
    /// True where owners could not be set for want of the right to do so.
    pub owners_not_set: bool,
    /// Files that were being uploaded when the snapshot was cut off (`.checkpointed.`), left out.
    pub unfinished: u64,
}

/// Restores the entry `root` of a snapshot (a directory, a file or a symlink) to the target. A restore that is begun again
/// with the same options goes on: finished files have their size and time and are left alone.
///
/// # Errors
/// The target as a whole, the repository as a whole; entries are in the report. Dropping the future ends the restore; files
/// that are not finished have a modification time of 1970 then, so that no later run takes them for finished.
pub async fn restore(
    repository: &Arc<Repository>,
    root: &DirectoryEntry,
    options: &RestoreOptions,
    progress: &Arc<Progress>,
) -> Result<RestoreReport, MoverError> {
    todo!()
}
