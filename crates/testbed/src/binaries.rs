//! Builds the programs of the test bed from Go modules, once.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Version of Kubernetes that the pinned Go module holds.
const KUBERNETES: &str = "v1.34.4";
/// Version of the S3 server.
const VERSITYGW: &str = "v1.8.0";

/// The folder of the built programs.
#[derive(Clone, Debug)]
pub struct Binaries {
    folder: PathBuf,
}

/// The folder for what outlives a checkout: `$XDG_CACHE_HOME/lifeboat`, by default `~/.cache/lifeboat`.
#[must_use]
pub fn cache_folder() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache");
    let base = std::env::var_os("XDG_CACHE_HOME").filter(|v| !v.is_empty()).map_or_else(home, PathBuf::from);
    base.join("lifeboat")
}

/// The programs of a control plane, besides etcd.
const CONTROL_PLANE: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kubectl"];
/// The programs of a node, besides those.
const NODE: [&str; 2] = ["kube-scheduler", "kubelet"];

impl Binaries {
    /// Builds what a control plane needs and is missing. Cold about six minutes on two cores, nothing when cached.
    ///
    /// # Errors
    /// When there is no Go toolchain or a build fails.
    pub fn ensure() -> Result<Self> {
        let folder = cache_folder().join("testbed").join(format!("{KUBERNETES}-{VERSITYGW}"));
        std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        let binaries = Self { folder };
        let module = module("control-plane");
        binaries.kubernetes(&CONTROL_PLANE)?;
        if !binaries.path("etcd").exists() {
            let mut build = go(&module);
            build.args(["build", "-trimpath", "-ldflags", "-s -w", "-o"]).arg(binaries.path("etcd"));
            build.arg("go.etcd.io/etcd/server/v3");
            run(build, "etcd")?;
        }
        if !binaries.path("versitygw").exists() {
            let mut build = go(&module);
            build.env("GOBIN", &binaries.folder).args(["install", "-trimpath", "-ldflags", "-s -w"]);
            build.arg(format!("github.com/versity/versitygw/cmd/versitygw@{VERSITYGW}"));
            run(build, "versitygw")?;
        }
        Ok(binaries)
    }

    /// Builds what a node needs and is missing: kubelet and scheduler, the CSI driver with its sidecars, and the definitions
    /// of snapshots, which [`Binaries::snapshot_definitions`] finds. Cold about six minutes on two cores more.
    ///
    /// # Errors
    /// When there is no Go toolchain or a build fails.
    pub fn ensure_node() -> Result<Self> {
        let binaries = Self::ensure()?;
        binaries.kubernetes(&NODE)?;
        let module = module("csi");
        for (package, version) in SIDECARS {
            let name = package.rsplit('/').next().unwrap_or_default();
            if !binaries.path(name).exists() {
                let mut build = go(&module);
                let flags = format!("-s -w -X main.version={version}");
                build.args(["build", "-trimpath", "-ldflags", &flags, "-o"]).arg(binaries.path(name)).arg(package);
                run(build, name)?;
            }
        }
        // The driver is ours and changes: go itself knows whether there is anything to do.
        let mut build = go(&module);
        build.args(["build", "-trimpath", "-ldflags", "-s -w", "-o"]).arg(binaries.path("csi-driver")).arg(".");
        run(build, "the CSI driver")?;
        let mut list = go(&module);
        list.args(["list", "-m", "-f", "{{.Dir}}", "github.com/kubernetes-csi/external-snapshotter/client/v8"]);
        let output = list.output().context("run go to find the definitions of snapshots")?;
        let source = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()).join("config/crd");
        let definitions = binaries.snapshot_definitions();
        std::fs::create_dir_all(&definitions)?;
        for file in std::fs::read_dir(&source).with_context(|| format!("read {}", source.display()))? {
            let file = file?;
            if file.file_name().to_string_lossy().contains("snapshot.storage.k8s.io_") {
                let content = std::fs::read(file.path())?;
                std::fs::write(definitions.join(file.file_name()), content)?;
            }
        }
        Ok(binaries)
    }

    /// The folder of the definitions of snapshots and groups of snapshots.
    #[must_use]
    pub fn snapshot_definitions(&self) -> PathBuf {
        self.folder.join("snapshot-definitions")
    }

    /// The path of one of `etcd`, `kube-apiserver`, `kube-controller-manager`, `kubectl`, `versitygw`; with a node also of
    /// `kube-scheduler`, `kubelet`, `csi-driver`, `csi-provisioner`, `csi-snapshotter`, `snapshot-controller`.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn kubernetes(&self, names: &[&str]) -> Result<()> {
        if names.iter().all(|name| self.path(name).exists()) {
            return Ok(());
        }
        let mut number = KUBERNETES.trim_start_matches('v').split('.');
        let (major, minor) = (number.next().unwrap_or_default(), number.next().unwrap_or_default());
        let package = "k8s.io/component-base/version";
        // Without these stamps the version-skew checks misbehave.
        let flags = format!(
            "-s -w -X {package}.gitVersion={KUBERNETES} -X {package}.gitMajor={major} -X {package}.gitMinor={minor} -X {package}.gitTreeState=clean"
        );
        let mut build = go(&module("control-plane"));
        build.args(["build", "-trimpath", "-ldflags", &flags, "-o"]).arg(slash(&self.folder));
        build.args(names.iter().map(|name| format!("k8s.io/kubernetes/cmd/{name}")));
        run(build, "Kubernetes")
    }
}

/// The sidecars of a CSI driver and their versions, which the Go module pins.
const SIDECARS: [(&str, &str); 3] = [
    ("github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner", "v6.3.0"),
    ("github.com/kubernetes-csi/external-snapshotter/v8/cmd/csi-snapshotter", "v8.6.0"),
    ("github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller", "v8.6.0"),
];

/// The folder of a Go module of ours.
pub(crate) fn module(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("go").join(name)
}

fn slash(folder: &Path) -> PathBuf {
    // go build writes several programs only into what ends with a slash.
    let mut text = folder.as_os_str().to_owned();
    text.push("/");
    text.into()
}

/// The go tool in a module.
pub(crate) fn go(module: &Path) -> Command {
    let mut command = Command::new("go");
    command.current_dir(module).env("CGO_ENABLED", "0");
    command
}

/// Runs the go tool.
pub(crate) fn run(mut command: Command, what: &str) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("run go to build {what}: a Go toolchain of 1.26 or later is needed"))?;
    if !status.success() {
        bail!("building {what} failed: {status}");
    }
    Ok(())
}
