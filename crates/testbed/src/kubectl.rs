//! Builds kubectl of versions other than the control plane's.

use crate::built::{Races, build_program};
use anyhow::{Result, ensure};
use std::path::PathBuf;

/// The oldest and the newest kubectl that tests run, each pinned by the module file in `go/kubectl` that is named after it.
pub const KUBECTL_VERSIONS: [&str; 2] = ["v0.30.14", "v0.35.10"];

/// Builds kubectl of one of [`KUBECTL_VERSIONS`]. The first build takes about two minutes on two cores, plus the download of its modules.
///
/// # Errors
/// When the version is none of them, there is no Go toolchain, or the build fails.
pub fn build_kubectl(version: &str) -> Result<PathBuf> {
    ensure!(KUBECTL_VERSIONS.contains(&version), "there is no module file for kubectl {version}");
    // One package at a time, because whoever asks for it may be compiling beside it.
    let flags = [&format!("-modfile={version}.mod"), "-p", "1"];
    build_program("kubectl", &format!("kubectl-{version}"), ".", Races::Undetected, &flags)
}
