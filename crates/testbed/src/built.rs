//! Builds a program of a Go module of ours, once: it is kept under a digest of the module, so it is built again when that changes.

use crate::binaries::{cache_folder, go, module, run};
use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Tells if Go's race detector is built in: it ends the process when two threads use something at once and one changes
/// it. It needs a C compiler.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Races {
    Undetected,
    Detected,
}

/// Builds the program of a package, unless it was built before.
pub(crate) fn build(name: &str, package: &str, races: Races) -> Result<PathBuf> {
    build_with_flags(name, package, races, &[])
}

/// As [`build`], with flags for the compiler, which have to be the same each time.
pub(crate) fn build_with_flags(name: &str, package: &str, races: Races, flags: &[&str]) -> Result<PathBuf> {
    build_program(name, &name.replace('/', "-"), package, races, flags)
}

/// As [`build_with_flags`], of a module with several programs, of which this one is kept under a name of its own.
pub(crate) fn build_program(
    module_name: &str,
    program: &str,
    package: &str,
    races: Races,
    flags: &[&str],
) -> Result<PathBuf> {
    let folder = module(module_name);
    let mut program = format!("{program}-{}", digest(&folder)?);
    if races == Races::Detected {
        program.push_str("-races");
    }
    let programs = cache_folder().join("testbed").join("programs");
    let path = programs.join(&program);
    if path.exists() {
        return Ok(path);
    }
    std::fs::create_dir_all(&programs).with_context(|| format!("make {}", programs.display()))?;
    // Another process may build the same.
    let temporary = programs.join(format!("{program}.{}", std::process::id()));
    let mut build = go(&folder);
    build.args(["build", "-trimpath", "-ldflags", "-s -w"]).args(flags);
    if races == Races::Detected {
        build.arg("-race").env("CGO_ENABLED", "1");
    }
    build.arg("-o").arg(&temporary).arg(package);
    run(build, package)?;
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
