//! promtool, for the checks of alerts: brought once into the cache folder.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The path of Prometheus's promtool: the one that is installed, or that of Debian's package, which is unpacked into
/// the cache folder and not installed.
pub(crate) fn promtool() -> Result<PathBuf> {
    let is_installed = Command::new("promtool").arg("--version").output().is_ok_and(|output| output.status.success());
    if is_installed {
        return Ok("promtool".into());
    }
    let folder = lifeboat_testbed::cache_folder().join("tools/prometheus");
    let program = folder.join("usr/bin/promtool");
    if program.exists() {
        return Ok(program);
    }
    let tools = lifeboat_testbed::cache_folder().join("tools");
    std::fs::create_dir_all(&tools).with_context(|| format!("make {}", tools.display()))?;
    let scratch = tempfile::tempdir_in(&tools).context("make a folder for a package")?;
    unpack_prometheus(scratch.path())
        .context("promtool is not installed, and could not be taken from Debian's package prometheus")?;
    std::fs::rename(scratch.path(), &folder).with_context(|| format!("rename a folder to {}", folder.display()))?;
    Ok(program)
}

fn unpack_prometheus(folder: &Path) -> Result<()> {
    let download = || quiet(Command::new("apt-get").args(["download", "-q", "prometheus"]).current_dir(folder));
    if download().is_err() {
        quiet(Command::new("apt-get").args(["update", "-q"]))?;
        download()?;
    }
    let mut files = std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    let package =
        files.find_map(|file| file.ok().filter(|file| file.path().extension().is_some_and(|end| end == "deb")));
    let package = package.context("apt-get downloaded no package")?.path();
    quiet(Command::new("dpkg-deb").arg("-x").arg(&package).arg(folder))?;
    std::fs::remove_file(&package).with_context(|| format!("remove {}", package.display()))?;
    // The server is not needed, and as large.
    let server = folder.join("usr/bin/prometheus");
    std::fs::remove_file(&server).with_context(|| format!("remove {}", server.display()))
}

/// Runs a program whose output is of interest only when it fails.
fn quiet(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("run {}", command.get_program().display()))?;
    if !output.status.success() {
        bail!("{}: {}: {}", command.get_program().display(), output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
