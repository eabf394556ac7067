//! Options and report of a verification.

use crate::KopiaError;
use crate::content::read_plan::ReadLimits;
use std::collections::BTreeSet;

/// The parts of a verification.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// The IDs of the snapshots, `None` for all.
    pub snapshots: Option<BTreeSet<String>>,
    /// The share of files whose contents are read, in percent: 0 looks at the structure alone. A file is always or never
    /// among them, by its object and the seed.
    pub files_percent: f64,
    /// The seed of the choice.
    pub seed: u64,
    /// The directories that are read at once.
    pub directories: usize,
    /// The limits of reading.
    pub limits: ReadLimits,
}

/// Something that is wrong.
#[derive(Debug)]
pub struct Problem {
    /// The ID of the first snapshot that needs it.
    pub snapshot: String,
    /// The path in it; empty for its root or manifest.
    pub path: String,
    /// The error.
    pub error: KopiaError,
}

/// The result of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VerifyReport {
    /// The snapshots that were looked at.
    pub snapshots: u64,
    /// The directories, each once however many snapshots have it.
    pub directories: u64,
    /// The files, links among them, each object once.
    pub files: u64,
    /// The contents of files that were read and compared, each once.
    pub contents: u64,
    /// Their plain bytes.
    pub bytes: u64,
    /// The contents that the verification had read before it was cut off, and that were not read again.
    pub contents_before: u64,
    /// Their plain bytes.
    pub bytes_before: u64,
    /// The problems that were told.
    pub problems: u64,
    /// The entries of indexes that cannot be read.
    pub damaged_index_entries: u64,
    /// The packs without an index that can be read, where the indexes come from the packs.
    pub damaged_packs: u64,
    /// The packs that no index names: of writers that have not finished, of contents that were deleted, or of an index that
    /// is lost.
    pub packs_without_index: u64,
}
