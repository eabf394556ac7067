//! A repository of ours in memory, and snapshots into it.

use crate::fixture::{failures, options, run};
use crate::tree::{Rows, rows};
use lifeboat_bucket::{BlobStore, Memory};
use lifeboat_kopia::blobs::layout::Layout;
use lifeboat_kopia::content::IndexSource;
use lifeboat_kopia::crypto::Password;
use lifeboat_kopia::format::directory::DirectoryEntry;
use lifeboat_kopia::format::repository::NewRepository;
use lifeboat_kopia::format::snapshot::Source;
use lifeboat_kopia::format::time::UnixNanos;
use lifeboat_kopia::verify::VerifyOptions;
use lifeboat_kopia::{Clock, KopiaError, OpenOptions, Random, Repository, RepositoryWriter, WriteOptions};
use lifeboat_mover::snapshot::{SnapshotOptions, SnapshotReport, snapshot};
use lifeboat_mover::{MoverError, Progress};
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

const PASSWORD: &str = "written-passw0rd";

/// A repository, and a folder for trees and their restores.
pub(crate) struct Written {
    pub(crate) store: Arc<Memory>,
    pub(crate) folder: TempDir,
    clock: Clock,
}

/// Bytes that look random and never repeat, so that no two writers give the same name.
pub(crate) fn random() -> Random {
    static STATE: AtomicU64 = AtomicU64::new(7);
    Arc::new(|bytes: &mut [u8]| {
        for byte in bytes {
            let next = STATE.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            *byte = ((next ^ next >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 56) as u8;
        }
    })
}

impl Written {
    pub(crate) async fn new() -> Self {
        Self::with(NewRepository::default()).await
    }

    pub(crate) async fn with(new: NewRepository) -> Self {
        let store = Arc::new(Memory::default());
        let password = Password::new(PASSWORD.to_owned());
        Repository::create(store.clone(), &password, &new, &random(), &Layout::Flat).await.unwrap();
        // Each look at the clock is a millisecond later. All files were written long before: the times of those that were written just
        // before a snapshot are not believed.
        let now = AtomicI64::new(4_102_444_800_000_000_000);
        let clock: Clock = Arc::new(move || UnixNanos(now.fetch_add(1_000_000, Ordering::Relaxed)));
        Self { store, folder: tempfile::tempdir().unwrap(), clock }
    }

    pub(crate) fn tree(&self) -> std::path::PathBuf {
        self.folder.path().join("tree")
    }

    /// Opens the repository as another process would.
    pub(crate) async fn open(&self) -> Arc<Repository> {
        self.open_over(self.store.clone()).await.unwrap()
    }

    /// Opens the repository through another store.
    pub(crate) async fn open_over(&self, store: Arc<dyn BlobStore>) -> Result<Arc<Repository>, KopiaError> {
        let options = OpenOptions {
            scratch: self.folder.path().to_owned(),
            clock: self.clock.clone(),
            memory: 16 << 20,
            threads: 2,
            indexes: IndexSource::IndexBlobs,
        };
        let password = Password::new(PASSWORD.to_owned());
        Repository::open(store, password, options).await.map(Arc::new)
    }

    pub(crate) fn options(&self) -> SnapshotOptions {
        let source = Source { host: "h".to_owned(), user: "u".to_owned(), path: "/tree".to_owned() };
        SnapshotOptions::new(source, self.clock.clone(), random())
    }

    pub(crate) async fn writer(&self, repository: &Repository) -> RepositoryWriter {
        self.try_writer(repository).await.unwrap()
    }

    pub(crate) async fn try_writer(&self, repository: &Repository) -> Result<RepositoryWriter, KopiaError> {
        let options = WriteOptions {
            user: "u".to_owned(),
            host: "h".to_owned(),
            random: random(),
            threads: 2,
            memory: 32 << 20,
            uploads: 4,
        };
        repository.writer(options).await
    }

    /// Takes a snapshot of a path.
    pub(crate) async fn try_take(
        &self,
        repository: &Repository,
        path: &Path,
        options: SnapshotOptions,
        progress: &Arc<Progress>,
    ) -> Result<SnapshotReport, MoverError> {
        let writer = self.writer(repository).await;
        snapshot(&writer, path, options, progress).await
    }

    /// Takes a snapshot of the tree.
    pub(crate) async fn take(&self, repository: &Repository) -> SnapshotReport {
        self.try_take(repository, &self.tree(), self.options(), &Arc::default()).await.unwrap()
    }

    /// Restores a root into a folder that is new.
    pub(crate) async fn restored(&self, repository: &Arc<Repository>, root: &DirectoryEntry) -> Rows {
        let folder = tempfile::tempdir_in(self.folder.path()).unwrap();
        let target = folder.path().join("target");
        let report = run(repository, root, &options(&target)).await.unwrap();
        assert_eq!(failures(&report), []);
        rows(&target)
    }
}

/// The problems that are found when everything is read.
pub(crate) async fn problems(repository: &Repository) -> Vec<String> {
    let limits = repository.contents().limits();
    let options = VerifyOptions { snapshots: None, files_percent: 100.0, seed: 0, directories: 8, limits };
    let problems: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = problems.clone();
    repository.verify(options, move |problem| noted.lock().unwrap().push(format!("{problem:?}"))).await.unwrap();
    std::mem::take(&mut *problems.lock().unwrap())
}
