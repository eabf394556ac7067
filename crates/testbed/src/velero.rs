//! Builds Velero's own programs, which take turns with ours on a node.

use crate::built::{Races, build_program};
use crate::plugins::real_plugin;
use anyhow::Result;
use std::path::PathBuf;

/// The module below `go` that pins Velero.
const MODULE: &str = "velero";
/// The version in it, which Velero tells by itself only where its build is told.
const FLAGS: [&str; 4] =
    ["-p", "1", "-ldflags", "-s -w -X github.com/vmware-tanzu/velero/pkg/buildinfo.Version=v1.18.1"];

/// The programs of an installation of Velero 1.18.1.
#[derive(Clone, Debug)]
pub struct VeleroPrograms {
    /// The client, server, node agent and movers: one program.
    pub velero: PathBuf,
    /// The init container's program, which lets a pod wait for its files.
    pub restore_helper: PathBuf,
    /// The plugin that reaches S3.
    pub plugin: PathBuf,
}

impl VeleroPrograms {
    /// Builds them. Cold some ten minutes on two cores, and what it takes to load their modules.
    ///
    /// # Errors
    /// When there is no Go toolchain or a build fails.
    pub fn build() -> Result<Self> {
        let build = |program: &str, package: &str| {
            build_program(
                MODULE,
                program,
                &format!("github.com/vmware-tanzu/velero/cmd/{package}"),
                Races::Undetected,
                &FLAGS,
            )
        };
        Ok(Self {
            velero: build("velero", "velero")?,
            restore_helper: build("velero-restore-helper", "velero-restore-helper")?,
            plugin: real_plugin("aws")?,
        })
    }
}
