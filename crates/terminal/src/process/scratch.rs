//! Temporary folders of a command: they are removed when it ends, also when a signal ends it at once.

use anyhow::{Context, Result};
use clap::Args;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// Where copies of archives may lie.
#[derive(Debug, Args)]
pub struct ScratchArgs {
    /// A folder for the temporary copy of an archive that the server sends or that has no index
    #[arg(long, value_name = "DIRECTORY")]
    pub scratch: Option<PathBuf>,
}

impl ScratchArgs {
    /// A folder for what goes at the end, for its owner alone.
    pub fn folder(&self) -> Result<ScratchFolder> {
        let place = self.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let folder = ScratchFolder::within(&place, &FOLDERS);
        folder.with_context(|| format!("make a temporary folder in {}: look at --scratch", place.display()))
    }
}

/// Ends the process, without waiting for what is under way. Nothing stays in the scratch folders.
pub fn end_at_once(code: i32) -> ! {
    FOLDERS.remove_all();
    std::process::exit(code)
}

/// The folders of this process.
static FOLDERS: Folders = Folders(Mutex::new(BTreeSet::new()));

/// Folders that are there.
struct Folders(Mutex<BTreeSet<PathBuf>>);

impl Folders {
    /// Removes them with their contents. A folder that cannot be removed stays: nobody is left who could do more about
    /// it.
    fn remove_all(&self) {
        for folder in std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)) {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// A temporary folder. It is removed when this is dropped, and by [`end_at_once`].
pub struct ScratchFolder {
    folder: TempDir,
    among: &'static Folders,
}

impl ScratchFolder {
    fn within(place: &Path, among: &'static Folders) -> std::io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("lifeboat-").tempdir_in(place)?;
        among.0.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.path().to_owned());
        Ok(Self { folder, among })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        self.among.0.lock().unwrap_or_else(PoisonError::into_inner).remove(self.folder.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_still_there_at_a_sudden_end_is_removed() {
        static OWN: Folders = Folders(Mutex::new(BTreeSet::new()));
        let place = tempfile::tempdir().unwrap();
        let made = || ScratchFolder::within(place.path(), &OWN).unwrap();
        let there = || std::fs::read_dir(place.path()).unwrap().count();
        let (ended, running, other) = (made(), made(), made());
        drop(ended);
        std::fs::create_dir(running.path().join("backups")).unwrap();
        std::fs::write(running.path().join("backups/b.tar.gz"), "secrets").unwrap();
        assert_eq!((there(), OWN.0.lock().unwrap().len()), (2, 2));
        OWN.remove_all();
        assert_eq!((there(), OWN.0.lock().unwrap().len()), (0, 0));
        drop((running, other));
    }
}
