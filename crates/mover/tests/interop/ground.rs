//! A repository in a directory, as both programs open it.

use lifeboat_bucket::Directory;
use lifeboat_kopia::content::IndexSource;
use lifeboat_kopia::crypto::Password;
use lifeboat_kopia::format::time::UnixNanos;
use lifeboat_kopia::verify::{VerifyOptions, VerifyReport};
use lifeboat_kopia::{Clock, OpenOptions, Repository};
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
