//! A repository in a directory, as both programs open it.

use lifeboat_bucket::Directory;
use lifeboat_kopia::blobs::layout::Layout;
use lifeboat_kopia::content::IndexSource;
use lifeboat_kopia::crypto::Password;
use lifeboat_kopia::format::repository::NewRepository;
use lifeboat_kopia::format::snapshot::{SnapshotDocument, Source};
use lifeboat_kopia::format::time::UnixNanos;
use lifeboat_kopia::verify::{VerifyOptions, VerifyReport};
use lifeboat_kopia::{Clock, OpenOptions, Random, Repository, RepositoryWriter, WriteOptions};
use lifeboat_mover::snapshot::{SnapshotOptions, SnapshotReport, snapshot};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) const PASSWORD: &str = "interop-passw0rd";

/// The real time, which kopia takes, too.
pub(crate) fn clock() -> Clock {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        UnixNanos(i64::try_from(since.as_nanos()).unwrap())
    })
}

/// Opens a repository in a directory.
pub(crate) async fn open(path: &Path, scratch: &Path) -> Arc<Repository> {
    let options = OpenOptions {
        scratch: scratch.to_owned(),
        clock: clock(),
        memory: 64 << 20,
        threads: 2,
        indexes: IndexSource::IndexBlobs,
    };
    let store = Arc::new(Directory::open(path).unwrap());
    Arc::new(Repository::open(store, Password::new(PASSWORD.to_owned()), options).await.unwrap())
}

/// Reads and compares everything; gives the report and the problems.
pub(crate) async fn verify(repository: &Repository) -> (VerifyReport, Vec<String>) {
    let limits = repository.contents().limits();
    let options = VerifyOptions { snapshots: None, files_percent: 100.0, seed: 0, directories: 8, limits };
    let problems: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = problems.clone();
    let report = repository.verify(options, move |problem| noted.lock().unwrap().push(format!("{problem:?}")));
    let report = report.await.unwrap();
    let problems = std::mem::take(&mut *problems.lock().unwrap());
    (report, problems)
}

/// Makes a repository in a directory.
pub(crate) async fn create(path: &Path, new: &NewRepository) {
    let store = Arc::new(Directory::open(path).unwrap());
    let password = Password::new(PASSWORD.to_owned());
    Repository::create(store, &password, new, &random(), &Layout::sharded()).await.unwrap();
}

/// Random bytes of the system.
pub(crate) fn random() -> Random {
    Arc::new(|bytes: &mut [u8]| File::open("/dev/urandom").unwrap().read_exact(bytes).unwrap())
}

pub(crate) async fn writer(repository: &Repository) -> RepositoryWriter {
    let options = WriteOptions {
        user: "user".to_owned(),
        host: "host".to_owned(),
        random: random(),
        threads: 2,
        memory: 64 << 20,
        uploads: 4,
    };
    repository.writer(options).await.unwrap()
}

/// The source of a tree, as kopia names it.
pub(crate) fn source(tree: &Path) -> Source {
    Source { host: "host".to_owned(), user: "user".to_owned(), path: tree.to_str().unwrap().to_owned() }
}

/// Takes a snapshot of a tree under its own name.
pub(crate) async fn take(repository: &Repository, tree: &Path) -> SnapshotReport {
    take_with(repository, tree, |_| {}).await
}

/// As [`take`], with other options.
pub(crate) async fn take_with(
    repository: &Repository,
    tree: &Path,
    change: impl FnOnce(&mut SnapshotOptions),
) -> SnapshotReport {
    let mut options = SnapshotOptions::new(source(tree), clock(), random());
    change(&mut options);
    snapshot(&writer(repository).await, tree, options, &Arc::default()).await.unwrap()
}

/// The IDs of all contents but those of manifests.
pub(crate) async fn contents(repository: &Repository) -> BTreeSet<String> {
    repository.contents().refresh().await.unwrap();
    let ids = repository.contents().scan(None).map(|entry| entry.unwrap().id);
    ids.filter(|id| id.prefix() != Some(b'm')).map(|id| id.to_string()).collect()
}

/// The document of the newest snapshot.
pub(crate) async fn newest(repository: &Repository) -> SnapshotDocument {
    repository.contents().refresh().await.unwrap();
    repository.snapshots().await.unwrap().pop().unwrap().document.unwrap()
}
