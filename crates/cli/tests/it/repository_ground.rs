//! A folder with a kopia repository and its password, and `lifeboat repo` on it.

use crate::support::{Run, run};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A folder with a repository, and its password in a file.
pub(crate) struct RepositoryGround {
    pub(crate) folder: TempDir,
    /// The name of the repository in the folder.
    repository: String,
}

impl RepositoryGround {
    /// A folder with this text as the file of the password; the repository comes into it under this name.
    pub(crate) fn new(repository: &str, password: &str) -> Self {
        let ground = Self { folder: tempfile::tempdir().expect("a folder"), repository: repository.to_owned() };
        std::fs::write(ground.path("password"), password).expect("write");
        ground
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `lifeboat repo ARGS` on the repository.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lifeboat"));
        command.arg("repo").args(args).arg("--repo").arg(self.path(&self.repository));
        command.arg("--password-file").arg(self.path("password")).env("KUBECONFIG", self.path("none"));
        command
    }

    pub(crate) fn repo(&self, args: &[&str]) -> Run {
        run(&mut self.command(args))
    }

    /// The output of a command that has to succeed.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let run = self.repo(args);
        assert_eq!(run.code, 0, "{args:?}: {run:?}");
        run.out
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[args, &["-o", "json"]].concat())).expect("JSON")
    }
}
