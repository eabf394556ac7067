//! Repositories that kopia wrote, in memory, and restores of them.

use lifeboat_bucket::{BlobStore, Memory, PutOptions};
use lifeboat_kopia::content::IndexSource;
use lifeboat_kopia::crypto::Password;
use lifeboat_kopia::format::directory::DirectoryEntry;
use lifeboat_kopia::format::time::UnixNanos;
use lifeboat_kopia::snapshot::Snapshot;
use lifeboat_kopia::{OpenOptions, Repository};
use lifeboat_mover::restore::{RestoreOptions, RestoreReport, restore};
use lifeboat_mover::{MoverError, Progress};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// A day after the repositories were written.
const NOW: UnixNanos = UnixNanos(1_795_900_000_000_000_000);

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../kopia/tests/golden/matrix")
}

/// The names of all repositories that can be opened.
pub(crate) fn names() -> Vec<String> {
    let files = std::fs::read_dir(folder().join("repos")).unwrap();
    let name = |file: std::io::Result<std::fs::DirEntry>| {
        file.unwrap().file_name().into_string().unwrap().strip_suffix(".tar.gz").unwrap().to_owned()
    };
    let mut names: Vec<String> = files.map(name).filter(|name| name != "format-v1-locked").collect();
    names.sort();
    names
}

/// A repository as a bucket in memory.
pub(crate) async fn bucket(name: &str) -> Arc<Memory> {
    let file = BufReader::new(std::fs::File::open(folder().join(format!("repos/{name}.tar.gz"))).unwrap());
    let mut archive = tar::Archive::new(flate2::bufread::GzDecoder::new(file));
    let store = Memory::default();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = entry.path().unwrap().to_str().unwrap().to_owned();
        let key = path.strip_prefix(&format!("{name}/")).unwrap().to_owned();
        let mut time = Duration::from_secs(entry.header().mtime().unwrap());
        for extension in entry.pax_extensions().unwrap().into_iter().flatten() {
            let extension = extension.unwrap();
            if extension.key() == Ok("mtime") {
                let (seconds, fraction) = extension.value().unwrap().split_once('.').unwrap_or(("0", "0"));
                time = Duration::new(seconds.parse().unwrap(), format!("{fraction:0<9}").parse().unwrap());
            }
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        store.put(&key, bytes.into(), PutOptions::default()).await.unwrap();
        store.set_modified(&key, UNIX_EPOCH + time);
    }
    Arc::new(store)
}

pub(crate) async fn open(store: Arc<dyn BlobStore>, scratch: &Path) -> Arc<Repository> {
    let options = OpenOptions {
        scratch: scratch.to_owned(),
        clock: Arc::new(|| NOW),
        memory: 16 << 20,
        threads: 2,
        indexes: IndexSource::IndexBlobs,
    };
    Arc::new(Repository::open(store, Password::new("matrix-passw0rd".to_owned()), options).await.unwrap())
}

/// A repository that kopia wrote.
pub(crate) async fn golden(name: &str, scratch: &Path) -> Arc<Repository> {
    open(bucket(name).await, scratch).await
}

/// The root of a snapshot, and the name of the tree that went into it.
pub(crate) fn root(snapshot: Snapshot) -> (String, DirectoryEntry) {
    let document = snapshot.document.unwrap();
    (document.source.path.rsplit('/').next().unwrap().to_owned(), document.root.unwrap())
}

/// The only snapshot of a repository.
pub(crate) async fn only_root(repository: &Repository) -> DirectoryEntry {
    root(repository.snapshots().await.unwrap().pop().unwrap()).1
}

/// Options of tests: nothing waits for the disk.
pub(crate) fn options(target: &Path) -> RestoreOptions {
    RestoreOptions { sync: false, ..RestoreOptions::new(target) }
}

/// Restores with these options.
pub(crate) async fn run(
    repository: &Arc<Repository>,
    root: &DirectoryEntry,
    options: &RestoreOptions,
) -> Result<RestoreReport, MoverError> {
    let progress = Arc::new(Progress::default());
    sent(restore(repository, root, options, &progress)).await
}

/// A future that an operation can give to another thread.
fn sent<F: Future + Send>(future: F) -> F {
    future
}

/// The paths and reasons of the failures, sorted.
pub(crate) fn failures(report: &RestoreReport) -> Vec<(&str, &str)> {
    assert_eq!(report.failed, report.failures.len() as u64);
    let mut failures: Vec<_> = report.failures.iter().map(|one| (one.path.as_str(), one.why.as_str())).collect();
    failures.sort_unstable();
    failures
}

/// True where owners can be set, and so are compared.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
