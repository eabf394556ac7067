//! Counters of a verification, and the sink of what it reads.

use super::notes::VerifyNotes;
use super::report::Problem;
use crate::KopiaError;
use crate::content::read_plan::Sink;
use crate::progress::{WalkProgress, add, subtract};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// State of a verification that others look at, or that outlives it.
#[derive(Debug, Clone, Default)]
pub struct VerifyState {
    /// The counters.
    pub progress: Arc<WalkProgress>,
    /// The notes by which it goes on where it was cut off. They go when it has ended.
    pub notes: Option<Arc<VerifyNotes>>,
}

/// A path in a snapshot.
#[derive(Debug)]
pub(super) struct FilePath {
    pub(super) snapshot: Arc<str>,
    pub(super) path: String,
}

/// The file that wants a content, and the note that is made when it was read.
#[derive(Debug)]
pub(super) struct WantedBy {
    pub(super) file: Arc<FilePath>,
    pub(super) note: u64,
}

/// The counters, and the listener to problems.
pub(super) struct Progress {
    pub(super) on_problem: Box<dyn Fn(Problem) + Send + Sync>,
    pub(super) counts: Arc<WalkProgress>,
    pub(super) packs_without_index: AtomicU64,
    pub(super) contents_before: AtomicU64,
    pub(super) bytes_before: AtomicU64,
    pub(super) notes: Option<Arc<VerifyNotes>>,
}

impl Progress {
    pub(super) fn new(state: VerifyState, on_problem: Box<dyn Fn(Problem) + Send + Sync>) -> Self {
        let VerifyState { progress: counts, notes } = state;
        let [packs_without_index, contents_before, bytes_before] = Default::default();
        Self { on_problem, counts, packs_without_index, contents_before, bytes_before, notes }
    }

    /// True for a content that was read before the verification was cut off, which is counted as such.
    pub(super) fn was_read(&self, note: u64, length: u32) -> bool {
        let was_read = self.notes.as_ref().is_some_and(|notes| notes.has(note));
        if was_read {
            add(&self.contents_before, 1);
            add(&self.bytes_before, u64::from(length));
            subtract(&self.counts.expected_bytes, u64::from(length));
        }
        was_read
    }

    pub(super) fn tell(&self, snapshot: &str, path: &str, error: KopiaError) {
        add(&self.counts.problems, 1);
        (self.on_problem)(Problem { snapshot: snapshot.to_owned(), path: path.to_owned(), error });
    }
}

/// A sink that counts and notes: what comes to it was decrypted and compared already.
impl Sink<WantedBy> for Progress {
    fn take(&self, bytes: &Bytes, tags: Vec<WantedBy>) -> Result<(), KopiaError> {
        add(&self.counts.contents, 1);
        add(&self.counts.bytes, bytes.len() as u64);
        if let Some(notes) = &self.notes {
            tags.iter().for_each(|tag| notes.add(tag.note));
        }
        Ok(())
    }

    fn fail(&self, error: KopiaError, tags: Vec<WantedBy>) -> Result<(), KopiaError> {
        for WantedBy { file, .. } in tags {
            self.tell(&file.snapshot, &file.path, error.repeat());
        }
        Ok(())
    }
}
