//! Proof that snapshots can be restored: that everything which they reach is there, and that what is read is what was
//! written.

mod notes;
mod packs;
mod report;
mod sink;
mod walk;

use crate::KopiaError;
use crate::Repository;
use crate::content::index_set::IndexSet;
use crate::content::read_plan::{Wanted, read};
use crate::progress::add;
use crate::snapshot::Snapshot;
use crate::tasks::blocking;
use futures::stream::unfold;
use sink::{Progress, WantedBy};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;
use walk::Walk;

pub use notes::VerifyNotes;
pub use report::{Problem, VerifyOptions, VerifyReport};
pub use sink::VerifyRun;

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
        self.verify_resumably(options, VerifyRun::default(), on_problem).await
    }

    /// Verifies snapshots as [`Repository::verify`] does, with counters that others may look at meanwhile, and with
    /// notes by which it goes on where it was cut off: directories, indexes and the lengths of packs are looked at
    /// again, and of the contents of files those without a note are read.
    ///
    /// # Errors
    /// As [`Repository::verify`].
    pub async fn verify_resumably(
        &self,
        options: VerifyOptions,
        run: VerifyRun,
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
        add(&run.progress.expected_snapshots, snapshots.len() as u64);
        if options.files_percent > 0.0 {
            let set = self.contents().index_set();
            let stored = blocking(move || data_bytes(&set)).await?;
            let share = (options.files_percent / 100.0).clamp(0.0, 1.0);
            add(&run.progress.expected_bytes, (stored.min(logical_bytes(&snapshots)) as f64 * share) as u64);
        }
        let progress = Arc::new(Progress::new(run, self.crypto().clone(), Box::new(on_problem)));
        let (to_reader, wanted) = mpsc::channel::<Wanted<WantedBy>>(WAITING);
        let wanted = unfold(wanted, |mut wanted| async move { Some((Ok(wanted.recv().await?), wanted)) });
        let reading = read(self.contents(), wanted, options.limits, progress.clone());
        let walking = async {
            let walk = Walk::new(self, &options, progress.clone(), to_reader).await?;
            walk.run(snapshots).await
        };
        futures::future::try_join(walking, reading).await?;
        if let Some(notes) = &progress.notes {
            notes.remove();
        }
        let set = self.contents().index_set();
        let (totals, count) = (progress.counts.totals(), |counter: &AtomicU64| counter.load(Ordering::Relaxed));
        Ok(VerifyReport {
            snapshots: totals.snapshots,
            directories: totals.directories,
            files: totals.files,
            contents: totals.contents,
            bytes: totals.bytes,
            contents_before: count(&progress.contents_before),
            bytes_before: count(&progress.bytes_before),
            problems: totals.problems,
            damaged_index_entries: set.damaged_entries(),
            damaged_packs: set.damaged_packs(),
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

/// The plain bytes of all contents of files that the indexes have, those that nothing refers to among them.
fn data_bytes(set: &Arc<IndexSet>) -> Result<u64, KopiaError> {
    let mut bytes = 0_u64;
    let mut scan = set.scan(Some(0));
    while let Some(found) = scan.next_location()? {
        bytes = bytes.saturating_add(u64::from(found.record.original_length));
    }
    Ok(bytes)
}

/// The bytes of all files of snapshots, equal ones as often as they are in them.
fn logical_bytes(snapshots: &[Snapshot]) -> u64 {
    let roots = snapshots.iter().filter_map(|one| one.document.as_ref().ok()?.root.as_ref());
    let sizes = roots.map(|root| root.summary.as_ref().map_or(root.size, |summary| summary.size));
    sizes.fold(0, u64::saturating_add)
}
