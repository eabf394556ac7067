//! Installs the tools of the checks, once, into the cache folder.

use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// The path of a program of a crate at this version.
pub(crate) fn ensure(krate: &str, version: &str) -> Result<PathBuf> {
    let root = lifeboat_testbed::cache_folder().join("tools");
    let program = root.join("bin").join(krate.trim_end_matches("-cli"));
    let stamp = root.join(format!("{krate}-{version}"));
    if program.exists() && stamp.exists() {
        return Ok(program);
    }
    let mut install = Command::new("cargo");
    install.args(["install", "--locked", "--quiet", "--root"]).arg(&root).arg(format!("{krate}@{version}"));
    let status = install.status().context("run cargo install")?;
    if !status.success() {
        bail!("installing {krate} {version} failed: {status}");
    }
    std::fs::write(&stamp, "").with_context(|| format!("write {}", stamp.display()))?;
    Ok(program)
}
