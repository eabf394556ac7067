//! Builds the programs that tests of plugins need: a host and a plugin made with Velero's code, and plugins that people use.
//!
//! None needs anything else of the test bed. Each is kept under a digest of its module, so it is built again when that changes.

use crate::binaries::{cache_folder, go, module, run};
use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

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
        built(&format!("plugins/{}", self.name), self.package, Races::Undetected)
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
    built("plugin-host", ".", Races::Undetected)
}

/// Builds the plugin that misbehaves as it is told, made with Velero's library. Cold about two minutes on two cores, and nearly nothing
/// after [`plugin_host`], which consists of the same packages.
///
/// # Errors
/// When there is no Go toolchain or the build fails.
pub fn plugin_fixture() -> Result<PathBuf> {
    built("plugin-fixture", ".", Races::Undetected)
}

/// The same, and its process ends when two threads use something at once of which one changes it. Needs a C compiler.
///
/// # Errors
/// As with [`plugin_fixture`].
pub fn plugin_fixture_that_detects_races() -> Result<PathBuf> {
    built("plugin-fixture", ".", Races::Detected)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Races {
    Undetected,
    Detected,
}

/// The program of a package, which is built unless it was before.
fn built(name: &str, package: &str, races: Races) -> Result<PathBuf> {
    let folder = module(name);
    let mut program = format!("{}-{}", name.replace('/', "-"), digest(&folder)?);
    if races == Races::Detected {
        program.push_str("-races");
    }
    let programs = cache_folder().join("testbed").join("plugins");
    let path = programs.join(&program);
    if path.exists() {
        return Ok(path);
    }
    std::fs::create_dir_all(&programs).with_context(|| format!("make {}", programs.display()))?;
    // Another process may build the same.
    let temporary = programs.join(format!("{program}.{}", std::process::id()));
    let mut build = go(&folder);
    build.args(["build", "-trimpath", "-ldflags", "-s -w"]);
    if races == Races::Detected {
        build.arg("-race").env("CGO_ENABLED", "1");
    }
    build.arg("-o").arg(&temporary).arg(package);
    run(build, name)?;
    std::fs::rename(&temporary, &path).with_context(|| format!("keep {}", path.display()))?;
    Ok(path)
}

/// A digest of the files of a module.
fn digest(folder: &Path) -> Result<String> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    files.sort();
    let mut hasher = Sha256::new();
    for file in files {
        let content = std::fs::read(&file).with_context(|| format!("read {}", file.display()))?;
        hasher.update(file.file_name().unwrap_or_default().as_encoded_bytes());
        hasher.update(content.len().to_le_bytes());
        hasher.update(content);
    }
    Ok(hex::encode(&hasher.finalize()[..8]))
}
