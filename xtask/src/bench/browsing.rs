//! `lifeboat browse` as a process.

use super::bed::{Pass, floor, pause_for, peak_mib};
use super::programs::Programs;
use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lifeboat_testbed::Kubectl;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time limit until it serves.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks whether it serves: what is measured takes some hundred milliseconds.
const LOOK: Duration = Duration::from_millis(2);

/// A backup that is served; it ends when dropped.
pub(crate) struct Browsing<'a> {
    programs: &'a Programs,
    process: Child,
    /// Seconds from its start until it served.
    pub(crate) ready: f64,
    /// For its kubeconfig, and for what kubectl remembers.
    folder: TempDir,
}

impl<'a> Browsing<'a> {
    /// Serves a backup of a bucket in a directory, and waits until it does.
    pub(crate) fn start(programs: &'a Programs, bucket: &Path, backup: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let log = std::fs::File::create(folder.path().join("log")).context("make a log")?;
        let began = Instant::now();
        let process = Command::new(&programs.lifeboat)
            .args(["browse", backup, "--bucket"])
            .arg(bucket)
            .arg("--write-kubeconfig")
            .arg(folder.path().join("kubeconfig"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("run lifeboat browse")?;
        let mut browsing = Self { programs, process, ready: 0.0, folder };
        while !browsing.kubeconfig().exists() {
            let ended = browsing.process.try_wait()?;
            if ended.is_some() || began.elapsed() > PATIENCE {
                let log = std::fs::read_to_string(browsing.folder.path().join("log")).unwrap_or_default();
                bail!("lifeboat browse {backup} does not serve, {ended:?}: {}", log.trim());
            }
            pause_for(LOOK);
        }
        browsing.ready = began.elapsed().as_secs_f64();
        Ok(browsing)
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    pub(crate) fn kubectl(&self) -> Result<Kubectl> {
        Kubectl::new(&self.kubeconfig())
    }

    /// The first page of a list, as a plain client reads it.
    pub(crate) fn floor_page(&self, path: &str, objects: u32) -> Result<Pass> {
        let kubectl = self.kubectl()?;
        let field =
            |path: &str| kubectl.try_run(&["config", "view", "--raw", &format!("--output=jsonpath={{{path}}}")]);
        let server = field(".clusters[0].cluster.server")?;
        let authority = STANDARD.decode(field(".clusters[0].cluster.certificate-authority-data")?)?;
        let token = field(".users[0].user.token")?;
        let file = self.folder.path().join("ca.crt");
        std::fs::write(&file, authority).with_context(|| format!("write {}", file.display()))?;
        let limit = objects.to_string();
        let args = ["list", "--limit", &limit, "--pages", "1", path].map(str::to_owned);
        floor(self.programs, (server.trim_start_matches("https://"), &token, &file), &args)
    }

    /// The most memory it has held, in MiB.
    pub(crate) fn peak_mib(&self) -> Result<f64> {
        peak_mib(&self.process)
    }
}

impl Drop for Browsing<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
