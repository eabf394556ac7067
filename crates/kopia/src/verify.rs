//! Proof that snapshots can be restored: that everything which they reach is there, and that what is read is what was
//! written.

mod report;
mod walk;

use crate::KopiaError;
use crate::Repository;
use crate::content::read_plan::{Wanted, read};
use futures::stream::unfold;
use report::{FilePath, Progress};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;
use walk::Walk;

pub use report::{Problem, VerifyOptions, VerifyReport};

/// Contents that wait to be read.
const WAITING: usize = 4096;

impl Repository {
    /// Verifies snapshots: every directory and listing that they reach is read and compared, every content of a file is in an
    /// index and its pack there and long enough, and of a share of the files the contents are read and compared. Problems
    /// are told as they are found, from several threads; the rest goes on.
    ///
    /// # Errors
    /// Errors of the bucket, manifests that cannot be loaded, a snapshot that is not there.
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
            packs_without_index: AtomicU64::new(0),
        });
        let (to_reader, wanted) = mpsc::channel::<Wanted<Arc<FilePath>>>(WAITING);
        let wanted = unfold(wanted, |mut wanted| async move { Some((Ok(wanted.recv().await?), wanted)) });
        let reading = read(self.contents(), wanted, options.limits, progress.clone());
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
            damaged_index_entries: self.contents().index_set().damaged_entries(),
            packs_without_index: count(&progress.packs_without_index),
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
        let limits = self.contents().limits();
        let options =
            VerifyOptions { snapshots: None, files_percent: 0.0, seed: 0, directories: limits.requests, limits };
        self.verify(options, on_problem).await
    }
}
