//! What a local operation remembers on this machine, so that running the same command again takes it up.

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use bytes::Bytes;
use lifeboat_operation::{Records, RecordsError, is_key};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The state of one operation: a file below `$XDG_STATE_HOME/lifeboat`, removed when the operation has ended. Held by
/// one process at a time.
#[derive(Debug)]
pub(crate) struct State {
    path: PathBuf,
    pub(crate) content: Content,
    /// Whether no operation was begun before that has not ended.
    pub(crate) is_new: bool,
    _lock: File,
}

/// What is remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Content {
    /// UID of the Backup or Restore.
    pub(crate) uid: String,
    /// When it was first begun.
    pub(crate) started: jiff::Timestamp,
    /// The backup that a restore takes its objects from, where the command alone does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) backup: Option<OfBackup>,
    /// Whether it has come to an end, with something that was not done. A run that goes on with it begins without this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) has_ended: bool,
}

/// A backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OfBackup {
    pub(crate) name: String,
    pub(crate) uid: String,
}

impl Content {
    /// Of an operation that begins now.
    pub(crate) fn new(now: jiff::Timestamp) -> Self {
        Self { uid: uuid::Uuid::new_v4().to_string(), started: now, backup: None, has_ended: false }
    }
}

impl State {
    /// The state of an operation of this kind and name on this bucket; this new one when there is none. It is on disk when this
    /// returns.
    ///
    /// # Errors
    /// When the folder or file cannot be used, or the same operation is under way in another process.
    pub(crate) fn open(kind: &str, bucket: &str, name: &str, new: Content) -> Result<Self> {
        Self::open_in(&folder_of(kind), bucket, name, new)
    }

    /// What is remembered of an operation that was begun and has not ended.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn kept(kind: &str, bucket: &str, name: &str) -> Result<Option<Content>> {
        content(&path_in(&folder_of(kind), bucket, name))
    }

    fn open_in(folder: &Path, bucket: &str, name: &str, new: Content) -> Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .with_context(|| format!("make {}", folder.display()))?;
        let path = path_in(folder, bucket, name);
        let lock = lock(&path.with_extension("lock"))?;
        let kept = content(&path)?;
        let (is_new, content) = (kept.is_none(), kept.unwrap_or(new));
        let mut state = Self { path, content, is_new, _lock: lock };
        if is_new || state.content.has_ended {
            state.write(false)?;
        }
        Ok(state)
    }

    fn write(&mut self, has_ended: bool) -> Result<()> {
        self.content.has_ended = has_ended;
        replace(&self.path, &serde_json::to_vec(&self.content)?)
            .with_context(|| format!("write {}", self.path.display()))
    }

    /// Notes that the operation has ended and has not done everything, so that the same command may go on with it.
    ///
    /// # Errors
    /// When the file cannot be written: the operation is then one that was cut off.
    pub(crate) fn end_with_something_left(mut self) -> Result<()> {
        self.write(true)
    }

    /// The notes of the operation.
    pub(crate) fn records(&self) -> RecordFolder {
        RecordFolder { path: self.path.with_extension("records"), writing: Arc::default() }
    }

    /// Forgets the operation, which has not begun, unless it had begun before.
    pub(crate) fn forget_if_new(self) {
        if self.is_new {
            self.forget();
        }
    }

    /// Forgets the operation: it has ended.
    pub(crate) fn forget(self) {
        // Files that stay are harmless: what was done under their UID is complete.
        let _ = std::fs::remove_dir_all(self.records().path);
        for path in [&self.path, &self.path.with_extension("lock")] {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// What a file of state holds. It is replaced whole; what is not ours is not to be thrown away.
fn content(path: &Path) -> Result<Option<Content>> {
    let reading = || format!("read {}", path.display());
    let Some(bytes) = read(path).with_context(reading)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).with_context(reading)
}

/// Where the state of operations of a kind lies.
fn folder_of(kind: &str) -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let base = std::env::var_os("XDG_STATE_HOME")
        .filter(|v| !v.is_empty())
        .map_or_else(|| home.join(".local/state"), PathBuf::from);
    base.join("lifeboat").join(kind)
}

fn path_in(folder: &Path, bucket: &str, name: &str) -> PathBuf {
    // The name alone would collide between buckets.
    let hash = hex::encode(lifeboat_archive::tarball::entry_hash(bucket.as_bytes()));
    folder.join(format!("{}-{name}.json", &hash[..12]))
}

/// The notes of an operation, each a file in a folder of its own.
#[derive(Debug)]
pub(crate) struct RecordFolder {
    path: PathBuf,
    /// Held while files are replaced: what one write has half done is not another's.
    writing: Arc<tokio::sync::Mutex<()>>,
}

impl RecordFolder {
    /// Does something with the files, on a thread that may wait for the disk; a failure names the folder.
    async fn with<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce(&Path) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, RecordsError> {
        let path = self.path.clone();
        let done = tokio::task::spawn_blocking(move || work(&path)).await;
        let failed = |e| RecordsError::Unavailable(format!("{what} {}: {e}", self.path.display()));
        done.map_err(std::io::Error::other).flatten().map_err(failed)
    }
}

#[async_trait]
impl Records for RecordFolder {
    async fn read(&self, key: &str) -> Result<Option<Bytes>, RecordsError> {
        let key = checked(key)?;
        Ok(self.with("read from", move |folder| read(&folder.join(key))).await?.map(Bytes::from))
    }

    async fn keys(&self) -> Result<BTreeSet<String>, RecordsError> {
        self.with("list", |folder| {
            let entries = match std::fs::read_dir(folder) {
                Err(e) if e.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
                entries => entries?,
            };
            let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
            let names = names.collect::<std::io::Result<Vec<String>>>()?;
            Ok(names.into_iter().filter(|name| is_key(name)).collect())
        })
        .await
    }

    async fn write(&self, notes: BTreeMap<String, Option<Bytes>>) -> Result<(), RecordsError> {
        for key in notes.keys() {
            checked(key)?;
        }
        // Writes come one after the other in the order in which they were asked for, also one that is given up under way.
        let turn = Arc::clone(&self.writing).lock_owned().await;
        self.with("write into", move |folder| {
            let _turn = turn;
            match std::fs::create_dir(folder) {
                Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
            for (key, note) in notes {
                match note {
                    Some(note) => replace(&folder.join(key), &note)?,
                    None => remove(&folder.join(key))?,
                }
            }
            File::open(folder)?.sync_all()
        })
        .await
    }
}

fn checked(key: &str) -> Result<String, RecordsError> {
    if is_key(key) { Ok(key.to_owned()) } else { Err(RecordsError::Key(key.to_owned())) }
}

/// The lock that ends with this process, however that ends.
fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("make {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!("the same command is already running on this machine (it holds {}): wait for it", path.display())
        }
        Err(TryLockError::Error(e)) => Err(e).with_context(|| format!("lock {}", path.display())),
    }
}

fn read(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Writes a file in place of the one before: a crash leaves the one or the other, whole.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // No key of a note begins with two dots.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!("..{name}"));
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_command_finds_its_state_until_it_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let open = |bucket: &str| {
            let new = Content::new(jiff::Timestamp::now());
            State::open_in(&folder.path().join("backup"), bucket, "nightly", new).unwrap()
        };
        let first = open("/a").content;
        assert_eq!(open("/a").content, first);
        assert_ne!(open("/b").content, first);
        open("/a").forget();
        assert_ne!(open("/a").content, first);
    }

    #[test]
    fn one_process_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let open = || State::open_in(folder.path(), "/a", "nightly", Content::new(jiff::Timestamp::now()));
        let held = open().unwrap();
        let refused = open().unwrap_err().to_string();
        assert!(refused.starts_with("the same command is already running on this machine"), "{refused}");
        drop(held);
        open().unwrap();
    }

    #[tokio::test]
    async fn notes_in_a_folder_pass_the_suite() {
        let folder = tempfile::tempdir().unwrap();
        let records = RecordFolder { path: folder.path().join("a.records"), writing: Arc::default() };
        lifeboat_operation::conformance::run(Arc::new(records)).await;
    }

    #[tokio::test]
    async fn notes_stay_until_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let open = || State::open_in(folder.path(), "/a", "back", Content::new(jiff::Timestamp::now())).unwrap();
        let state = open();
        assert!(state.is_new);
        assert_eq!(state.records().read("checkpoint").await, Ok(None));
        let half = Bytes::from_static(b"half");
        state.records().write(BTreeMap::from([("checkpoint".to_owned(), Some(half.clone()))])).await.unwrap();
        drop(state);
        let state = open();
        assert_eq!(state.records().read("checkpoint").await, Ok(Some(half)));
        assert!(!state.is_new);
        state.end_with_something_left().unwrap();
        assert!(content(&path_in(folder.path(), "/a", "back")).unwrap().unwrap().has_ended);
        let state = open();
        assert_eq!((state.is_new, state.content.has_ended), (false, false));
        assert!(!content(&state.path).unwrap().unwrap().has_ended, "it goes on");
        state.forget_if_new();
        open().forget();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        open().forget_if_new();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
