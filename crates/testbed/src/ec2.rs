//! An EC2 server.

use crate::binaries::cache_folder;
use crate::process::{Daemon, free_port, wait_for_port};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// Version of the server.
const MOTO: &str = "5.2.5";

/// A running server of EC2's API (moto), which checks no signatures. Dropping it kills it, and all is forgotten.
#[derive(Debug)]
pub struct Ec2Server {
    _daemon: Daemon,
    _folder: TempDir,
    endpoint: String,
}

impl Ec2Server {
    /// Installs what it needs, once.
    ///
    /// # Errors
    /// When there is no Python, or pip cannot install it.
    pub fn ensure() -> Result<PathBuf> {
        let folder = cache_folder().join("testbed").join(format!("moto-{MOTO}"));
        let (python, marker) = (folder.join("bin/python"), folder.join("is-whole"));
        if marker.exists() {
            return Ok(python);
        }
        let mut make = Command::new("python3");
        run(make.args(["-m", "venv", "--clear"]).arg(&folder), "make a folder for Python packages")?;
        let mut install = Command::new(&python);
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        run(install.args([&format!("moto[ec2]=={MOTO}"), "flask", "flask-cors"]), "install an EC2 server")?;
        std::fs::write(&marker, "").with_context(|| format!("write {}", marker.display()))?;
        Ok(python)
    }

    /// Starts one on a free port of the loopback interface.
    ///
    /// # Errors
    /// When it cannot be installed, or does not start within a minute; the message holds the end of its log.
    pub fn start() -> Result<Self> {
        let python = Self::ensure()?;
        let folder = tempfile::Builder::new().prefix("lifeboat-ec2-").tempdir()?;
        let port = free_port()?;
        let args = ["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()].map(str::to_owned);
        let daemon = Daemon::start(&python, &args, &folder.path().join("ec2.log"))?;
        wait_for_port("EC2", port, &daemon)?;
        Ok(Self { _daemon: daemon, _folder: folder, endpoint: format!("http://127.0.0.1:{port}") })
    }

    /// Its URL.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }
}

fn run(command: &mut Command, what: &str) -> Result<()> {
    let status = command.status().with_context(|| format!("{what}: run python3, which has to have pip and venv"))?;
    if !status.success() {
        bail!("{what}: {status}");
    }
    Ok(())
}
