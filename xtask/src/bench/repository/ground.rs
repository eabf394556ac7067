//! The temporary folder with all that rows need, and the programs that work in it.

use crate::bench::compared::cache::sync;
use crate::bench::compared::data::{Average, SmallFiles, make_file};
use crate::bench::compared::sides::Cost;
use crate::bench::programs::Programs;
use anyhow::{Context, Result, ensure};
use lifeboat_testbed::{KOPIA_VERSIONS, Kopia};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The bytes of the large file, and the number of files of the tree.
const FILE: u64 = 4 << 30;
const TREE: u64 = 200_000;
const PASSWORD: &str = "static-passw0rd";

/// The folder and the programs. All of it goes when this is dropped.
pub(super) struct Ground {
    pub(super) programs: Programs,
    folder: TempDir,
    pub(super) scale: u64,
    pub(super) rounds: usize,
}

/// Something that is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceData {
    /// A folder with one large file.
    File,
    /// A tree of small files.
    Tree,
}

impl SourceData {
    fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Tree => "tree",
        }
    }
}

impl Ground {
    pub(super) fn new(programs: Programs, scale: u64, rounds: usize) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("lifeboat-bench-").tempdir().context("make a temporary folder")?;
        std::fs::write(folder.path().join("password"), PASSWORD)?;
        Ok(Self { programs, folder, scale, rounds })
    }

    /// A size of the benchmark, divided as asked for.
    pub(super) fn scaled(&self, size: u64) -> u64 {
        (size / self.scale).max(1)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A path at which nothing is.
    pub(super) fn fresh(&self, name: &str) -> Result<PathBuf> {
        let path = self.path(name);
        remove(&path)?;
        Ok(path)
    }

    /// Waits until what was written before is on disk.
    pub(super) fn settle(&self) -> Result<()> {
        sync(self.folder.path())
    }

    /// The folder of what is saved, made when it is wanted for the first time.
    pub(super) fn data(&self, data: SourceData) -> Result<PathBuf> {
        let path = self.path(data.word());
        if !path.exists() {
            std::fs::create_dir(&path)?;
            match data {
                SourceData::File => make_file(&path.join("data"), self.bytes(data))?,
                SourceData::Tree => drop(SmallFiles::new()?.make(&path, self.files(), Average::Mixed)?),
            }
        }
        Ok(path)
    }

    /// The number of files of the tree.
    pub(super) fn files(&self) -> u64 {
        self.scaled(TREE)
    }

    /// The bytes of what is saved.
    pub(super) fn bytes(&self, data: SourceData) -> u64 {
        match data {
            SourceData::File => self.scaled(FILE),
            SourceData::Tree => self.files() * 4352,
        }
    }

    /// A repository that kopia wrote, with one snapshot.
    pub(super) fn repository(&self, data: SourceData) -> Result<PathBuf> {
        let path = self.path(&format!("repository-of-{}", data.word()));
        if !path.exists() {
            let source = self.data(data)?;
            let kopia = self.kopia()?;
            kopia.create(&path, &[])?;
            kopia.run(&kopia_snapshot(&source))?;
        }
        Ok(path)
    }

    /// A user of kopia without a cache.
    pub(super) fn kopia(&self) -> Result<Kopia> {
        Kopia::new(KOPIA_VERSIONS[0], PASSWORD)
    }

    /// `lifeboat repo` with these arguments, on a repository.
    pub(super) fn lifeboat(&self, repository: &str, args: &[impl AsRef<std::ffi::OsStr>]) -> Command {
        let mut command = Command::new(&self.programs.lifeboat);
        command.arg("repo").args(args).args(["--repo", repository, "--password-file"]).arg(self.path("password"));
        command.env("XDG_STATE_HOME", self.path("state"));
        command
    }

    /// Runs `lifeboat repo` without measuring it.
    pub(super) fn run_lifeboat(&self, repository: &Path, args: &[&str]) -> Result<String> {
        let output = self.lifeboat(&repository.to_string_lossy(), args).output().context("run lifeboat")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "lifeboat repo {args:?}: {}: {}", output.status, stderr.trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// `sync --file-system` of a folder: how long it takes until what another program has written is on disk.
    pub(super) fn synced(&self, folder: &Path) -> Result<Cost> {
        let mut command = Command::new("sync");
        command.arg("--file-system").arg(folder);
        Ok(Cost::of(&command)?.0)
    }
}

/// Arguments by which kopia takes a snapshot and does nothing else.
pub(super) fn kopia_snapshot(source: &Path) -> Vec<OsString> {
    let mut args = ["snapshot", "create", "--no-progress", "--no-auto-maintenance"].map(OsString::from).to_vec();
    args.push(source.into());
    args
}

/// Arguments by which kopia restores a snapshot.
pub(super) fn kopia_restore(snapshot: &str, target: &Path) -> Vec<OsString> {
    let mut args = ["restore", "--no-progress", "--no-auto-maintenance", snapshot].map(OsString::from).to_vec();
    args.push(target.into());
    args
}

/// The IDs of kopia's snapshots, the oldest first.
pub(super) fn kopia_snapshots(kopia: &Kopia) -> Result<Vec<String>> {
    let listed = kopia.run(&["snapshot", "list", "--all", "--json", "--max-results=1000", "--incomplete"])?;
    let listed: Vec<serde_json::Value> = serde_json::from_str(&listed).context("what kopia prints")?;
    let mut found: Vec<(String, String)> = Vec::new();
    for snapshot in &listed {
        let text =
            |key: &str| snapshot[key].as_str().map(str::to_owned).with_context(|| format!("{key} of a snapshot"));
        found.push((text("startTime")?, text("id")?));
    }
    found.sort();
    Ok(found.into_iter().map(|(_, id)| id).collect())
}

/// Removes a file or folder, when it is there.
pub(super) fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.with_context(|| format!("remove {}", path.display())),
    }
}
