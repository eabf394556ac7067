//! The notes of a local operation, in a folder beside its state.

use super::files::{read, remove, replace};
use anyhow::Context;
use async_trait::async_trait;
use bytes::Bytes;
use lifeboat_operation::{Records, RecordsError, is_key};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The notes of an operation, each a file in a folder of its own.
#[derive(Debug)]
pub struct RecordFolder {
    path: PathBuf,
    /// Held while files are replaced: what one write has half done is not another's.
    writing: Arc<tokio::sync::Mutex<()>>,
}

impl RecordFolder {
    /// The notes in this folder, which is made with the first of them.
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path, writing: Arc::default() }
    }

    /// Returns true if nothing was noted yet.
    pub(super) fn is_empty(&self) -> bool {
        match std::fs::read_dir(&self.path) {
            Ok(mut entries) => entries.next().is_none(),
            Err(e) => e.kind() == ErrorKind::NotFound,
        }
    }

    /// Removes all notes.
    pub(super) fn remove(&self) -> anyhow::Result<()> {
        match std::fs::remove_dir_all(&self.path) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                Err(e).with_context(|| format!("remove {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn notes_in_a_folder_pass_the_suite() {
        let folder = tempfile::tempdir().unwrap();
        let records = RecordFolder::at(folder.path().join("a.records"));
        lifeboat_operation::conformance::run(Arc::new(records)).await;
    }
}
