//! Builds and runs kopia, which other writers and readers of its repositories are compared with.

use crate::built::{Races, build_with_flags};
use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use tempfile::TempDir;

/// The versions that tests run, each pinned by the module below `go/kopia` that is named after it.
pub const KOPIA_VERSIONS: [&str; 2] = ["v0.23.1", "v0.22.3"];

/// Older versions, which tests that take long run; each pinned like [`KOPIA_VERSIONS`].
pub const OLD_KOPIA_VERSIONS: [&str; 4] = ["v0.10.7", "v0.14.1", "v0.19.0", "v0.21.1"];

/// Builds kopia of one of [`KOPIA_VERSIONS`] or [`OLD_KOPIA_VERSIONS`]. The first build takes about four minutes on two cores, plus the
/// download of its modules.
///
/// # Errors
/// When the version is none of them, there is no Go toolchain, or the build fails.
pub fn build_kopia(version: &str) -> Result<PathBuf> {
    /// Tests of one process wait for one build.
    static BUILDING: Mutex<()> = Mutex::new(());
    let is_pinned = KOPIA_VERSIONS.iter().chain(&OLD_KOPIA_VERSIONS).any(|pinned| *pinned == version);
    ensure!(is_pinned, "there is no module for kopia {version}");
    let _building = BUILDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // Without its web interface, and one package at a time, because whoever asks for it may be compiling beside it.
    let flags = ["-tags", "nohtmlui", "-p", "1"];
    build_with_flags(&format!("kopia/{version}"), "github.com/kopia/kopia", Races::Undetected, &flags)
}

/// A user of kopia with a home folder of his own, which goes with him.
#[derive(Debug)]
pub struct Kopia {
    program: PathBuf,
    home: TempDir,
    password: String,
}

impl Kopia {
    /// Builds the version, and makes a user with this password.
    ///
    /// # Errors
    /// When kopia cannot be built, or a folder cannot be made.
    pub fn new(version: &str, password: &str) -> Result<Self> {
        let home = tempfile::tempdir().context("make a home folder for kopia")?;
        Ok(Self { program: build_kopia(version)?, home, password: password.to_owned() })
    }

    /// Makes a repository in a directory, and connects to it, as `user@host`.
    ///
    /// # Errors
    /// When kopia refuses, with what it says.
    pub fn create(&self, repository: &Path, more: &[&str]) -> Result<()> {
        self.with_repository("create", repository, more)
    }

    /// Connects to a repository in a directory, as `user@host`.
    ///
    /// # Errors
    /// When kopia refuses, with what it says.
    pub fn connect(&self, repository: &Path) -> Result<()> {
        self.with_repository("connect", repository, &[])
    }

    fn with_repository(&self, action: &str, repository: &Path, more: &[&str]) -> Result<()> {
        let mut args: Vec<&OsStr> = ["repository", action, "filesystem", "--path"].map(OsStr::new).to_vec();
        args.push(repository.as_os_str());
        args.extend(["--override-username=user", "--override-hostname=host"].map(OsStr::new));
        args.extend(more.iter().map(OsStr::new));
        self.run(&args).map(drop)
    }

    /// Runs a command, and gives what it prints on standard output.
    ///
    /// # Errors
    /// When it does not end with 0: what it prints on standard error.
    pub fn run(&self, args: &[impl AsRef<OsStr>]) -> Result<String> {
        let output = self.output(args)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if !output.status.success() {
            let args: Vec<_> = args.iter().map(AsRef::as_ref).collect();
            bail!("kopia {args:?}: {}: {}{}", output.status, text(&output.stdout), text(&output.stderr));
        }
        Ok(text(&output.stdout))
    }

    /// Runs a command to its end, whatever that is.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn output(&self, args: &[impl AsRef<OsStr>]) -> Result<Output> {
        self.command(args).output().context("run kopia")
    }

    /// A command that is not started yet.
    #[must_use]
    pub fn command(&self, args: &[impl AsRef<OsStr>]) -> Command {
        let home = self.home.path();
        let mut command = Command::new(&self.program);
        command.args(args).env_clear().env("HOME", home).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("KOPIA_CONFIG_PATH", home.join("repository.config"));
        command.env("KOPIA_CACHE_DIRECTORY", home.join("cache"));
        command.env("KOPIA_LOG_DIR", home.join("logs"));
        command.env("KOPIA_PERSIST_CREDENTIALS_ON_CONNECT", "false");
        command.env("KOPIA_CHECK_FOR_UPDATES", "false");
        command.env("KOPIA_PASSWORD", &self.password);
        command
    }
}
