//! A node: containerd, kubelet, scheduler, and a CSI driver.

mod container;
mod images;
mod kubelet;
mod place;
mod services;
mod storage;

use crate::process::{Daemon, until_ready};
use crate::{Binaries, ControlPlane, VeleroPrograms};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

pub use images::{LIFEBOAT as LIFEBOAT_IMAGE, VELERO as VELERO_IMAGE, VELERO_PLUGIN as VELERO_PLUGIN_IMAGE};
pub(crate) use place::ADDRESS;
pub use place::NODE_STATE;
pub use storage::{DRIVER, Driver};

use place::{KUBELET, NAME, SOCKETS, log, run};

/// A node of a control plane, ready for pods that use the image `testbed.local/busybox:1`, and for claims of the classes
/// `csi` and `csi-wait` (which waits for the first pod). Pods reach the API server by the address of its service; there are
/// no other services, and no names. Dropping it ends its processes; what they have made goes with the
/// namespaces.
#[derive(Debug)]
pub struct Node {
    // Killed in this order.
    _storage: (Driver, Daemon),
    _kubelet: Daemon,
    _scheduler: Daemon,
    _containerd: Daemon,
}

/// `unshare` with what makes namespaces for a node: of processes, so that containers end with it, of mounts and of the
/// network. The caller adds the program and its arguments.
#[must_use]
pub fn in_namespaces() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
    command
}

impl Node {
    /// Installs what a node needs: Debian's packages that are missing, and the programs that are built from Go modules.
    ///
    /// # Errors
    /// When the caller is not root, or something cannot be installed or built.
    pub fn ensure() -> Result<()> {
        if !rustix::process::geteuid().is_root() {
            bail!("a node needs root: it makes namespaces, mounts and containers");
        }
        container::install()?;
        Binaries::ensure_node().map(drop)
    }

    /// Raises the loopback interface of new namespaces, on which a control plane listens.
    ///
    /// # Errors
    /// When these are not namespaces of our own.
    pub fn prepare() -> Result<()> {
        let links = Command::new("ip").args(["--oneline", "link", "show", "up"]).output().context("run ip")?;
        if !links.stdout.is_empty() {
            bail!("a node is started in namespaces of its own only: there are networks here");
        }
        run(Command::new("ip").args(["link", "set", "lo", "up"]))
    }

    /// Starts the node, in some ten seconds, and waits until it is ready and its driver known.
    ///
    /// # Errors
    /// When the caller is not in namespaces of its own, or something does not start within [`crate::START_TIMEOUT`].
    pub fn start(plane: &ControlPlane) -> Result<Self> {
        let binaries = Binaries::ensure_node()?;
        wipe()?;
        let containerd = container::start()?;
        services::serve_api(plane)?;
        let config = kubelet::config()?;
        let kubeconfig = plane.kubeconfig().display().to_string();
        let scheduler = Daemon::start(
            &binaries.path("kube-scheduler"),
            &[format!("--kubeconfig={kubeconfig}"), "--leader-elect=false".to_owned(), "--secure-port=0".to_owned()],
            &log("scheduler"),
        )?;
        let kubelet = Daemon::start(
            &binaries.path("kubelet"),
            &[
                format!("--config={}", config.display()),
                format!("--kubeconfig={kubeconfig}"),
                format!("--root-dir={KUBELET}"),
                format!("--hostname-override={NAME}"),
                format!("--node-ip={ADDRESS}"),
            ],
            &log("kubelet"),
        )?;
        let kubectl = plane.kubectl();
        let is_ready = || {
            let status = "--output=jsonpath={.status.conditions[?(@.type=='Ready')].status}";
            kubectl.try_run(&["get", "node", NAME, status]).is_ok_and(|text| text == "True")
        };
        until_ready("the node", &[&containerd, &kubelet], is_ready)?;
        let storage = storage::start(&binaries, plane)?;
        Ok(Self { _storage: storage, _kubelet: kubelet, _scheduler: scheduler, _containerd: containerd })
    }
}

/// Gives the node an image of this program, [`LIFEBOAT_IMAGE`], in which it is `/lifeboat` and has Velero's names, as in the
/// image that users run. To be called in the namespaces of the node.
///
/// # Errors
/// When it cannot be read, or containerd does not take the image.
pub fn import_program(program: &Path) -> Result<()> {
    let image = images::write_program(program, Path::new(NODE_STATE))?;
    container::import(&image)?;
    std::fs::remove_file(&image).with_context(|| format!("remove {}", image.display()))
}

/// Gives the node Velero's own images, [`VELERO_IMAGE`] and [`VELERO_PLUGIN_IMAGE`]. To be called in the namespaces of the node.
///
/// # Errors
/// When a program cannot be read, or containerd does not take an image.
pub fn import_velero(programs: &VeleroPrograms) -> Result<()> {
    for image in images::write_velero(programs, Path::new(NODE_STATE))? {
        container::import(&image)?;
        std::fs::remove_file(&image).with_context(|| format!("remove {}", image.display()))?;
    }
    Ok(())
}

/// Removes what a node before has left, of which nothing runs any more.
fn wipe() -> Result<()> {
    let devices = Command::new("losetup").args(["--noheadings", "--output", "NAME,BACK-FILE"]).output()?;
    for line in String::from_utf8_lossy(&devices.stdout).lines() {
        if let Some((device, file)) = line.split_once(' ')
            && file.trim().starts_with(NODE_STATE)
        {
            run(Command::new("losetup").args(["--detach", device]))?;
        }
    }
    for folder in [NODE_STATE, SOCKETS] {
        match std::fs::remove_dir_all(folder) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(e).with_context(|| format!("remove {folder}: does another node run?"));
            }
            _ => std::fs::create_dir_all(folder).with_context(|| format!("make {folder}"))?,
        }
    }
    Ok(())
}
