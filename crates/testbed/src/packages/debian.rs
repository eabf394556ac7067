//! Packages of Debian.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// A package.
#[derive(Clone, Copy, Debug)]
pub struct DebianPackage {
    /// Its name for `apt-get`.
    pub name: &'static str,
    /// The path of a program in it, by which it is seen to be there.
    pub program: &'static str,
}

/// Installs the packages that are missing, which takes root.
///
/// # Errors
/// When a package cannot be installed, or does not bring its program.
pub fn install_debian_packages(packages: &[DebianPackage]) -> Result<()> {
    let is_missing = |package: &&DebianPackage| !Path::new(package.program).exists();
    let missing: Vec<&str> = packages.iter().filter(is_missing).map(|package| package.name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    apt(&["update", "-q"])
        .and_then(|()| apt(&[&["install", "-y", "--no-install-recommends"], &missing[..]].concat()))
        .with_context(|| format!("install {}, as root of a Debian", missing.join(", ")))?;
    let still: Vec<&str> = packages.iter().filter(is_missing).map(|package| package.program).collect();
    if !still.is_empty() {
        bail!("{} are missing though their packages are installed", still.join(", "));
    }
    Ok(())
}

fn apt(args: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command.args(args).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
    let output = command.output().with_context(|| format!("run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
