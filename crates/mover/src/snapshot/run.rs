//! The state of one snapshot that all its parts share.

use super::attributes::LostCounts;
use super::entry::{Entry, Kind};
use super::options::{Named, SnapshotOptions, SnapshotReport};
use super::parents::TICK;
use super::policies::Policies;
use super::whole::WholeObjects;
use crate::MoverError;
use crate::Progress;
use crate::failure::Failed;
use crate::handles::OpenFiles;
use crate::progress::add;
use lifeboat_kopia::content::writer::Written;
use lifeboat_kopia::format::snapshot::{SnapshotDocument, Stats};
use lifeboat_kopia::{KopiaError, RepositoryWriter};
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;

/// Directories that are open at once, beside those that threads hold just then.
const OPEN_FILES: usize = 128;
/// Directories that are walked beside the one path on which the walk is. Each may have a listing in memory.
const DIRECTORIES: usize = 16;
/// The most files that are read at once, whatever a policy says: each waits on threads of its own.
const MAX_FILES: usize = 32;

/// The snapshot that everybody works on.
pub(super) struct Run {
    pub(super) writer: RepositoryWriter,
    pub(super) options: SnapshotOptions,
    pub(super) progress: Arc<Progress>,
    pub(super) policies: Policies,
    pub(super) limits: RunLimits,
    pub(super) whole: WholeObjects,
    pub(super) counts: Counts,
    pub(super) lost_attributes: LostCounts,
    notes: Mutex<Notes>,
}

/// The most that a snapshot has open and reads at once.
pub(super) struct RunLimits {
    pub(super) open: OpenFiles,
    /// Files, or batches of small ones, that are read at once.
    pub(super) reads: Semaphore,
    pub(super) files_at_once: usize,
    pub(super) directories: Arc<Semaphore>,
}

/// The counters of the format (kopia: snapshot/stats.go).
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) total_size: AtomicU64,
    pub(super) excluded_size: AtomicU64,
    /// Files that were read; parts of long ones count each.
    pub(super) files: AtomicU64,
    pub(super) cached_files: AtomicU64,
    pub(super) non_cached_files: AtomicU64,
    pub(super) directories: AtomicU64,
    pub(super) excluded_files: AtomicU64,
    pub(super) excluded_directories: AtomicU64,
    pub(super) ignored_errors: AtomicU64,
    pub(super) errors: AtomicU64,
    /// Files whose time has not come yet. The format does not count them.
    pub(super) future_files: AtomicU64,
}

/// The lists of the report.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) failed: Named,
    pub(super) passed_over: Named,
    pub(super) changed: Named,
    pub(super) vanished: Named,
    pub(super) special: Named,
    pub(super) caches: Named,
    pub(super) refused: Named,
    pub(super) warnings: Vec<String>,
    /// The warnings for which there is no room.
    pub(super) unnamed_warnings: u64,
    pub(super) written: Written,
    pub(super) checkpoints: u64,
    pub(super) parents: usize,
}

impl Run {
    pub(super) fn new(
        writer: RepositoryWriter,
        options: SnapshotOptions,
        progress: Arc<Progress>,
        policies: Policies,
    ) -> Self {
        let of_policy = policies.root.policy.upload.max_parallel_file_reads.and_then(|most| usize::try_from(most).ok());
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let files_at_once =
            options.files_at_once.or(of_policy).filter(|most| *most > 0).unwrap_or(2 * processors).min(MAX_FILES);
        Self {
            writer,
            options,
            progress,
            policies,
            limits: RunLimits {
                open: OpenFiles::new(OPEN_FILES),
                reads: Semaphore::new(files_at_once),
                files_at_once,
                directories: Arc::new(Semaphore::new(DIRECTORIES)),
            },
            whole: WholeObjects::default(),
            counts: Counts::default(),
            lost_attributes: LostCounts::default(),
            notes: Mutex::default(),
        }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is told at the end; the number is that of names that a list keeps.
    pub(super) fn note(&self, change: impl FnOnce(&mut Notes, usize)) {
        change(&mut self.notes(), self.options.errors_kept);
    }

    /// Adds a sentence to those of the end; the last one counts those for which there is no room.
    pub(super) fn warn(&self, text: String) {
        self.note(|notes, most| {
            if notes.warnings.len() < most {
                notes.warnings.push(text);
                return;
            }
            notes.unnamed_warnings += 1;
            notes.warnings.truncate(most);
            notes.warnings.push(format!("and {} more warnings, which are not named", notes.unnamed_warnings));
        });
    }

    /// Records an entry that is not in the snapshot.
    pub(super) fn fail(&self, path: &str, failed: &Failed, is_passed_over: bool) {
        let counter = if is_passed_over { &self.counts.ignored_errors } else { &self.counts.errors };
        add(counter, 1);
        self.note(|notes, most| {
            let list = if is_passed_over { &mut notes.passed_over } else { &mut notes.failed };
            list.add(path.to_owned(), failed.to_string(), most);
        });
    }

    /// Counts the files of a listing whose time has not come yet: no later snapshot takes them over before it has.
    pub(super) fn count_future(&self, entries: &[Entry]) {
        let now = (self.options.clock)();
        let is_future = |entry: &&Entry| entry.kind == Kind::File && entry.modified.0 > now.0.saturating_add(TICK);
        add(&self.counts.future_files, entries.iter().filter(is_future).count() as u64);
    }

    /// Warns of files that each snapshot reads for their time.
    pub(super) fn warn_of_future(&self) {
        let files = self.counts.future_files.load(Ordering::Relaxed);
        if files > 0 {
            self.warn(format!(
                "{files} files have a time in the future: each snapshot reads them until then, as they may be changed within it"
            ));
        }
    }

    /// Writes what is pending, and adds it to what the snapshot has written.
    pub(super) async fn flush(&self) -> Result<(), KopiaError> {
        let written = self.writer.flush().await?;
        self.note(|notes, _| notes.written += written);
        Ok(())
    }

    /// The counters as the format has them; more than it can hold is what it can hold.
    pub(super) fn stats(&self) -> Stats {
        let wide = |counter: &AtomicU64| i64::try_from(counter.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        let narrow = |counter: &AtomicU64| i32::try_from(counter.load(Ordering::Relaxed)).unwrap_or(i32::MAX);
        let counts = &self.counts;
        Stats {
            total_size: wide(&counts.total_size),
            excluded_total_size: wide(&counts.excluded_size),
            file_count: narrow(&counts.files),
            cached_files: narrow(&counts.cached_files),
            non_cached_files: narrow(&counts.non_cached_files),
            dir_count: narrow(&counts.directories),
            excluded_file_count: narrow(&counts.excluded_files),
            excluded_dir_count: narrow(&counts.excluded_directories),
            ignored_error_count: narrow(&counts.ignored_errors),
            error_count: narrow(&counts.errors),
        }
    }

    /// The report at the end.
    pub(super) fn report(&self, id: String, document: SnapshotDocument) -> SnapshotReport {
        let notes = std::mem::take(&mut *self.notes());
        SnapshotReport {
            id,
            document,
            written: notes.written,
            totals: self.progress.totals(),
            failed: notes.failed,
            passed_over: notes.passed_over,
            changed: notes.changed,
            vanished: notes.vanished,
            lost_attributes: self.lost_attributes.totals(),
            special: notes.special,
            caches: notes.caches,
            refused: notes.refused,
            warnings: notes.warnings,
            parents: notes.parents,
            checkpoints: notes.checkpoints,
        }
    }
}

/// Runs work that waits for the file system on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, MoverError> {
    joined(tokio::task::spawn_blocking(work).await)
}

/// The result of a task. A panic in it goes on in the caller.
pub(super) fn joined<T>(result: Result<T, tokio::task::JoinError>) -> Result<T, MoverError> {
    // It is missing only when the runtime ends.
    lifeboat_bucket::joined(result).ok_or(MoverError::Repository(KopiaError::Cancelled))
}
