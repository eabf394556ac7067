//! etcd, API server and controller manager.

use crate::Binaries;
use crate::certificates::Certificates;
use crate::process::{Daemon, free_port};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A running control plane. Dropping it kills it and removes its data, unless another process has started it.
#[derive(Debug)]
pub struct ControlPlane {
    // Killed in this order, before the data go.
    _programs: Vec<Daemon>,
    _data: Option<TempDir>,
    folder: PathBuf,
    kubectl: PathBuf,
    url: String,
}

/// Runs kubectl with one kubeconfig.
#[derive(Clone, Debug)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    /// The folder of its discovery cache; kubectl's usual one otherwise.
    cache: Option<PathBuf>,
}

const TOKEN: &str = "testbed-admin";

impl ControlPlane {
    /// Starts all three on free ports and waits until the default service account exists.
    ///
    /// # Errors
    /// When a program does not start or is not ready within a minute; the message holds the end of its log.
    pub fn start() -> Result<Self> {
        let binaries = Binaries::ensure()?;
        let folder = tempfile::Builder::new().prefix("lifeboat-testbed-").tempdir()?;
        // etcd without fsync on memory: nothing here outlives a test.
        let at = |name: &str| folder.path().join(name);
        write_certificates(folder.path())?;
        std::fs::write(at("tokens.csv"), format!("{TOKEN},admin,admin,system:masters\n"))?;

        let (etcd_port, peer_port, api_port) = (free_port()?, free_port()?, free_port()?);
        let etcd_url = format!("http://127.0.0.1:{etcd_port}");
        let peer_url = format!("http://127.0.0.1:{peer_port}");
        let etcd = Daemon::start(
            &binaries.path("etcd"),
            &args(&[
                ("name", "testbed"),
                ("data-dir", &at("etcd").display().to_string()),
                ("listen-client-urls", &etcd_url),
                ("advertise-client-urls", &etcd_url),
                ("listen-peer-urls", &peer_url),
                ("initial-advertise-peer-urls", &peer_url),
                ("initial-cluster", &format!("testbed={peer_url}")),
                ("unsafe-no-fsync", "true"),
                ("quota-backend-bytes", "4294967296"),
                ("auto-compaction-mode", "periodic"),
                ("auto-compaction-retention", "5m"),
                ("log-level", "warn"),
            ]),
            &at("etcd.log"),
        )?;
        let url = format!("https://127.0.0.1:{api_port}");
        let file = |name: &str| at(name).display().to_string();
        let api_server = Daemon::start(
            &binaries.path("kube-apiserver"),
            &args(&[
                ("bind-address", "127.0.0.1"),
                ("advertise-address", "127.0.0.1"),
                ("secure-port", &api_port.to_string()),
                ("endpoint-reconciler-type", "none"),
                ("etcd-servers", &etcd_url),
                ("service-cluster-ip-range", "10.96.0.0/16"),
                ("authorization-mode", "RBAC"),
                ("token-auth-file", &file("tokens.csv")),
                ("tls-cert-file", &file("server.crt")),
                ("tls-private-key-file", &file("server.key")),
                ("service-account-issuer", "https://kubernetes.default.svc"),
                ("service-account-key-file", &file("token.pub")),
                ("service-account-signing-key-file", &file("token.key")),
                ("allow-privileged", "true"),
                // Nodes have no names that could be looked up.
                ("kubelet-preferred-address-types", "InternalIP"),
                ("event-ttl", "15m"),
                ("profiling", "false"),
                ("audit-policy-file", &audit_policy(folder.path())?),
                ("audit-log-path", &file("audit.log")),
                ("audit-log-mode", "batch"),
            ]),
            &at("apiserver.log"),
        )?;
        let kubeconfig = at("kubeconfig");
        std::fs::write(&kubeconfig, kubeconfig_text(&url, &file("ca.crt")))?;
        let kubectl = Kubectl { program: binaries.path("kubectl"), kubeconfig: kubeconfig.clone(), cache: None };
        wait("the API server", &api_server, || kubectl.try_run(&["get", "--raw", "/readyz"]).is_ok())?;
        let controller_manager = Daemon::start(
            &binaries.path("kube-controller-manager"),
            &args(&[
                ("kubeconfig", &kubeconfig.display().to_string()),
                ("leader-elect", "false"),
                ("secure-port", "0"),
                ("root-ca-file", &file("ca.crt")),
                ("service-account-private-key-file", &file("token.key")),
                ("use-service-account-credentials", "false"),
                ("service-cluster-ip-range", "10.96.0.0/16"),
                ("allocate-node-cidrs", "false"),
                ("kube-api-qps", "500"),
                ("kube-api-burst", "1000"),
                // Claims and volumes that are not bound at once are looked at again, by default after 15 seconds.
                ("pvclaimbinder-sync-period", "1s"),
            ]),
            &at("controller-manager.log"),
        )?;
        wait("the controller manager", &controller_manager, || {
            kubectl.try_run(&["get", "serviceaccount", "default", "--namespace", "default"]).is_ok()
        })?;
        Ok(Self {
            _programs: vec![controller_manager, api_server, etcd],
            folder: folder.path().to_owned(),
            _data: Some(folder),
            kubectl: binaries.path("kubectl"),
            url,
        })
    }

    /// A control plane that another process has started, by the kubeconfig that [`ControlPlane::start`] wrote.
    ///
    /// # Errors
    /// When it is no such kubeconfig, or the programs cannot be built.
    pub fn of_another_process(kubeconfig: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(kubeconfig).with_context(|| format!("read {}", kubeconfig.display()))?;
        let url = text.split_once("server: \"").and_then(|(_, rest)| rest.split('"').next()).context("no server")?;
        let folder = kubeconfig.parent().context("the folder of the kubeconfig")?.to_owned();
        let kubectl = Binaries::ensure()?.path("kubectl");
        Ok(Self { _programs: Vec::new(), _data: None, folder, kubectl, url: url.to_owned() })
    }

    /// A kubeconfig with all rights.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// The URL of the API server.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The certificate authority of the API server, PEM.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// The audit log: one JSON line per request, metadata only.
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.folder.join("audit.log")
    }

    /// kubectl with all rights.
    #[must_use]
    pub fn kubectl(&self) -> Kubectl {
        Kubectl { program: self.kubectl.clone(), kubeconfig: self.kubeconfig(), cache: None }
    }
}

impl Kubectl {
    /// kubectl for a kubeconfig.
    ///
    /// # Errors
    /// When the programs cannot be built.
    pub fn new(kubeconfig: &Path) -> Result<Self> {
        Ok(Self { program: Binaries::ensure()?.path("kubectl"), kubeconfig: kubeconfig.to_owned(), cache: None })
    }

    /// With a folder for what it learns of clusters. It remembers them by host and port for hours: another cluster may have had
    /// a port that the system gives away.
    #[must_use]
    pub fn with_cache(self, folder: &Path) -> Self {
        Self { cache: Some(folder.to_owned()), ..self }
    }

    /// Runs it and gives its standard output.
    ///
    /// # Errors
    /// When it fails; the message holds what it printed.
    pub fn try_run(&self, args: &[&str]) -> Result<String> {
        let output = self.output(args)?;
        if !output.status.success() {
            bail!("kubectl {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs it and gives its standard output, whether it succeeds or not: where one of many parts fails, kubectl prints
    /// the others.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn printed(&self, args: &[&str]) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.output(args)?.stdout).into_owned())
    }

    /// Applies the manifests of a file or folder by server-side apply, trying again while types are not yet served.
    ///
    /// # Errors
    /// When they are not all accepted within a minute.
    pub fn apply(&self, path: &Path) -> Result<()> {
        let path = path.display().to_string();
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            match self.try_run(&["apply", "--server-side", "--force-conflicts", "-f", &path]) {
                Ok(_) => return Ok(()),
                Err(e) if Instant::now() > end => return Err(e.context(format!("apply {path}"))),
                Err(_) => pause(),
            }
        }
    }

    fn output(&self, args: &[&str]) -> Result<Output> {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(args).stdin(Stdio::null());
        if let Some(folder) = &self.cache {
            command.env("KUBECACHEDIR", folder);
        }
        command.output().context("run kubectl")
    }
}

fn args(pairs: &[(&str, &str)]) -> Vec<String> {
    pairs.iter().map(|(key, value)| format!("--{key}={value}")).collect()
}

fn write_certificates(folder: &Path) -> Result<()> {
    let certificates = Certificates::for_loopback()?;
    for (name, text) in [
        ("ca.crt", &certificates.authority),
        ("server.crt", &certificates.certificate),
        ("server.key", &certificates.key),
        ("token.key", &certificates.token_key),
        ("token.pub", &certificates.token_public_key),
    ] {
        std::fs::write(folder.join(name), text)?;
    }
    Ok(())
}

fn audit_policy(folder: &Path) -> Result<String> {
    let path = folder.join("audit-policy.yaml");
    std::fs::write(
        &path,
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n",
    )?;
    Ok(path.display().to_string())
}

fn kubeconfig_text(url: &str, authority: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: testbed, cluster: {{server: \"{url}\", certificate-authority: \"{authority}\"}}}}]\n\
         users: [{{name: admin, user: {{token: {TOKEN}}}}}]\ncontexts: [{{name: testbed, context: {{cluster: testbed, user: admin}}}}]\ncurrent-context: testbed\n"
    )
}

fn wait(what: &str, daemon: &Daemon, ready: impl Fn() -> bool) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(60);
    while !ready() {
        if Instant::now() > end {
            bail!("{what} is not ready after a minute:\n{}", daemon.tail());
        }
        pause();
    }
    Ok(())
}

/// Between two looks at something that another process does.
#[allow(clippy::disallowed_methods, reason = "there is nothing to wait on but time")]
pub(crate) fn pause() {
    std::thread::sleep(Duration::from_millis(100));
}
