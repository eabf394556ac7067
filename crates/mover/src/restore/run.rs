//! The state of one restore that all its parts share: its end, its failures, its counters.

use super::options::{EntryFailure, RestoreOptions, RestoreReport};
use crate::failure::{Failed, is_no_space, is_target_wide};
use crate::handles::OpenFiles;
use crate::{MoverError, Progress, RepositoryError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

/// The files and directories that are open at once, beside those that threads hold just then.
const OPEN_FILES: usize = 128;

/// Nothing more is to be done; the reason is in the [`Run`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended;

/// The restore that everybody works on.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) options: RestoreOptions,
    pub(super) progress: Arc<Progress>,
    pub(super) open: OpenFiles,
    is_over: AtomicBool,
    /// Held for reading by each step that changes the target.
    working: RwLock<()>,
    outcome: Mutex<Outcome>,
}

#[derive(Debug, Default)]
struct Outcome {
    report: RestoreReport,
    error: Option<MoverError>,
}

impl Run {
    pub(super) fn new(options: RestoreOptions, progress: Arc<Progress>) -> Self {
        let open = OpenFiles::new(OPEN_FILES);
        Self {
            options,
            progress,
            open,
            is_over: AtomicBool::new(false),
            working: RwLock::default(),
            outcome: Mutex::default(),
        }
    }

    /// Begins a step that changes the target. As long as the guard lives the restore does not end.
    pub(super) fn enter(&self) -> Result<RwLockReadGuard<'_, ()>, Ended> {
        let guard = self.working.read().unwrap_or_else(PoisonError::into_inner);
        if self.is_over() { Err(Ended) } else { Ok(guard) }
    }

    /// True where nothing more is to be done.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the report.
    pub(super) fn note(&self, change: impl FnOnce(&mut RestoreReport)) {
        change(&mut self.outcome().report);
    }

    /// Ends the restore with an error; the first one counts.
    pub(super) fn end(&self, error: MoverError) -> Ended {
        self.is_over.store(true, Ordering::Release);
        let mut outcome = self.outcome();
        // What ends because of the first error says nothing new.
        if outcome.error.is_none() {
            outcome.error = Some(error);
        }
        Ended
    }

    /// Records the failure of an entry. Those of the target as a whole end the restore.
    pub(super) fn fail(&self, path: &str, failed: &Failed) -> Result<(), Ended> {
        if let Failed::Io { attempt, source } = failed
            && is_target_wide(*source)
        {
            let (attempt, path) = (*attempt, self.options.target.join(path));
            let source = std::io::Error::from(*source);
            return Err(self.end(match is_no_space(&source) {
                true => MoverError::Full { attempt, path, source },
                false => MoverError::Target { attempt, path, source },
            }));
        }
        let mut outcome = self.outcome();
        let report = &mut outcome.report;
        report.failed += 1;
        if report.failures.len() < self.options.errors_kept {
            report.failures.push(EntryFailure { path: path.to_owned(), why: failed.to_string() });
        }
        if self.options.stop_at_first_error {
            self.is_over.store(true, Ordering::Release);
            return Err(Ended);
        }
        Ok(())
    }

    /// Records that bytes of an entry cannot be had. Where the whole repository does not answer the restore ends.
    pub(super) fn fail_repository(&self, path: &str, error: RepositoryError) -> Result<(), Ended> {
        if error.concerns_entry() {
            self.fail(path, &Failed::Because(error.to_string()))
        } else {
            Err(self.end(error.into()))
        }
    }

    /// Takes the report, or the error that ended the restore.
    pub(super) fn take(&self) -> Result<RestoreReport, MoverError> {
        let mut outcome = self.outcome();
        match outcome.error.take() {
            Some(error) => Err(error),
            None => Ok(RestoreReport { totals: self.progress.totals(), ..std::mem::take(&mut outcome.report) }),
        }
    }
}

/// The end of a run that nobody waits for any more. When it is gone no thread changes the target.
pub(super) struct EndOnDrop(pub(super) Arc<Run>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
        // A step takes as long as a few calls of the file system.
        drop(self.0.working.write().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Runs work that waits for the file system on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Ended> + Send + 'static,
) -> Result<T, Ended> {
    // It is missing only when the runtime ends.
    lifeboat_bucket::joined(tokio::task::spawn_blocking(work).await).ok_or(Ended)?
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_bucket::{BucketError, ErrorKind};
    use lifeboat_kopia::KopiaError;
    use lifeboat_restic::ResticError;
    use rustix::io::Errno;

    fn run(stop_at_first_error: bool) -> Run {
        let options = RestoreOptions { stop_at_first_error, errors_kept: 1, ..RestoreOptions::new("/t") };
        Run::new(options, Arc::default())
    }

    #[test]
    fn a_full_or_read_only_target_ends_the_restore_and_else_the_entry_fails() {
        let failed = Failed::to("write");
        let run_one = run(false);
        assert_eq!(run_one.fail("a", &failed(Errno::IO)), Ok(()));
        assert_eq!(run_one.fail("b", &failed(Errno::FBIG)), Ok(()));
        assert!(run_one.enter().is_ok());
        let report = run_one.take().unwrap();
        let why = "cannot write: Input/output error (os error 5)".to_owned();
        assert_eq!((report.failed, report.failures), (2, vec![EntryFailure { path: "a".to_owned(), why }]));

        for (errno, message) in [
            (
                Errno::NOSPC,
                "/t/d/f: cannot write: No space left on device (os error 28). Make space and restore again: what is there is kept",
            ),
            (
                Errno::DQUOT,
                "/t/d/f: cannot write: Disk quota exceeded (os error 122). Make space and restore again: what is there is kept",
            ),
            (Errno::ROFS, "/t/d/f: cannot write: Read-only file system (os error 30)"),
        ] {
            let run = run(false);
            assert_eq!(run.fail("d/f", &failed(errno)), Err(Ended));
            // What ends because of that says nothing new.
            assert_eq!(run.fail("e", &failed(Errno::NOSPC)), Err(Ended));
            assert_eq!(run.enter().err(), Some(Ended));
            assert_eq!(run.take().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn the_first_failure_ends_a_restore_that_is_to_stop_there() {
        let run = run(true);
        assert_eq!(run.fail("a", &Failed::Because("no".to_owned())), Err(Ended));
        assert_eq!(run.enter().err(), Some(Ended));
        assert_eq!(run.take().unwrap().failed, 1);
    }

    #[test]
    fn a_bucket_that_is_away_ends_the_restore_and_a_missing_pack_does_not() {
        let error = |kind| BucketError {
            kind,
            operation: "get",
            key: "p1".to_owned(),
            store: "s".to_owned(),
            message: "no".to_owned(),
            source: None,
        };
        let ends = |error: RepositoryError| run(false).fail_repository("a", error).is_err();
        let kinds =
            [ErrorKind::NotFound, ErrorKind::Denied, ErrorKind::Other, ErrorKind::Transient, ErrorKind::Throttled];
        for of_bucket in [|error| KopiaError::Bucket(error).into(), |error| ResticError::Bucket(error).into()] {
            assert_eq!(kinds.map(|kind| ends(of_bucket(error(kind)))), [false, false, false, true, true]);
        }
        let missing = || "pack".to_owned();
        assert!(!ends(KopiaError::Missing { what: missing() }.into()) && ends(KopiaError::Cancelled.into()));
        assert!(!ends(ResticError::Missing { what: missing() }.into()) && ends(ResticError::Cancelled.into()));
    }

    #[test]
    fn nothing_begins_after_the_end_and_the_end_waits_for_what_has_begun() {
        let run = Arc::new(run(false));
        let step = run.enter().unwrap();
        let ending = std::thread::spawn({
            let run = run.clone();
            move || drop(EndOnDrop(run))
        });
        while !run.is_over() {
            std::thread::yield_now();
        }
        assert!(!ending.is_finished());
        drop(step);
        ending.join().unwrap();
        assert_eq!(run.enter().err(), Some(Ended));
    }
}
