//! Repositories that kopia wrote, in memory, and what kopia said of them.

use lifeboat_bucket::{BlobStore, ListOptions, Memory, PutOptions};
use lifeboat_kopia::content::IndexSource;
use lifeboat_kopia::crypto::Password;
use lifeboat_kopia::format::time::UnixNanos;
use lifeboat_kopia::{KopiaError, OpenOptions, Repository};
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// A day after the repositories were written.
pub(crate) const NOW: UnixNanos = UnixNanos(1_795_900_000_000_000_000);

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/matrix")
}

pub(crate) fn password() -> Password {
    Password::new("matrix-passw0rd".to_owned())
}

/// The names of all repositories.
pub(crate) fn names() -> Vec<String> {
    let files = std::fs::read_dir(folder().join("repos")).unwrap();
    let name = |file: std::io::Result<std::fs::DirEntry>| {
        file.unwrap().file_name().into_string().unwrap().strip_suffix(".tar.gz").unwrap().to_owned()
    };
    let mut names: Vec<String> = files.map(name).collect();
    names.sort();
    names
}

pub(crate) fn unzip(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
    flate2::bufread::MultiGzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}

/// What kopia said of a repository.
pub(crate) fn expected(name: &str) -> Value {
    serde_json::from_slice(&unzip(&folder().join(format!("expected/{name}.json.gz")))).unwrap()
}

/// The files of a repository with their times.
pub(crate) fn files(name: &str) -> Vec<(String, Vec<u8>, Duration)> {
    let tar = unzip(&folder().join(format!("repos/{name}.tar.gz")));
    let mut archive = tar::Archive::new(tar.as_slice());
    let mut files = Vec::new();
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
        files.push((key, bytes, time));
    }
    files
}

/// A repository as a bucket in memory.
pub(crate) async fn bucket(name: &str) -> Arc<Memory> {
    let store = Memory::default();
    for (key, bytes, time) in files(name) {
        store.put(&key, bytes.into(), PutOptions::default()).await.unwrap();
        store.set_modified(&key, UNIX_EPOCH + time);
    }
    Arc::new(store)
}

/// A repository in the layout of object stores: names without folders and suffix.
pub(crate) async fn flat_bucket(name: &str) -> Arc<Memory> {
    let store = Memory::default();
    for (key, bytes, _) in files(name) {
        if let Some(key) = key.strip_suffix(".f") {
            store.put(&key.replace('/', ""), bytes.into(), PutOptions::default()).await.unwrap();
        }
    }
    Arc::new(store)
}

pub(crate) fn options(scratch: &Path) -> OpenOptions {
    OpenOptions {
        scratch: scratch.to_owned(),
        clock: Arc::new(|| NOW),
        memory: 64 << 20,
        threads: 2,
        indexes: IndexSource::IndexBlobs,
    }
}

pub(crate) async fn open(store: Arc<dyn BlobStore>, scratch: &Path) -> Result<Repository, KopiaError> {
    Repository::open(store, password(), options(scratch)).await
}

/// The keys of a bucket that begin with a text.
pub(crate) async fn keys(store: &dyn BlobStore, prefix: &str) -> Vec<String> {
    let options = ListOptions { prefix: prefix.to_owned(), page_size: 100_000, ..ListOptions::default() };
    let key = |entry| match entry {
        lifeboat_bucket::Entry::Object(listed) => listed.key,
        lifeboat_bucket::Entry::Prefix(prefix) => prefix,
    };
    store.list(options).await.unwrap().entries.into_iter().map(key).collect()
}

pub(crate) async fn get(store: &dyn BlobStore, key: &str) -> Vec<u8> {
    lifeboat_bucket::collect(store.get(key, None).await.unwrap(), 1 << 30).await.unwrap().to_vec()
}
