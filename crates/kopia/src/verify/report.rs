//! Options and report of a verification.

use crate::KopiaError;
use crate::content::read_plan::{ReadLimits, Sink};
use crate::progress::{WalkProgress, add};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A path in a snapshot.
#[derive(Debug)]
pub(super) struct FilePath {
    pub(super) snapshot: Arc<str>,
    pub(super) path: String,
}

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
    /// The problems that were told.
    pub problems: u64,
    /// The entries of indexes that cannot be read.
    pub damaged_index_entries: u64,
    /// The packs that no index names: of writers that have not finished, of contents that were deleted, or of an index that
    /// is lost.
    pub packs_without_index: u64,
}

/// The counters, and the listener to problems.
pub(super) struct Progress {
    pub(super) on_problem: Box<dyn Fn(Problem) + Send + Sync>,
    pub(super) counts: Arc<WalkProgress>,
    pub(super) packs_without_index: AtomicU64,
}

impl Progress {
    pub(super) fn tell(&self, snapshot: &str, path: &str, error: KopiaError) {
        add(&self.counts.problems, 1);
        (self.on_problem)(Problem { snapshot: snapshot.to_owned(), path: path.to_owned(), error });
    }
}

/// A sink that only counts: what comes to it was decrypted and compared already.
impl Sink<Arc<FilePath>> for Progress {
    fn take(&self, bytes: &Bytes, _tags: Vec<Arc<FilePath>>) -> Result<(), KopiaError> {
        add(&self.counts.contents, 1);
        add(&self.counts.bytes, bytes.len() as u64);
        Ok(())
    }

    fn fail(&self, error: KopiaError, tags: Vec<Arc<FilePath>>) -> Result<(), KopiaError> {
        for file in tags {
            self.tell(&file.snapshot, &file.path, error.repeat());
        }
        Ok(())
    }
}
