//! Packages of Python, each set in a folder of its own.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Installs packages, such as `moto==5.2.5`, into a virtual environment, once, and gives its Python. Other versions need another
/// folder.
///
/// # Errors
/// When there is no Python with pip and venv, or pip cannot install one.
pub fn with_python_packages(folder: &Path, packages: &[&str]) -> Result<PathBuf> {
    let (python, marker) = (folder.join("bin/python"), folder.join("is-whole"));
    if marker.exists() {
        return Ok(python);
    }
    let mut make = Command::new("python3");
    run(make.args(["-m", "venv", "--clear"]).arg(folder), "make a folder for Python packages")?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    run(&mut install, &format!("install Python's packages {}", packages.join(", ")))?;
    std::fs::write(&marker, "").with_context(|| format!("write {}", marker.display()))?;
    Ok(python)
}

fn run(command: &mut Command, what: &str) -> Result<()> {
    let status = command.status().with_context(|| format!("{what}: run python3, which has to have pip and venv"))?;
    if !status.success() {
        bail!("{what}: {status}");
    }
    Ok(())
}
