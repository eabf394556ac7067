//! The folders and addresses of the node, and helpers that its parts share.

use anyhow::{Context, Result, bail};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder with everything of the node: on a disk, because overlays and loop devices need a real file system.
/// `csi/state.json` in it tells what the driver has.
pub const NODE_STATE: &str = "/var/tmp/lifeboat-node";
/// The sockets, whose paths may not be long.
pub(super) const SOCKETS: &str = "/run/lifeboat-node";
/// The folder in which pods that look after volumes expect kubelet.
pub(super) const KUBELET: &str = "/var/lib/kubelet";
/// The name of the node.
pub(super) const NAME: &str = "node-1";
/// Its address.
pub(crate) const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 1);

/// The log of a program of the node.
pub(super) fn log(name: &str) -> PathBuf {
    Path::new(NODE_STATE).join(format!("{name}.log"))
}

/// Runs a program to its end.
pub(super) fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
