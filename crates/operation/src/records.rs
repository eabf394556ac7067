//! Notes of an operation that survive its process.

use async_trait::async_trait;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Longest key, in bytes; that of a ConfigMap.
const LONGEST_KEY: usize = 253;

/// Notes that an operation stores under keys, so that the next run, after a crash or by another server, knows what was
/// done: a checkpoint, a hook that is about to run, the id of a snapshot. Notes are few and small: all of them together
/// have room in a ConfigMap.
///
/// Writing a note again is harmless. A reader may find what an earlier run wrote, and must not rely on the last note of
/// a run that was cut off being there.
///
/// Every implementation passes [`conformance::run`](crate::conformance::run).
#[async_trait]
pub trait Records: Debug + Send + Sync {
    /// The note under this key; `None` when there is none.
    ///
    /// # Errors
    /// [`RecordsError`].
    async fn read(&self, key: &str) -> Result<Option<Bytes>, RecordsError>;

    /// The keys of all notes.
    ///
    /// # Errors
    /// [`RecordsError`].
    async fn keys(&self) -> Result<BTreeSet<String>, RecordsError>;

    /// All notes whose keys begin with this.
    ///
    /// # Errors
    /// [`RecordsError`].
    async fn read_all(&self, prefix: &str) -> Result<BTreeMap<String, Bytes>, RecordsError> {
        let mut out = BTreeMap::new();
        for key in self.keys().await?.into_iter().filter(|key| key.starts_with(prefix)) {
            // Another one may remove it meanwhile.
            if let Some(note) = self.read(&key).await? {
                out.insert(key, note);
            }
        }
        Ok(out)
    }

    /// Writes these notes in place of what was under their keys; `None` removes one. When this returns, all of them survive
    /// the process. After a failure or a crash each one is whole: what it was before, or what it should be.
    ///
    /// # Errors
    /// [`RecordsError`]; nothing was written when it is [`RecordsError::Key`] or [`RecordsError::Full`].
    async fn write(&self, notes: BTreeMap<String, Option<Bytes>>) -> Result<(), RecordsError>;
}

/// Notes that could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordsError {
    /// No key: see [`is_key`].
    #[error("{0:?} cannot be the key of a note: letters, digits, '-', '_' and '.' can, up to {LONGEST_KEY} of them")]
    Key(String),
    /// There is no room for all of them.
    #[error("the notes of this operation would take {size} bytes, and there is room for {most}")]
    Full {
        /// Bytes of all notes with those to be written.
        size: usize,
        /// Bytes that there is room for.
        most: usize,
    },
    /// The store of the notes could not be read or written, for this reason. Trying again later may help.
    #[error("{0}")]
    Unavailable(String),
}

/// Returns true if notes can be kept under this key: the keys that a ConfigMap may have, but for `.` and `..`, and
/// names that begin with `..`.
#[must_use]
pub fn is_key(key: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=LONGEST_KEY).contains(&key.len()) && key != "." && !key.starts_with("..") && key.bytes().all(plain)
}

/// Notes in memory: they go with the process.
#[derive(Debug, Default)]
pub struct InMemory {
    notes: Mutex<BTreeMap<String, Bytes>>,
}

impl InMemory {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Bytes>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Records for InMemory {
    async fn read(&self, key: &str) -> Result<Option<Bytes>, RecordsError> {
        Ok(self.lock().get(key).cloned())
    }

    async fn keys(&self) -> Result<BTreeSet<String>, RecordsError> {
        Ok(self.lock().keys().cloned().collect())
    }

    async fn write(&self, notes: BTreeMap<String, Option<Bytes>>) -> Result<(), RecordsError> {
        if let Some(key) = notes.keys().find(|key| !is_key(key)) {
            return Err(RecordsError::Key(key.clone()));
        }
        let mut all = self.lock();
        for (key, note) in notes {
            match note {
                Some(note) => drop(all.insert(key, note)),
                None => drop(all.remove(&key)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn notes_in_memory_pass_the_suite() {
        crate::conformance::run(Arc::new(InMemory::default())).await;
    }

    #[test]
    fn keys_are_those_of_a_config_map() {
        let long = "k".repeat(LONGEST_KEY);
        for (key, expected) in [
            ("checkpoint", true),
            ("hook.shop-web_0", true),
            (".hidden", true),
            ("", false),
            (".", false),
            ("..", false),
            ("..data", false),
            ("a/b", false),
            ("a b", false),
            ("é", false),
            (&long, true),
            (&format!("{long}k"), false),
        ] {
            assert_eq!(is_key(key), expected, "{key}");
        }
    }
}
