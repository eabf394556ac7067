//! The settings of kubelet.

use super::container;
use super::place::{ADDRESS, KUBELET, NODE_STATE, run};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes kubelet's folder, whose mounts containers can see, and writes its settings.
pub(super) fn config() -> Result<PathBuf> {
    let state = Path::new(NODE_STATE);
    let own = state.join("kubelet");
    std::fs::create_dir_all(&own)?;
    std::fs::create_dir_all(KUBELET)?;
    run(Command::new("mount").arg("--bind").arg(&own).arg(KUBELET))?;
    run(Command::new("mount").args(["--make-rshared", KUBELET]))?;
    std::fs::write(state.join("resolv.conf"), "nameserver 10.96.0.10\n")?;
    let path = state.join("kubelet.yaml");
    std::fs::write(&path, settings())?;
    Ok(path)
}

/// Everybody in the namespace of the network may ask kubelet: there is nobody but the test. Nothing is ever removed to make
/// room, because a full disk would take the only copy of the images.
fn settings() -> String {
    let socket = container::socket();
    format!(
        r#"apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {ADDRESS}
port: 10250
readOnlyPort: 0
authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}
authorization: {{mode: AlwaysAllow}}
containerRuntimeEndpoint: unix://{socket}
cgroupDriver: cgroupfs
cgroupsPerQOS: true
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
resolvConf: {NODE_STATE}/resolv.conf
volumePluginDir: {NODE_STATE}/volume-plugins
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {{memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%", imagefs.inodesFree: "0%"}}
syncFrequency: 10s
nodeStatusUpdateFrequency: 5s
kubeAPIQPS: 200
kubeAPIBurst: 400
maxPods: 500
serializeImagePulls: false
"#
    )
}
