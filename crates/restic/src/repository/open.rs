//! Opening: the password, the parameters, the index; and the small files beside them.

use super::{Opened, Repository, Snapshot};
use crate::cache::BlobCache;
use crate::crypto::Key;
use crate::format::config::Config;
use crate::format::key_file::KeyFile;
use crate::format::lock::LockDocument;
use crate::format::snapshot::SnapshotDocument;
use crate::format::stored::{self, MAX_PLAIN};
use crate::format::{FormatError, index};
use crate::index::IndexBuilder;
use crate::limits::ReadLimits;
use crate::tasks::blocking;
use crate::{ResticError, paths};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use lifeboat_bucket::{BlobStore, Entry, ListOptions, collect};
use std::path::PathBuf;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The keys that are tried. Each takes a part of a second; restic stops at so many, too.
const MAX_KEYS: usize = 20;
/// The longest file of `keys/`, and the longest `config`.
const MAX_KEY_FILE: usize = 1 << 20;
/// The small files that are read at once.
const FILES_AT_ONCE: usize = 16;
/// The indexes that are read at once: each may have some MB.
const INDEXES_AT_ONCE: usize = 4;

/// Options of opening a repository.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// A folder of this process alone, for the index. Files in it have no names, so nothing stays.
    pub scratch: PathBuf,
    /// The most bytes of memory for the index, for trees that are kept, and for blobs in flight.
    pub memory: u64,
    /// The threads that decrypt.
    pub threads: usize,
}

/// A lock that another program holds or has left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// Its document, or the reason for which that cannot be read.
    pub document: Result<LockDocument, String>,
}

impl Repository {
    /// Returns true if a bucket has a repository of restic.
    ///
    /// # Errors
    /// Errors of the bucket.
    pub async fn is_in(store: &dyn BlobStore) -> Result<bool, ResticError> {
        if !store.exists(paths::CONFIG).await? {
            return Ok(false);
        }
        let keys = ListOptions { prefix: paths::KEYS.to_owned(), ..ListOptions::default() };
        Ok(!store.list(keys).await?.entries.is_empty())
    }

    /// Opens the repository in a bucket, whose prefix (such as `restic/<namespace>/` of Velero) is off already, and loads
    /// its index.
    ///
    /// # Errors
    /// No repository, a wrong password, what this version cannot read, errors of the bucket and of the scratch space.
    pub async fn open(store: Arc<dyn BlobStore>, password: &[u8], options: OpenOptions) -> Result<Self, ResticError> {
        if !Self::is_in(&*store).await? {
            return Err(ResticError::NotARepository { location: store.describe() });
        }
        let key = open_key(&*store, password).await?;
        let config = read_whole(&*store, paths::CONFIG, MAX_KEY_FILE).await?;
        let config = decrypt(&key, &config).and_then(|plain| Config::parse(&plain));
        let config = config.map_err(|e| damaged(paths::CONFIG, e))?;
        if !config.is_known() {
            return Err(ResticError::Unsupported { what: format!("version {} of the format", config.version) });
        }
        let quarter = options.memory / 4;
        let mut builder = IndexBuilder::new(&options.scratch, quarter);
        let names = list(&*store, paths::INDEX).await?;
        let read = |name: String| {
            let (store, key) = (store.clone(), key.clone());
            async move { read_packs(&*store, key, name).await }
        };
        let mut indexes = Box::pin(futures::stream::iter(names).map(read).buffered(INDEXES_AT_ONCE));
        while let Some(packs) = indexes.try_next().await? {
            builder = blocking(move || {
                packs.iter().try_for_each(|pack| builder.add(pack))?;
                Ok(builder)
            })
            .await?;
        }
        drop(indexes);
        let index = blocking(move || builder.finish()).await?;
        let limits = ReadLimits::new(2 * quarter, options.threads);
        Ok(Self { inner: Arc::new(Opened { store, key, index, cache: BlobCache::new(quarter), limits }) })
    }

    /// Reads all snapshots, oldest first. One that cannot be read is in the list with its reason.
    ///
    /// # Errors
    /// Errors of the bucket.
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>, ResticError> {
        let parse = |plain: &[u8]| SnapshotDocument::parse(plain);
        let files = self.read_folder(paths::SNAPSHOTS, parse).await?;
        let with_id = files.into_iter().filter_map(|(name, document)| {
            let id = name.strip_prefix(paths::SNAPSHOTS)?.parse().ok()?;
            Some(Snapshot { id, document })
        });
        let mut snapshots: Vec<Snapshot> = with_id.collect();
        snapshots.sort_by_key(|one| (one.time(), one.id));
        Ok(snapshots)
    }

    /// Reads the locks that programs hold or have left behind.
    ///
    /// # Errors
    /// Errors of the bucket.
    pub async fn locks(&self) -> Result<Vec<Lock>, ResticError> {
        let files = self.read_folder(paths::LOCKS, LockDocument::parse).await?;
        Ok(files.into_iter().map(|(_, document)| Lock { document }).collect())
    }

    /// Reads all files of a folder. Those that are gone since they were listed are left out.
    async fn read_folder<T>(
        &self,
        folder: &str,
        parse: impl Fn(&[u8]) -> Result<T, FormatError>,
    ) -> Result<Vec<(String, Result<T, String>)>, ResticError> {
        let names = list(&*self.inner.store, folder).await?;
        let read = |name: String| async move {
            let read = self.read_file(&name).await;
            (name, read)
        };
        let mut reading = Box::pin(futures::stream::iter(names).map(read).buffered(FILES_AT_ONCE));
        let mut files = Vec::new();
        while let Some((name, read)) = reading.next().await {
            match read {
                Ok(plain) => files.push((name, parse(&plain).map_err(|e| e.to_string()))),
                Err(ResticError::Damaged { why, .. }) => files.push((name, Err(why))),
                Err(ResticError::Bucket(error)) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }

    /// Reads and decrypts a file.
    async fn read_file(&self, name: &str) -> Result<Bytes, ResticError> {
        let bytes = read_whole(&*self.inner.store, name, MAX_PLAIN).await?;
        let (key, name) = (self.inner.key.clone(), name.to_owned());
        blocking(move || decrypt(&key, &bytes).and_then(stored::file).map_err(|e| damaged(&name, e))).await
    }
}

fn damaged(name: &str, why: impl std::fmt::Display) -> ResticError {
    ResticError::damaged(format!("file {name}"), why)
}

fn decrypt(key: &Key, encrypted: &[u8]) -> Result<Bytes, FormatError> {
    let mut bytes = encrypted.to_vec();
    let range = key.open(&mut bytes).map_err(FormatError::new)?;
    Ok(Bytes::from(bytes).slice(range))
}

async fn read_whole(store: &dyn BlobStore, name: &str, limit: usize) -> Result<Bytes, ResticError> {
    Ok(collect(store.get(name, None).await?, limit).await?)
}

/// The keys of all files below a folder.
async fn list(store: &dyn BlobStore, folder: &str) -> Result<Vec<String>, ResticError> {
    let mut names = Vec::new();
    let mut options = ListOptions { prefix: folder.to_owned(), ..ListOptions::default() };
    loop {
        let page = store.list(options.clone()).await?;
        names.extend(page.entries.into_iter().filter_map(|entry| match entry {
            Entry::Object(listed) => Some(listed.key),
            Entry::Prefix(_) => None,
        }));
        match page.continuation {
            Some(next) => options.continuation = Some(next),
            None => return Ok(names),
        }
    }
}

/// Opens the key of the repository with the first file of `keys/` that the password opens.
async fn open_key(store: &dyn BlobStore, password: &[u8]) -> Result<Key, ResticError> {
    let names = list(store, paths::KEYS).await?;
    let mut unreadable = None;
    for name in names.iter().take(MAX_KEYS) {
        let bytes = read_whole(store, name, MAX_KEY_FILE).await?;
        let password = Zeroizing::new(password.to_vec());
        let open = move || Ok(KeyFile::parse(&bytes).and_then(|file| file.open(&password)));
        match blocking(open).await? {
            Ok(Some(key)) => return Ok(key),
            Ok(None) => {}
            // Another key may do.
            Err(error) => unreadable = Some(damaged(name, error)),
        }
    }
    if names.len() > MAX_KEYS {
        let what =
            format!("one of more than {MAX_KEYS} keys (it has {}; the password opens none of the first)", names.len());
        return Err(ResticError::Unsupported { what });
    }
    Err(unreadable.unwrap_or_else(|| ResticError::WrongPassword { location: store.describe() }))
}

/// Reads the packs of a file of `index/`.
async fn read_packs(store: &dyn BlobStore, key: Key, name: String) -> Result<Vec<index::Pack>, ResticError> {
    let bytes = match read_whole(store, &name, MAX_PLAIN).await {
        Ok(bytes) => bytes,
        // The index that has taken its place may be missing in the list.
        Err(ResticError::Bucket(error)) if error.is_not_found() => {
            let what = format!("file {name}, which was listed (another program replaces the indexes: try again),");
            return Err(ResticError::Missing { what });
        }
        Err(error) => return Err(error),
    };
    blocking(move || {
        let mut packs = Vec::new();
        let mut take = |pack| {
            packs.push(pack);
            Ok(())
        };
        let read = decrypt(&key, &bytes).and_then(stored::file).and_then(|plain| index::read(&plain, &mut take));
        read.map_err(|e| damaged(&name, e))?;
        Ok(packs)
    })
    .await
}
