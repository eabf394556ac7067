//! Programs whose clock is wrong.

use crate::binaries::{cache_folder, run};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Lets a command run with a clock that is wrong by so many seconds. Timers, which go by the time since the machine was started,
/// are right.
///
/// # Errors
/// When the library that does this cannot be built: it takes a C compiler.
pub fn with_wrong_clock(command: &mut Command, seconds: i64) -> Result<()> {
    command.env("LD_PRELOAD", library()?).env("CLOCK_SHIFT", seconds.to_string());
    Ok(())
}

/// The library that is loaded before a program's own, built once.
fn library() -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/clock.c");
    let text = std::fs::read(&source).with_context(|| format!("read {}", source.display()))?;
    let folder = cache_folder().join("testbed").join("programs");
    let path = folder.join(format!("clock-{}.so", crate::digest(&text).trim_start_matches("sha256:")));
    if path.exists() {
        return Ok(path);
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    // Another process may build the same.
    let temporary = path.with_extension(std::process::id().to_string());
    let mut build = Command::new("cc");
    build.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&temporary).arg(&source);
    run(build, "the library of wrong clocks")?;
    std::fs::rename(&temporary, &path).with_context(|| format!("keep {}", path.display()))?;
    Ok(path)
}
