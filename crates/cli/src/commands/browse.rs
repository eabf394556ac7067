//! `lifeboat browse`: kubectl on a backup.

use crate::commands::sandbox::{self, write_kubeconfig};
use anyhow::{Context, Result};
use clap::Args;
use lifeboat_requests::archive::FromServerArgs;
use lifeboat_sandbox::{Sandbox, SandboxOptions};
use lifeboat_standalone::backup_source::{self, OpenBackup, until_interrupted};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::process::scratch::ScratchArgs;
use lifeboat_terminal::process::signals::terminated;
use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

/// `lifeboat browse BACKUP [--bucket URL] [-- COMMAND…]`.
#[derive(Debug, Args)]
pub(crate) struct BrowseArgs {
    /// The backup
    name: String,
    /// Where the backup lies: a directory, file:///directory, or s3://bucket/prefix?region=…&endpoint=…; otherwise the server is
    /// asked for it
    #[arg(long, value_name = "URL")]
    bucket: Option<String>,
    /// The namespace of the kubeconfig; otherwise that of all objects, if it is the same for all, or default
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) object_namespace: Option<String>,
    /// Where to listen; a port of 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Write the kubeconfig to this file, and leave it there; otherwise it is a temporary one, which goes at the end
    #[arg(long, value_name = "FILE")]
    write_kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    scratch: ScratchArgs,
    #[command(flatten)]
    server: FromServerArgs,
    /// A command that is run with the backup as its cluster; when it ends, so does this, with its exit code
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl BrowseArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let folder = self.scratch.folder()?;
        let terminate = terminated()?;
        let open = backup_source::backup(&self.name, self.bucket.as_deref(), &self.server, globals, folder.path());
        let opened = Box::pin(until_interrupted(open, "interrupted before the backup was open")).await;
        let OpenBackup { store, what, .. } = opened?;
        let options = SandboxOptions {
            name: self.name.clone(),
            namespace: self.object_namespace.as_deref().or(store.only_namespace()).unwrap_or("default").to_owned(),
            ..sandbox::options(self.listen)
        };
        let server = Sandbox::start_over(options, Arc::new(store)).await?;
        let kubeconfig = self.write_kubeconfig.clone().unwrap_or_else(|| folder.path().join("kubeconfig"));
        write_kubeconfig(&kubeconfig, &server.kubeconfig())?;
        let ended = if self.command.is_empty() {
            writeln!(std::io::stdout(), "export KUBECONFIG={}", quoted(&kubeconfig))?;
            let _ = writeln!(
                std::io::stderr(),
                "{what} is at https://{} until you end this with Ctrl-C; in another shell, run the line above and \
                 use kubectl",
                server.address()
            );
            terminate.await;
            Ok(ExitCode::SUCCESS)
        } else {
            run_inside(&self.command, &kubeconfig, folder.path()).await
        };
        server.shutdown().await;
        ended
    }
}

/// Runs a command whose cluster is the backup. Ctrl-C, which a terminal sends to the command too, is left to that; SIGTERM kills it.
async fn run_inside(command: &[OsString], kubeconfig: &Path, folder: &Path) -> Result<ExitCode> {
    let [program, arguments @ ..] = command else { return Ok(ExitCode::SUCCESS) };
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let mut child = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        // kubectl remembers by host and port what a cluster serves: another backup may have had this port.
        .env("KUBECACHEDIR", folder.join("cache"))
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("run {}", program.display()))?;
    let status = tokio::select! {
        status = child.wait() => status,
        _ = terminate.recv() => {
            child.start_kill().with_context(|| format!("end {}", program.display()))?;
            child.wait().await
        }
    };
    Ok(exit_code(status.with_context(|| format!("wait for {}", program.display()))?))
}

/// The exit code in the convention of shells: 128 plus the signal for a process that was ended by one.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        for (path, word) in [("/tmp/a-1/b.c", "/tmp/a-1/b.c"), ("/a b", "'/a b'"), ("/it's", r"'/it'\''s'")] {
            assert_eq!(quoted(Path::new(path)), word);
        }
    }

    #[test]
    fn a_command_that_a_signal_ends_has_the_exit_code_of_shells() {
        for (raw, code) in [(0, 0), (3 << 8, 3), (15, 143)] {
            assert_eq!(exit_code(ExitStatus::from_raw(raw)), ExitCode::from(code));
        }
    }
}
