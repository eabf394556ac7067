//! Proof that snapshots can be restored: that everything which they reach is there, and that what is read is what was
//! written.

mod marks;
mod walk;

use super::Repository;
use crate::KopiaError;
use crate::content::read_plan::{ReadLimits, Sink, Wanted, read};
use bytes::Bytes;
use futures::stream::unfold;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;
use walk::{FilePath, Walk};

/// Contents that wait to be read.
const WAITING: usize = 4096;

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
}

/// The counters, and the listener to problems.
pub(super) struct Progress {
    on_problem: Box<dyn Fn(Problem) + Send + Sync>,
    pub(super) snapshots: AtomicU64,
    pub(super) directories: AtomicU64,
    pub(super) files: AtomicU64,
    contents: AtomicU64,
    bytes: AtomicU64,
    problems: AtomicU64,
}

impl Progress {
    pub(super) fn tell(&self, snapshot: &str, path: &str, error: KopiaError) {
        self.problems.fetch_add(1, Ordering::Relaxed);
        (self.on_problem)(Problem { snapshot: snapshot.to_owned(), path: path.to_owned(), error });
    }
}

/// A sink that only counts: what comes to it was decrypted and compared already.
impl Sink<Arc<FilePath>> for Progress {
    fn take(&self, bytes: &Bytes, _tags: Vec<Arc<FilePath>>) -> Result<(), KopiaError> {
        self.contents.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn fail(&self, error: KopiaError, tags: Vec<Arc<FilePath>>) -> Result<(), KopiaError> {
        for file in tags {
            self.tell(&file.snapshot, &file.path, error.repeat());
        }
        Ok(())
    }
}

impl Repository {
    /// Verifies snapshots: every directory and listing that they reach is read and compared, every content of a file is in an
    /// index and its pack there and long enough, and of a share of the files the contents are read and compared. Problems
    /// are told as they are found, from several threads; the rest goes on.
    ///
    /// # Errors
    /// Those of the bucket, manifests that cannot be loaded, a snapshot that is not there.
    pub async fn verify(
        &self,
        options: VerifyOptions,
        on_problem: impl Fn(Problem) + Send + Sync + 'static,
    ) -> Result<VerifyReport, KopiaError> {
        let mut snapshots = self.snapshots().await?;
        if let Some(chosen) = &options.snapshots {
            let missing = chosen.iter().find(|id| !snapshots.iter().any(|snapshot| snapshot.id == **id));
            if let Some(id) = missing {
                return Err(KopiaError::Missing { what: format!("snapshot {id}") });
            }
            snapshots.retain(|snapshot| chosen.contains(&snapshot.id));
        }
        let progress = Arc::new(Progress {
            on_problem: Box::new(on_problem),
            snapshots: AtomicU64::new(0),
            directories: AtomicU64::new(0),
            files: AtomicU64::new(0),
            contents: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            problems: AtomicU64::new(0),
        });
        let (to_reader, wanted) = mpsc::channel::<Wanted<Arc<FilePath>>>(WAITING);
        let wanted = unfold(wanted, |mut wanted| async move { Some((Ok(wanted.recv().await?), wanted)) });
        let reading = read(&self.contents, wanted, options.limits, progress.clone());
        let walking = async {
            let walk = Walk::new(self, &options, progress.clone(), to_reader).await?;
            walk.run(snapshots).await
        };
        futures::future::try_join(walking, reading).await?;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Ok(VerifyReport {
            snapshots: count(&progress.snapshots),
            directories: count(&progress.directories),
            files: count(&progress.files),
            contents: count(&progress.contents),
            bytes: count(&progress.bytes),
            problems: count(&progress.problems),
            damaged_index_entries: self.contents.index_set().damaged_entries(),
        })
    }

    /// Verifies the structure of all snapshots: [`Repository::verify`] without reading contents of files.
    ///
    /// # Errors
    /// As [`Repository::verify`].
    pub async fn verify_structure(
        &self,
        on_problem: impl Fn(Problem) + Send + Sync + 'static,
    ) -> Result<VerifyReport, KopiaError> {
        let limits = self.contents.limits();
        let options =
            VerifyOptions { snapshots: None, files_percent: 0.0, seed: 0, directories: limits.requests, limits };
        self.verify(options, on_problem).await
    }
}
