//! Other work for the machine: half of its cores are busy, by stress-ng or by processes of our own.

use anyhow::{Context, Result};
use std::fmt;
use std::hint::black_box;
use std::num::NonZero;
use std::process::{Child, Command, Stdio};

const STRESS_NG: &str = "stress-ng";
/// The time after which stress-ng ends by itself, so that nothing stays busy when we are killed.
const LONGEST_ROUND: &str = "6h";
/// The hidden task of a process that keeps a core busy.
pub(crate) const BURN: &str = "burn-inside";

/// Processes that keep cores busy, until this is dropped.
pub(super) struct Load {
    cores: usize,
    program: &'static str,
    children: Vec<Child>,
}

impl Load {
    pub(super) fn start() -> Result<Self> {
        let cores = (std::thread::available_parallelism().map_or(1, NonZero::get) / 2).max(1);
        let is_installed =
            Command::new(STRESS_NG).arg("--version").output().is_ok_and(|output| output.status.success());
        let program = if is_installed { STRESS_NG } else { "own processes" };
        let mut load = Self { cores, program, children: Vec::new() };
        if is_installed {
            let mut command = Command::new(STRESS_NG);
            command.args(["--quiet", "--timeout", LONGEST_ROUND, "--cpu", &cores.to_string()]);
            load.spawn(command)?;
        } else {
            let own = std::env::current_exe().context("find the own program")?;
            for _ in 0..cores {
                let mut command = Command::new(&own);
                command.arg(BURN);
                load.spawn(command)?;
            }
        }
        Ok(load)
    }

    fn spawn(&mut self, mut command: Command) -> Result<()> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let program = command.get_program().display().to_string();
        self.children.push(command.spawn().with_context(|| format!("run {program}"))?);
        Ok(())
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} busy cores by {}", self.cores, self.program)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.children {
            // The processes of stress-ng end with the first one, as ours do with us.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Computes until the parent process is gone.
pub(crate) fn burn() {
    let parent = std::os::unix::process::parent_id();
    let mut number = 1_u64;
    while std::os::unix::process::parent_id() == parent {
        for _ in 0..10_000_000 {
            number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}
