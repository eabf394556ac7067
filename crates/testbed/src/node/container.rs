//! containerd, the network of its containers, and their images.

use super::images;
use super::place::{ADDRESS, NODE_STATE, SOCKETS, log, run};
use crate::packages::{DebianPackage, install_debian_packages};
use crate::process::{Daemon, until_ready};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// Debian's packages, and a program of each by which it is seen to be there.
const PACKAGES: [DebianPackage; 9] = [
    DebianPackage { name: "containerd", program: "/usr/bin/containerd" },
    DebianPackage { name: "runc", program: "/usr/sbin/runc" },
    DebianPackage { name: "containernetworking-plugins", program: "/usr/lib/cni/bridge" },
    DebianPackage { name: "iptables", program: "/usr/sbin/iptables" },
    DebianPackage { name: "conntrack", program: "/usr/sbin/conntrack" },
    DebianPackage { name: "iproute2", program: "/usr/bin/ip" },
    DebianPackage { name: "e2fsprogs", program: "/usr/sbin/mkfs.ext4" },
    DebianPackage { name: "util-linux", program: "/usr/sbin/losetup" },
    DebianPackage { name: "busybox", program: "/usr/bin/busybox" },
];

/// The network of pods: a bridge without a way out of the machine.
const NETWORK: &str = r#"{"cniVersion": "0.4.0", "name": "testbed", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "/run/lifeboat-node/addresses",
            "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
"#;

pub(super) fn socket() -> String {
    format!("{SOCKETS}/containerd.sock")
}

/// Installs the packages that are missing.
pub(super) fn install() -> Result<()> {
    install_debian_packages(&PACKAGES)
}

/// Starts containerd with the images, on a network with the address of the node.
pub(super) fn start() -> Result<Daemon> {
    // A bridge without ports, because it keeps its address whatever happens to pods.
    for args in ["link add tb0 type bridge", &format!("addr add {ADDRESS}/24 dev tb0"), "link set tb0 up"] {
        run(Command::new("ip").args(args.split(' ')))?;
    }
    let state = Path::new(NODE_STATE);
    std::fs::create_dir_all(state.join("cni"))?;
    std::fs::write(state.join("cni/10-testbed.conflist"), NETWORK)?;
    let config = state.join("containerd.toml");
    std::fs::write(&config, settings())?;
    let config = config.display().to_string();
    let containerd = Daemon::start(Path::new("containerd"), &["-c".to_owned(), config], &log("containerd"))?;
    until_ready("containerd", &[&containerd], || ctr(&["version"]).is_ok())?;
    for image in images::write(state)? {
        import(&image)?;
    }
    Ok(containerd)
}

/// Takes an image from a file.
pub(super) fn import(image: &Path) -> Result<()> {
    ctr(&["images", "import", &image.display().to_string()])
}

fn ctr(args: &[&str]) -> Result<()> {
    let mut command = Command::new("ctr");
    run(command.args(["--address", &socket(), "--namespace", "k8s.io"]).args(args))
}

fn settings() -> String {
    let socket = socket();
    let pause = images::PAUSE;
    // The containers of a machine without CAP_SYS_RESOURCE need restrict_oom_score_adj.
    format!(
        r#"version = 2
root = "{NODE_STATE}/containerd"
state = "{SOCKETS}/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.opt"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  disable_tcp_service = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{NODE_STATE}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"#
    )
}
