//! Time, work of the processors and peak memory of one command.
//!
//! The kernel keeps the peak of a process until it is waited for, and hands it to the parent as that of the largest
//! child. What a child inherits in the moment between fork and exec counts as well. So each command is started by a
//! fresh, small process that has no other children: this program again, as `xtask measured`.

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// A command that has ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MeasuredRun {
    /// From its start to its end.
    pub(crate) seconds: f64,
    /// Of the processors, in the program and for it in the kernel.
    pub(crate) user_seconds: f64,
    pub(crate) system_seconds: f64,
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
        let mut command = Command::new(program);
        command.args(args).env("XDG_STATE_HOME", state);
        Self::of_command(&command)
    }

    /// Runs a command with its arguments and the variables that were set for it.
    pub(crate) fn of_command(command: &Command) -> Result<Self> {
        let program = command.get_program();
        let mut measured = Command::new(std::env::current_exe()?);
        measured.arg("measured").arg(program).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => measured.env(name, value),
                None => measured.env_remove(name),
            };
        }
        measured.stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = measured.output().context("run xtask measured")?;
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
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds_of = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let run = MeasuredRun {
        seconds,
        user_seconds: seconds_of(usage.user_time()),
        system_seconds: seconds_of(usage.system_time()),
        peak_kib: usage.max_rss(),
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    };
    println!("{}", serde_json::to_string(&run)?);
    Ok(())
}
