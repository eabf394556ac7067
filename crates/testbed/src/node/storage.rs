//! The CSI driver of the node, its sidecars, and the classes of its volumes and snapshots.

use super::place::{KUBELET, NAME, NODE_STATE, log, until};
use crate::process::Daemon;
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

pub(super) fn start(binaries: &Binaries, plane: &ControlPlane) -> Result<Vec<Daemon>> {
    let kubectl = plane.kubectl();
    kubectl.apply(&binaries.snapshot_definitions())?;
    kubectl.try_run(&["wait", "--for=condition=Established", "customresourcedefinitions", "--all", "--timeout=30s"])?;
    let manifests = Path::new(NODE_STATE).join("classes.yaml");
    std::fs::write(&manifests, MANIFESTS)?;
    kubectl.apply(&manifests)?;
    let socket = format!("{KUBELET}/plugins/{DRIVER}/csi.sock");
    let driver = [
        format!("--name={DRIVER}"),
        format!("--endpoint={socket}"),
        format!("--registry={KUBELET}/plugins_registry"),
        format!("--node={NAME}"),
        format!("--state={NODE_STATE}/csi"),
    ];
    let driver = Daemon::start(&binaries.path("csi-driver"), &driver, &log("csi-driver"))?;
    until("the CSI driver", &[&driver], || Path::new(&socket).exists())?;
    let kubeconfig = format!("--kubeconfig={}", plane.kubeconfig().display());
    let address = format!("--csi-address={socket}");
    // By default they ask a few times a second only, and wait long before they try again.
    let pace = ["--kube-api-qps=100", "--kube-api-burst=200", "--retry-interval-start=500ms"];
    let groups = "--feature-gates=CSIVolumeGroupSnapshot=true";
    let sidecar = |name: &str, more: &[&str]| {
        let args = [&pace[..], &[&kubeconfig], more].concat();
        let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
        Daemon::start(&binaries.path(name), &args, &log(name))
    };
    let provisioner = ["--feature-gates=Topology=false", "--extra-create-metadata", "--default-fstype="];
    let daemons = vec![
        sidecar("csi-provisioner", &[&provisioner[..], &[&address]].concat())?,
        sidecar("csi-snapshotter", &[&address, groups, "--extra-create-metadata"])?,
        sidecar("snapshot-controller", &["--leader-election=false", groups])?,
        driver,
    ];
    let programs: Vec<&Daemon> = daemons.iter().collect();
    until("the driver's registration", &programs, || {
        let names = "--output=jsonpath={.spec.drivers[*].name}";
        kubectl.try_run(&["get", "csinode", NAME, names]).is_ok_and(|names| names.contains(DRIVER))
    })?;
    Ok(daemons)
}
