//! `lifeboat volume restore`.

use super::saved::{OpenVolume, SavedVolumeArgs};
use crate::commands::repo::restore::{RestoreFlags, Restored};
use anyhow::{Result, bail};
use clap::Args;
use lifeboat_mover::tree::EntryKind;
use lifeboat_terminal::flags::globals::Globals;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// `lifeboat volume restore BACKUP VOLUME [PATH] --into TARGET`.
#[derive(Debug, Args)]
pub(crate) struct VolumeRestoreArgs {
    #[command(flatten)]
    pub(crate) volume: SavedVolumeArgs,
    /// The path of a directory or file in the volume; all of it when left out
    #[arg(default_value = "", hide_default_value = true)]
    path: String,
    /// The folder of this machine into which it goes, made when it is missing; for a volume that is a block device, the file or device
    #[arg(long, value_name = "TARGET")]
    into: PathBuf,
    #[command(flatten)]
    flags: RestoreFlags,
}

impl VolumeRestoreArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let OpenVolume { source, entry, gaps, length, described, .. } = self.volume.open(&self.path, globals).await?;
        let is_single = length.is_none() && entry.kind != EntryKind::Directory;
        let target = if is_single { in_folder(&self.into, &self.path)? } else { self.into.clone() };
        let what = if self.path.is_empty() { described } else { format!("{} of {described}", self.path) };
        let restored = Restored { source: &source, entry: &entry, gaps: &gaps, length, what: &what, target: &target };
        Box::pin(self.flags.restore(restored)).await
    }
}

/// The target of a single file: under its own name in a folder, which is made where it is missing.
fn in_folder(folder: &Path, path: &str) -> Result<PathBuf> {
    let name = path.split('/').rfind(|name| !name.is_empty()).unwrap_or_default();
    if matches!(name, "" | "." | "..") || name.contains('\0') {
        bail!("{path:?} names no file that this machine can have");
    }
    if let Err(e) = std::fs::create_dir_all(folder) {
        bail!("make the folder {} for {name}: {e}; look at --into", folder.display());
    }
    let target = folder.join(name);
    // A link that came with an earlier restore would lead out of the folder.
    match std::fs::symlink_metadata(&target) {
        Ok(found) if !found.is_file() => {
            bail!("{} is there and is no regular file: remove it, or give another folder", target.display())
        }
        _ => Ok(target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_file_goes_into_the_folder_and_never_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("new");
        assert_eq!(in_folder(&target, "/a/b.txt/").unwrap(), target.join("b.txt"));
        assert!(target.is_dir());
        std::os::unix::fs::symlink("/etc/hosts", target.join("link")).unwrap();
        std::fs::write(target.join("file"), "x").unwrap();
        assert!(in_folder(&target, "a/link").unwrap_err().to_string().contains("no regular file"));
        assert_eq!(in_folder(&target, "a/file").unwrap(), target.join("file"));
        for path in ["..", "a/..", ".", "/"] {
            assert!(in_folder(&target, path).is_err(), "{path}");
        }
    }
}
