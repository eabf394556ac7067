//! Builds the programs of the test bed from Go modules, once.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Version of Kubernetes that the pinned Go module holds.
const KUBERNETES: &str = "v1.34.4";
/// Version of the S3 server.
const VERSITYGW: &str = "v1.8.0";

/// Where the built programs are.
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

impl Binaries {
    /// Builds what is missing. Cold about six minutes on two cores, nothing when cached.
    ///
    /// # Errors
    /// When there is no Go toolchain or a build fails.
    pub fn ensure() -> Result<Self> {
        let folder = cache_folder().join("testbed").join(format!("{KUBERNETES}-{VERSITYGW}"));
        std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("go/control-plane");
        let kubernetes = ["kube-apiserver", "kube-controller-manager", "kubectl"];
        if kubernetes.iter().any(|name| !folder.join(name).exists()) {
            let mut number = KUBERNETES.trim_start_matches('v').split('.');
            let (major, minor) = (number.next().unwrap_or_default(), number.next().unwrap_or_default());
            let package = "k8s.io/component-base/version";
            // Without these stamps the version-skew checks misbehave.
            let flags = format!(
                "-s -w -X {package}.gitVersion={KUBERNETES} -X {package}.gitMajor={major} -X {package}.gitMinor={minor} -X {package}.gitTreeState=clean"
            );
            let mut build = go(&module);
            build.args(["build", "-trimpath", "-ldflags", &flags, "-o"]).arg(slash(&folder));
            build.args(kubernetes.map(|name| format!("k8s.io/kubernetes/cmd/{name}")));
            run(build, "Kubernetes")?;
        }
        if !folder.join("etcd").exists() {
            let mut build = go(&module);
            build.args(["build", "-trimpath", "-ldflags", "-s -w", "-o"]).arg(folder.join("etcd"));
            build.arg("go.etcd.io/etcd/server/v3");
            run(build, "etcd")?;
        }
        if !folder.join("versitygw").exists() {
            let mut build = go(&module);
            build.env("GOBIN", &folder).args(["install", "-trimpath", "-ldflags", "-s -w"]);
            build.arg(format!("github.com/versity/versitygw/cmd/versitygw@{VERSITYGW}"));
            run(build, "versitygw")?;
        }
        Ok(Self { folder })
    }

    /// The path of one of `etcd`, `kube-apiserver`, `kube-controller-manager`, `kubectl`, `versitygw`.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

fn slash(folder: &Path) -> PathBuf {
    // go build writes several programs only into what ends with a slash.
    let mut text = folder.as_os_str().to_owned();
    text.push("/");
    text.into()
}

fn go(module: &Path) -> Command {
    let mut command = Command::new("go");
    command.current_dir(module).env("CGO_ENABLED", "0");
    command
}

fn run(mut command: Command, what: &str) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("run go to build {what}: a Go toolchain of 1.26 or later is needed"))?;
    if !status.success() {
        bail!("building {what} failed: {status}");
    }
    Ok(())
}
