//! The CSI driver of the node, its sidecars, and the classes of its volumes and snapshots.

use super::place::{KUBELET, NAME, NODE_STATE, log};
use crate::process::{Daemon, until_ready};
use crate::{Binaries, ControlPlane};
use anyhow::Result;
use std::path::Path;

/// The name of the driver.
pub const DRIVER: &str = "csi.testbed.local";

/// The driver, its classes of volumes, and its classes of single snapshots and of groups.
const MANIFESTS: &str = r"apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: csi.testbed.local}
spec: {attachRequired: false, podInfoOnMount: true, fsGroupPolicy: File}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: csi}
provisioner: csi.testbed.local
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: csi-wait}
provisioner: csi.testbed.local
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata: {name: csi, labels: {velero.io/csi-volumesnapshot-class: 'true'}}
driver: csi.testbed.local
deletionPolicy: Delete
---
apiVersion: groupsnapshot.storage.k8s.io/v1
kind: VolumeGroupSnapshotClass
metadata: {name: csi, labels: {velero.io/csi-volumegroupsnapshot-class: 'true'}}
driver: csi.testbed.local
deletionPolicy: Delete
";

/// A driver with its sidecars, which take volumes, snapshots and groups. Dropping it ends them.
#[derive(Debug)]
pub struct Driver {
    // Killed in this order.
    _sidecars: Vec<Daemon>,
    _driver: Daemon,
}

impl Driver {
    /// Starts a driver of this name on the node beside others, with what this folder holds of volumes and snapshots, and waits until
    /// kubelet knows it.
    ///
    /// # Errors
    /// When the node does not run here, or something does not start within [`crate::START_TIMEOUT`].
    pub fn start(plane: &ControlPlane, name: &str, state: &Path) -> Result<Self> {
        start_driver(&Binaries::ensure_node()?, plane, name, state)
    }
}

pub(super) fn start(binaries: &Binaries, plane: &ControlPlane) -> Result<(Driver, Daemon)> {
    let kubectl = plane.kubectl();
    kubectl.apply(&binaries.snapshot_definitions())?;
    kubectl.try_run(&["wait", "--for=condition=Established", "customresourcedefinitions", "--all", "--timeout=30s"])?;
    let manifests = Path::new(NODE_STATE).join("classes.yaml");
    std::fs::write(&manifests, MANIFESTS)?;
    kubectl.apply(&manifests)?;
    let controller = ["--leader-election=false", GROUPS];
    let controller = sidecar(binaries, plane, "snapshot-controller", "snapshot-controller", &controller)?;
    let driver = start_driver(binaries, plane, DRIVER, &Path::new(NODE_STATE).join("csi"))?;
    Ok((driver, controller))
}

/// Lets a sidecar take groups of snapshots.
const GROUPS: &str = "--feature-gates=CSIVolumeGroupSnapshot=true";

/// Starts a program that speaks to the API server, with the log of this name.
fn sidecar(binaries: &Binaries, plane: &ControlPlane, program: &str, name: &str, more: &[&str]) -> Result<Daemon> {
    let kubeconfig = format!("--kubeconfig={}", plane.kubeconfig().display());
    // By default they ask a few times a second only, and wait long before they try again.
    let pace = ["--kube-api-qps=100", "--kube-api-burst=200", "--retry-interval-start=500ms"];
    let args = [&pace[..], &[&kubeconfig], more].concat();
    let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
    Daemon::start(&binaries.path(program), &args, &log(name))
}

fn start_driver(binaries: &Binaries, plane: &ControlPlane, name: &str, state: &Path) -> Result<Driver> {
    let socket = format!("{KUBELET}/plugins/{name}/csi.sock");
    let flags = [
        format!("--name={name}"),
        format!("--endpoint={socket}"),
        format!("--registry={KUBELET}/plugins_registry"),
        format!("--node={NAME}"),
        format!("--state={}", state.display()),
    ];
    let of = |program: &str| if name == DRIVER { program.to_owned() } else { format!("{program}-{name}") };
    let driver = Daemon::start(&binaries.path("csi-driver"), &flags, &log(&of("csi-driver")))?;
    until_ready("the CSI driver", &[&driver], || Path::new(&socket).exists())?;
    let address = format!("--csi-address={socket}");
    let provisioner = ["--feature-gates=Topology=false", "--extra-create-metadata", "--default-fstype=", &address];
    let snapshotter = [&address, GROUPS, "--extra-create-metadata"];
    let sidecars = vec![
        sidecar(binaries, plane, "csi-provisioner", &of("csi-provisioner"), &provisioner)?,
        sidecar(binaries, plane, "csi-snapshotter", &of("csi-snapshotter"), &snapshotter)?,
    ];
    let programs: Vec<&Daemon> = sidecars.iter().chain([&driver]).collect();
    let kubectl = plane.kubectl();
    until_ready("the driver's registration", &programs, || {
        let names = "--output=jsonpath={.spec.drivers[*].name}";
        let known = kubectl.try_run(&["get", "csinode", NAME, names]);
        known.is_ok_and(|names| names.split_whitespace().any(|known| known == name))
    })?;
    Ok(Driver { _sidecars: sidecars, _driver: driver })
}
