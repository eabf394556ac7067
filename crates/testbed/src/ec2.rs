//! An EC2 server.

use crate::binaries::cache_folder;
use crate::packages::with_python_packages;
use crate::process::{Daemon, free_port, wait_for_port};
use anyhow::{Context, Result};
use std::path::PathBuf;
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
        with_python_packages(&folder, &[&format!("moto[ec2]=={MOTO}"), "flask", "flask-cors"])
            .context("install an EC2 server")
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
        wait_for_port("EC2", (std::net::Ipv4Addr::LOCALHOST, port), &daemon)?;
        Ok(Self { _daemon: daemon, _folder: folder, endpoint: format!("http://127.0.0.1:{port}") })
    }

    /// Its URL.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }
}
