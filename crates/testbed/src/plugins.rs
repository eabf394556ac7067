//! Builds the programs that tests of plugins need: a host and a plugin made with Velero's code, and plugins that people use.
//!
//! None needs anything else of the test bed.

use crate::built::{Races, build};
use anyhow::{Result, bail};
use std::path::PathBuf;

/// The plugins that people use and tests run.
pub const REAL_PLUGINS: [RealPlugin; 3] = [
    RealPlugin { name: "aws", package: "github.com/vmware-tanzu/velero-plugin-for-aws/velero-plugin-for-aws" },
    RealPlugin { name: "gcp", package: "github.com/vmware-tanzu/velero-plugin-for-gcp/velero-plugin-for-gcp" },
    RealPlugin { name: "kubevirt", package: "kubevirt.io/kubevirt-velero-plugin" },
];

/// A plugin that people use.
#[derive(Clone, Copy, Debug)]
pub struct RealPlugin {
    /// Its name, and that of the module below `go/plugins` that pins it.
    pub name: &'static str,
    /// Its program.
    package: &'static str,
}

impl RealPlugin {
    /// Builds it. Cold some minutes on two cores.
    ///
    /// # Errors
    /// When there is no Go toolchain or the build fails.
    pub fn build(&self) -> Result<PathBuf> {
        build(&format!("plugins/{}", self.name), self.package, Races::Undetected)
    }
}

/// Builds one of [`REAL_PLUGINS`].
///
/// # Errors
/// When there is none of this name, no Go toolchain, or the build fails.
pub fn real_plugin(name: &str) -> Result<PathBuf> {
    match REAL_PLUGINS.iter().find(|plugin| plugin.name == name) {
        Some(plugin) => plugin.build(),
        None => bail!("there is no plugin {name}"),
    }
}

/// Builds the host of plugins that consists of Velero's own code. Cold about two minutes on two cores, and what it takes to load 60
/// modules.
///
/// # Errors
/// When there is no Go toolchain or the build fails.
pub fn plugin_host() -> Result<PathBuf> {
    build("plugin-host", ".", Races::Undetected)
}

/// Builds the plugin that misbehaves as it is told, made with Velero's library. Cold about two minutes on two cores, and nearly nothing
/// after [`plugin_host`], which consists of the same packages.
///
/// # Errors
/// When there is no Go toolchain or the build fails.
pub fn plugin_fixture() -> Result<PathBuf> {
    build("plugin-fixture", ".", Races::Undetected)
}

/// The same, and its process ends when two threads use something at once of which one changes it. Needs a C compiler.
///
/// # Errors
/// As with [`plugin_fixture`].
pub fn plugin_fixture_that_detects_races() -> Result<PathBuf> {
    build("plugin-fixture", ".", Races::Detected)
}
