//! Programs of crates, each built once into the cache folder.

use crate::binaries::cache_folder;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// Version of the dashboard.
const KUBETUI: &str = "1.14.0";

/// The path of a program of a crate at this version. Cold some minutes on two cores.
///
/// # Errors
/// When cargo cannot install it.
pub fn program_of_crate(krate: &str, version: &str) -> Result<PathBuf> {
    let root = cache_folder().join("tools");
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

/// Builds a dashboard of clusters for terminals, kubetui. Cold some six minutes on two cores.
///
/// # Errors
/// When cargo cannot install it.
pub fn dashboard() -> Result<PathBuf> {
    program_of_crate("kubetui", KUBETUI)
}
