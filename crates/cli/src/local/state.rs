//! What a local operation remembers on this machine, so that running the same command again takes it up.

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use lifeboat_restore::CheckpointStore;
use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The state of one operation: a file below `$XDG_STATE_HOME/lifeboat`, removed when the operation has ended. Held by
/// one process at a time.
#[derive(Debug)]
pub(crate) struct State {
    path: PathBuf,
    pub(crate) content: Content,
    _lock: File,
}

/// What is remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Content {
    /// UID of the Backup or Restore.
    pub(crate) uid: String,
    /// When it was first begun.
    pub(crate) started: jiff::Timestamp,
}

impl Content {
    /// Of an operation that begins now.
    pub(crate) fn new(now: jiff::Timestamp) -> Self {
        Self { uid: uuid::Uuid::new_v4().to_string(), started: now }
    }
}

impl State {
    /// The state of an operation of this kind and name on this bucket; a new one, begun now, when there is none. It is
    /// on disk when this returns.
    ///
    /// # Errors
    /// When the folder or file cannot be used, or the same operation is under way in another process.
    pub(crate) fn open(kind: &str, bucket: &str, name: &str, now: jiff::Timestamp) -> Result<Self> {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let base = std::env::var_os("XDG_STATE_HOME")
            .filter(|v| !v.is_empty())
            .map_or_else(|| home.join(".local/state"), PathBuf::from);
        let folder = base.join("lifeboat").join(kind);
        Self::open_in(&folder, bucket, name, now)
    }

    fn open_in(folder: &Path, bucket: &str, name: &str, now: jiff::Timestamp) -> Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .with_context(|| format!("make {}", folder.display()))?;
        // The name alone would collide between buckets.
        let hash = hex::encode(lifeboat_archive::tarball::entry_hash(bucket.as_bytes()));
        let path = folder.join(format!("{}-{name}.json", &hash[..12]));
        let lock = lock(&path.with_extension("lock"))?;
        let reading = || format!("read {}", path.display());
        if let Some(bytes) = read(&path).with_context(reading)? {
            // The file is replaced whole; what is not ours is not to be thrown away.
            let content = serde_json::from_slice(&bytes).with_context(reading)?;
            return Ok(Self { path, content, _lock: lock });
        }
        let content = Content::new(now);
        replace(&path, &serde_json::to_vec(&content)?).with_context(|| format!("write {}", path.display()))?;
        Ok(Self { path, content, _lock: lock })
    }

    /// Where the checkpoint of a restore lies.
    pub(crate) fn checkpoint(&self) -> CheckpointFile {
        CheckpointFile { path: self.path.with_extension("checkpoint") }
    }

    /// Forgets the operation: it has ended.
    pub(crate) fn forget(self) {
        // Files that stay are harmless: what was done under their UID is complete.
        for path in [&self.path, &self.checkpoint().path, &self.path.with_extension("lock")] {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The checkpoint of a restore in a file.
#[derive(Debug)]
pub(crate) struct CheckpointFile {
    path: PathBuf,
}

#[async_trait]
impl CheckpointStore for CheckpointFile {
    async fn load(&self) -> Result<Option<Vec<u8>>, String> {
        read(&self.path).map_err(|e| format!("read {}: {e}", self.path.display()))
    }

    async fn save(&self, bytes: Vec<u8>) -> Result<(), String> {
        let path = self.path.clone();
        let written = tokio::task::spawn_blocking(move || replace(&path, &bytes)).await;
        written.map_err(std::io::Error::other).flatten().map_err(|e| format!("write {}: {e}", self.path.display()))
    }
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

/// Writes a file in place of the one before: a crash leaves the one or the other, whole.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let temporary = path.with_extension("new");
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
            State::open_in(&folder.path().join("backup"), bucket, "nightly", jiff::Timestamp::now()).unwrap()
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
        let open = || State::open_in(folder.path(), "/a", "nightly", jiff::Timestamp::now());
        let held = open().unwrap();
        let refused = open().unwrap_err().to_string();
        assert!(refused.starts_with("the same command is already running on this machine"), "{refused}");
        drop(held);
        open().unwrap();
    }

    #[tokio::test]
    async fn a_checkpoint_stays_until_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let open = || State::open_in(folder.path(), "/a", "back", jiff::Timestamp::now()).unwrap();
        let state = open();
        assert_eq!(state.checkpoint().load().await, Ok(None));
        state.checkpoint().save(b"half".to_vec()).await.unwrap();
        drop(state);
        let state = open();
        assert_eq!(state.checkpoint().load().await, Ok(Some(b"half".to_vec())));
        state.forget();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
