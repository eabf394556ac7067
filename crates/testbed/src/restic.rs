//! Builds and runs restic, whose repositories are read.

use crate::built::{Races, build_with_flags};
use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use tempfile::TempDir;

/// The versions that tests run, each pinned by the module below `go/restic` that is named after it.
pub const RESTIC_VERSIONS: [&str; 2] = ["v0.19.1", "v0.14.0"];

/// Builds restic of one of [`RESTIC_VERSIONS`].
fn restic(version: &str) -> Result<PathBuf> {
    /// Tests of one process wait for one build.
    static BUILDING: Mutex<()> = Mutex::new(());
    ensure!(RESTIC_VERSIONS.contains(&version), "there is no module for restic {version}");
    let _building = BUILDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // One package at a time, because whoever asks for it may be compiling beside it.
    let (module, package) = (format!("restic/{version}"), "github.com/restic/restic/cmd/restic");
    build_with_flags(&module, package, Races::Undetected, &["-p", "1"])
}

/// A user of restic with a cache folder of his own, which goes with him.
#[derive(Debug)]
pub struct Restic {
    program: PathBuf,
    home: TempDir,
    repository: PathBuf,
    password: String,
}

impl Restic {
    /// Builds the version, and makes a user of the repository in a directory with this password.
    ///
    /// # Errors
    /// When restic cannot be built, or a folder cannot be made.
    pub fn new(version: &str, repository: &Path, password: &str) -> Result<Self> {
        let home = tempfile::tempdir().context("make a home folder for restic")?;
        let (repository, password) = (repository.to_owned(), password.to_owned());
        Ok(Self { program: restic(version)?, home, repository, password })
    }

    /// Runs a command in a folder, and gives what it prints on standard output.
    ///
    /// # Errors
    /// When it does not end with 0: what it prints.
    pub fn run(&self, folder: &Path, args: &[impl AsRef<OsStr>]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(folder).env_clear().env("HOME", self.home.path());
        command.env("RESTIC_CACHE_DIR", self.home.path().join("cache"));
        command.env("RESTIC_REPOSITORY", &self.repository).env("RESTIC_PASSWORD", &self.password);
        let output = command.output().context("run restic")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if !output.status.success() {
            let args: Vec<_> = args.iter().map(AsRef::as_ref).collect();
            bail!("restic {args:?}: {}: {}{}", output.status, text(&output.stdout), text(&output.stderr));
        }
        Ok(text(&output.stdout))
    }
}
