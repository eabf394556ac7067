//! Time and peak memory of one command.
//!
//! The kernel keeps the peak of a process until it is waited for, and hands it to the parent as that of the largest
//! child. What a child inherits in the moment between fork and exec counts as well. So each command is started by a
//! fresh, small process that has no other children: this program again, as `xtask measured`.

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// A command that has ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MeasuredRun {
    /// From its start to its end.
    pub(crate) seconds: f64,
    peak_kib: i64,
    /// None when a signal killed it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl MeasuredRun {
    /// The most memory it held.
    pub(crate) fn peak_mib(&self) -> f64 {
        self.peak_kib as f64 / 1024.0
    }

    /// Runs a command; `XDG_STATE_HOME` is `state`.
    pub(crate) fn of(program: &Path, args: &[String], state: &Path) -> Result<Self> {
        let output = Command::new(std::env::current_exe()?)
            .arg("measured")
            .arg(program)
            .args(args)
            .env("XDG_STATE_HOME", state)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .context("run xtask measured")?;
        serde_json::from_slice(&output.stdout).with_context(|| format!("measuring {} failed", program.display()))
    }
}

/// `xtask measured PROGRAM ARGS`: prints the [`MeasuredRun`] as JSON.
pub(crate) fn measure(args: &[String]) -> Result<()> {
    let (program, args) = args.split_first().context("xtask measured: which program?")?;
    let began = Instant::now();
    let output = Command::new(program).args(args).output().with_context(|| format!("run {program}"))?;
    let seconds = began.elapsed().as_secs_f64();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let run = MeasuredRun {
        seconds,
        peak_kib: getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss(),
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    };
    println!("{}", serde_json::to_string(&run)?);
    Ok(())
}
