//! A program on a terminal that can be read.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Columns and lines of the terminal.
const SIZE: [&str; 2] = ["240", "60"];

/// A program on a terminal (tmux, a server of its own). Dropping it ends both.
#[derive(Debug)]
pub struct Terminal {
    /// The folder of the socket on which the server of this terminal listens.
    folder: TempDir,
}

impl Terminal {
    /// Looks whether tmux is there.
    ///
    /// # Errors
    /// When it is not.
    pub fn ensure() -> Result<()> {
        let found = Command::new("tmux").arg("-V").output();
        match found {
            Ok(output) if output.status.success() => Ok(()),
            _ => bail!("tmux cannot be run: install the package tmux"),
        }
    }

    /// Starts a program; what it leaves lies in `home`.
    ///
    /// # Errors
    /// When there is no tmux, or it does not start.
    pub fn start(program: &Path, args: &[&str], home: &Path) -> Result<Self> {
        Self::ensure()?;
        let terminal = Self { folder: tempfile::Builder::new().prefix("lifeboat-terminal-").tempdir()? };
        let [columns, lines] = SIZE;
        let mut start = terminal.tmux();
        // What a program that has ended had to say stays there.
        start.args(["start-server", ";", "set-option", "-g", "remain-on-exit", "on", ";"]);
        start.args(["new-session", "-d", "-s", "one", "-x", columns, "-y", lines]);
        start.arg(program).args(args).current_dir(home).env("HOME", home).env("LC_ALL", "C.UTF-8");
        done(&mut start, "start a terminal")?;
        Ok(terminal)
    }

    /// The present screen, line by line.
    ///
    /// # Errors
    /// When tmux cannot be run.
    pub fn shown(&self) -> Result<String> {
        let output = done(self.tmux().args(["capture-pane", "-p", "-t", "one"]), "read a terminal")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn tmux(&self) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.folder.path().join("socket")).args(["-f", "/dev/null"]);
        command.env_remove("TMUX").stdin(Stdio::null());
        command
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux().arg("kill-server").output();
    }
}

/// Runs a program to its end.
fn done(command: &mut Command, what: &str) -> Result<Output> {
    let output = command.output().context("run tmux")?;
    if !output.status.success() {
        bail!("{what}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output)
}
