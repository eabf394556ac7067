//! The page cache, filled or emptied before a run.

use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise, syncfs};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The state of the page cache when a program starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    /// Everything that it reads is in memory.
    Warm,
    /// Nothing of the bytes that it reads is. Names and attributes of files may be.
    Cold,
}

impl Cache {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Cold => "cold",
        }
    }

    /// Brings the files below a path into this state.
    pub(crate) fn prepare(self, path: &Path) -> Result<()> {
        sync(path)?;
        let mut buffer = vec![0; 1 << 20];
        for path in files(path)? {
            let mut file = File::open(&path).with_context(|| format!("open {}", path.display()))?;
            match self {
                Self::Cold => fadvise(&file, 0, None, Advice::DontNeed).context("empty the page cache")?,
                Self::Warm => while file.read(&mut buffer)? > 0 {},
            }
        }
        Ok(())
    }
}

/// Waits until the file system of a path has everything on disk: only then its pages can go, and no run waits for
/// another.
pub(crate) fn sync(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    syncfs(&file).with_context(|| format!("sync {}", path.display()))
}

/// The files below a path, or the file that it is.
pub(crate) fn files(path: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![path.to_owned()]);
    while let Some(folder) = folders.pop() {
        if folder.is_file() {
            files.push(folder);
            continue;
        }
        for entry in std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    Ok(files)
}
