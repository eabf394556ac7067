//! What a local operation remembers on this machine, so that running the same command again takes it up.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The state of one operation: a file below `$XDG_STATE_HOME/lifeboat`, removed when the operation has ended.
#[derive(Debug)]
pub(crate) struct State {
    path: PathBuf,
    pub(crate) content: Content,
}

/// What is remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Content {
    /// UID of the Backup or Restore.
    pub(crate) uid: String,
    /// When it was first begun.
    pub(crate) started: jiff::Timestamp,
}

impl State {
    /// The state of an operation of this kind and name on this bucket; a new one when there is none. It is on disk
    /// when this returns.
    ///
    /// # Errors
    /// When the folder or file cannot be used.
    pub(crate) fn open(kind: &str, bucket: &str, name: &str) -> Result<Self> {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let base = std::env::var_os("XDG_STATE_HOME")
            .filter(|v| !v.is_empty())
            .map_or_else(|| home.join(".local/state"), PathBuf::from);
        let folder = base.join("lifeboat").join(kind);
        Self::open_in(folder, bucket, name)
    }

    fn open_in(folder: PathBuf, bucket: &str, name: &str) -> Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .with_context(|| format!("make {}", folder.display()))?;
        // The name alone would collide between buckets.
        let hash = lifeboat_archive::tarball::hex(&lifeboat_archive::tarball::entry_hash(bucket.as_bytes()));
        let path = folder.join(format!("{}-{name}.json", &hash[..12]));
        match std::fs::read(&path) {
            Ok(bytes) => {
                if let Ok(content) = serde_json::from_slice(&bytes) {
                    return Ok(Self { path, content });
                }
                // Cut off while it was written for the first time: nothing was done under it.
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(e).with_context(|| format!("read {}", path.display())),
        }
        let content = Content { uid: uuid::Uuid::new_v4().to_string(), started: jiff::Timestamp::now() };
        let temporary = path.with_extension("new");
        std::fs::write(&temporary, serde_json::to_vec(&content)?)
            .and_then(|()| std::fs::File::open(&temporary)?.sync_all())
            .and_then(|()| std::fs::rename(&temporary, &path))
            .with_context(|| format!("write {}", path.display()))?;
        Ok(Self { path, content })
    }

    /// Forgets the operation: it has ended.
    pub(crate) fn forget(self) {
        // A file that stays is harmless: the backup under its UID is complete.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_command_finds_its_state_until_it_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let open = |bucket: &str| State::open_in(folder.path().join("backup"), bucket, "nightly").unwrap();
        let first = open("/a").content;
        assert_eq!(open("/a").content, first);
        assert_ne!(open("/b").content, first);
        open("/a").forget();
        assert_ne!(open("/a").content, first);
    }
}
