//! Foreign tools and files for making the image, in one version each: fetched once into a folder of the cache.

use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::process::Command;

/// Version of what lets cargo build with zig.
const ZIGBUILD: &str = "0.24.1";
/// Version of the compiler of C parts, which is also the linker and has the C library.
const ZIG: &str = "0.15.2";
/// The C library of that version of zig.
pub(crate) const MUSL: &str = "1.2.5";
/// Version of the certificates of public authorities. Those of a machine may include authorities of its own.
pub(crate) const CERTIFICATES: &str = "2026.10.19.post1";

/// The folder of the tools.
pub(super) fn folder() -> PathBuf {
    lifeboat_testbed::cache_folder().join("tools")
}

/// The program that lets cargo build with zig.
pub(super) fn zigbuild() -> Result<PathBuf> {
    lifeboat_testbed::program_of_crate("cargo-zigbuild", ZIGBUILD)
}

/// The file with the certificates of public authorities.
pub(crate) fn certificates() -> Result<PathBuf> {
    let output = Command::new(python()?).args(["-m", "certifi"]).output().context("run certifi")?;
    ensure!(output.status.success(), "certifi: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout).context("the path of certifi")?.trim_end().into())
}

/// A Python that has zig and the certificates.
pub(super) fn python() -> Result<PathBuf> {
    let folder = folder().join(format!("ziglang-{ZIG}-certifi-{CERTIFICATES}"));
    lifeboat_testbed::with_python_packages(&folder, &[&format!("ziglang=={ZIG}"), &format!("certifi=={CERTIFICATES}")])
}
