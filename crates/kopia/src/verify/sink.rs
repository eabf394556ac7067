//! Counters of a verification, and the sink of what it reads.

use super::notes::{VerifyNotes, note};
use super::packs::ListedPacks;
use super::report::Problem;
use crate::KopiaError;
use crate::content::read_plan::Sink;
use crate::crypto::Crypto;
use crate::format::index::Entry;
use crate::object::Extent;
use crate::progress::{WalkProgress, add, subtract};
use bytes::Bytes;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// The counters and notes of a verification, which its caller keeps.
#[derive(Debug, Clone, Default)]
pub struct VerifyRun {
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

/// The file that wants a content.
#[derive(Debug)]
pub(super) struct WantedBy {
    pub(super) file: Arc<FilePath>,
    pub(super) extent: Extent,
    /// The note of the place where it is read; `None` before that is known, and where there is none.
    pub(super) note: Option<u64>,
}

/// The counters, and the listener to problems.
pub(super) struct Progress {
    pub(super) on_problem: Box<dyn Fn(Problem) + Send + Sync>,
    pub(super) counts: Arc<WalkProgress>,
    pub(super) packs_without_index: AtomicU64,
    pub(super) contents_before: AtomicU64,
    pub(super) bytes_before: AtomicU64,
    pub(super) notes: Option<Arc<VerifyNotes>>,
    /// The packs, as soon as they are listed.
    pub(super) packs: OnceLock<Arc<ListedPacks>>,
    crypto: Arc<Crypto>,
}

impl Progress {
    pub(super) fn new(run: VerifyRun, crypto: Arc<Crypto>, on_problem: Box<dyn Fn(Problem) + Send + Sync>) -> Self {
        let VerifyRun { progress: counts, notes } = run;
        let [packs_without_index, contents_before, bytes_before] = Default::default();
        let packs = OnceLock::new();
        Self { on_problem, counts, packs_without_index, contents_before, bytes_before, notes, packs, crypto }
    }

    /// The note of a content at its place; `None` without notes, and of a pack without a time.
    pub(super) fn note_of(&self, entry: &dyn Fn() -> Entry, extent: &Extent) -> Option<u64> {
        self.notes.as_ref()?;
        let entry = entry();
        let pack = self.packs.get()?.named(&entry.pack);
        note(&self.crypto, &entry, pack, extent)
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
    fn note_place(&self, entry: &dyn Fn() -> Entry, tag: &mut WantedBy) {
        tag.note = self.note_of(entry, &tag.extent);
    }

    fn take(&self, bytes: &Bytes, tags: Vec<WantedBy>) -> Result<(), KopiaError> {
        add(&self.counts.contents, 1);
        add(&self.counts.bytes, bytes.len() as u64);
        if let Some(notes) = &self.notes {
            tags.iter().filter_map(|tag| tag.note).for_each(|note| notes.add(note));
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
