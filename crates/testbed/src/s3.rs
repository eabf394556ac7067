//! An S3 server.

use crate::Binaries;
use crate::certificates::Certificates;
use crate::process::{Daemon, free_port, wait_for_port};
use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use tempfile::TempDir;

/// A running S3 server (versitygw) that checks signatures. Dropping it kills it and removes its data.
///
/// It keeps objects as files with extended attributes below the folder for temporary files.
#[derive(Debug)]
pub struct S3Server {
    // Killed before its folder goes.
    _daemon: Daemon,
    folder: TempDir,
    endpoint: String,
    authority: Option<String>,
}

const ACCESS_KEY: &str = "testbed";
const SECRET_KEY: &str = "testbed-secret";
const REGION: &str = "us-east-1";

impl S3Server {
    /// Starts one that speaks plain HTTP on a free port of the loopback interface, without buckets.
    ///
    /// # Errors
    /// When it does not start within a minute; the message holds the end of its log.
    pub fn start() -> Result<Self> {
        Self::launch(Ipv4Addr::LOCALHOST, false)
    }

    /// Starts one as [`Self::start`], on the address of the node, where pods reach it too.
    ///
    /// # Errors
    /// As [`Self::start`]; when no node runs here.
    pub fn start_on_node() -> Result<Self> {
        Self::launch(crate::node::ADDRESS, false)
    }

    /// Starts one that speaks TLS with a certificate of its own [authority](Self::authority).
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_tls() -> Result<Self> {
        Self::launch(Ipv4Addr::LOCALHOST, true)
    }

    fn launch(host: Ipv4Addr, tls: bool) -> Result<Self> {
        let binaries = Binaries::ensure()?;
        let folder = tempfile::Builder::new().prefix("lifeboat-s3-").tempdir()?;
        let at = |name: &str| folder.path().join(name).display().to_string();
        for name in ["buckets", "versions"] {
            std::fs::create_dir(at(name)).with_context(|| format!("make {}", at(name)))?;
        }
        let port = free_port()?;
        let address = format!("{host}:{port}");
        let mut args: Vec<String> =
            ["--access", ACCESS_KEY, "--secret", SECRET_KEY, "--region", REGION, "--port", &address, "--quiet"]
                .map(str::to_owned)
                .to_vec();
        let mut authority = None;
        if tls {
            let certificates = Certificates::for_loopback()?;
            std::fs::write(at("server.crt"), &certificates.certificate)?;
            std::fs::write(at("server.key"), &certificates.key)?;
            args.extend(["--cert".to_owned(), at("server.crt"), "--key".to_owned(), at("server.key")]);
            authority = Some(certificates.authority);
        }
        args.extend(["posix".to_owned(), "--versioning-dir".to_owned(), at("versions"), at("buckets")]);
        let daemon = Daemon::start(&binaries.path("versitygw"), &args, &folder.path().join("s3.log"))?;
        wait_for_port("S3", (host, port), &daemon)?;
        let scheme = if tls { "https" } else { "http" };
        Ok(Self { _daemon: daemon, folder, endpoint: format!("{scheme}://{address}"), authority })
    }

    /// Its URL.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The access key of the one user, with every permission.
    #[must_use]
    pub fn access_key(&self) -> &str {
        ACCESS_KEY
    }

    /// The secret key that belongs to it.
    #[must_use]
    pub fn secret_key(&self) -> &str {
        SECRET_KEY
    }

    /// The region that requests must be signed for.
    #[must_use]
    pub fn region(&self) -> &str {
        REGION
    }

    /// The certificate authority, PEM; none for plain HTTP.
    #[must_use]
    pub fn authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }

    /// Makes a bucket.
    ///
    /// # Errors
    /// When there is one of this name.
    pub fn make_bucket(&self, name: &str) -> Result<()> {
        std::fs::create_dir(self.folder.path().join("buckets").join(name))
            .with_context(|| format!("make the bucket {name}"))
    }

    /// The file that holds an object; there is none when there is no such object.
    #[must_use]
    pub fn file(&self, bucket: &str, key: &str) -> PathBuf {
        self.folder.path().join("buckets").join(bucket).join(key)
    }

    /// The number of uploads of this key that were begun and neither completed nor aborted.
    ///
    /// # Errors
    /// When the server's folder cannot be read.
    pub fn open_uploads(&self, bucket: &str, key: &str) -> Result<usize> {
        let name = hex::encode(Sha256::digest(key));
        let folder = self.file(bucket, &format!(".sgwtmp/multipart/{name}"));
        match std::fs::read_dir(&folder) {
            Ok(uploads) => Ok(uploads.count()),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(0),
            Err(e) => Err(e).with_context(|| format!("read {}", folder.display())),
        }
    }
}
