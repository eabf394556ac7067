//! The programs that are measured, as users get them: release builds.

use crate::edges::target_folder;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

pub(crate) struct Programs {
    /// Cargo's target folder.
    pub(crate) target: PathBuf,
    pub(crate) lifeboat: PathBuf,
    pub(crate) floor: PathBuf,
    pub(crate) repository_floor: PathBuf,
}

impl Programs {
    /// Builds the example that makes plans of the server.
    pub(crate) fn planner() -> Result<PathBuf> {
        let mut build = crate::cargo();
        build.args(["build", "--release", "--quiet", "--package", "lifeboat-control", "--example", "plan"]);
        let status = build.status().context("run cargo build")?;
        if !status.success() {
            bail!("building the example plan of lifeboat-control failed: {status}");
        }
        Ok(target_folder()?.join("release/examples/plan"))
    }

    /// Builds them. Each alone, so that neither lends the other a feature.
    pub(crate) fn build() -> Result<Self> {
        for package in ["lifeboat-cli", "floor"] {
            let mut build = crate::cargo();
            build.args(["build", "--release", "--quiet", "--package", package]);
            let status = build.status().context("run cargo build")?;
            if !status.success() {
                bail!("building {package} failed: {status}");
            }
        }
        let target = target_folder()?;
        let release = target.join("release");
        Ok(Self {
            lifeboat: release.join("lifeboat"),
            floor: release.join("floor"),
            repository_floor: release.join("repository-floor"),
            target,
        })
    }
}
