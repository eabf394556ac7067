//! etcd, API server and controller manager.

use crate::Binaries;
use crate::certificates::Certificates;
use crate::etcd::{Baseline, Etcd};
use crate::process::{Daemon, free_port};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
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
    /// `None` when another process has started it.
    etcd: Option<Etcd>,
    /// The keys of the new control plane, once they are asked for.
    baseline: Option<Baseline>,
    /// The API groups that it served then.
    groups: BTreeSet<String>,
    /// The number of times that it was put back.
    uses: u32,
}

/// Runs kubectl with one kubeconfig.
#[derive(Clone, Debug)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    /// The folder of its discovery cache; kubectl's usual one otherwise.
    cache: Option<PathBuf>,
}

/// The time within which a control plane comes to rest.
const REST: Duration = Duration::from_secs(30);

/// The time within which controllers make what each namespace has. They share two cores with other control planes, which take
/// all of them while definitions are new.
const FURNISHED: Duration = Duration::from_secs(120);

/// The time after which a controller is taken to have missed that an object is gone.
const MISSED: Duration = Duration::from_secs(20);

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
        let etcd = Daemon::start_in(
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
            Some(folder.path()),
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
            etcd: Some(Etcd { port: etcd_port }),
            baseline: None,
            groups: BTreeSet::new(),
            uses: 0,
        })
    }

    /// Starts one that can be [put back](Self::put_back): waits until nothing more comes by itself, and notes what is there.
    ///
    /// # Errors
    /// As [`Self::start`]; when it does not come to rest within half a minute.
    pub fn start_for_many() -> Result<Self> {
        let mut plane = Self::start()?;
        let etcd = plane.etcd.context("a control plane of this process")?;
        for namespace in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            let made = ["get", "serviceaccount/default", "configmap/kube-root-ca.crt", "--namespace", namespace];
            let end = Instant::now() + REST;
            while plane.kubectl().try_run(&made).is_err() {
                if Instant::now() > end {
                    bail!("the namespace {namespace} has no default service account after {} s", REST.as_secs());
                }
                pause();
            }
        }
        let mut baseline = etcd.baseline()?;
        let end = Instant::now() + REST;
        // Whatever comes now is deleted and comes again, as long as somebody wants it; so it is noted instead.
        loop {
            pause();
            let now = etcd.baseline()?;
            let is_at_rest = now.differs_in_nothing(&baseline);
            baseline = now;
            if is_at_rest {
                break;
            }
            if Instant::now() > end {
                bail!("the control plane does not come to rest within {} s", REST.as_secs());
            }
        }
        plane.baseline = Some(baseline);
        plane.groups = served_groups(&plane.kubectl())?;
        Ok(plane)
    }

    /// Puts everything back to as it was when the control plane was new, and waits until the API server serves the types of
    /// then and no others.
    ///
    /// # Errors
    /// When there are workloads, which controllers remember; when etcd does not answer, or things do not come to rest. Then it
    /// is of no more use.
    pub fn put_back(&mut self) -> Result<()> {
        let etcd = self.etcd.context("another process has started this control plane")?;
        self.uses += 1;
        let kubectl = self.kubectl();
        let baseline = self.baseline.as_mut().context("the keys of this control plane were not noted")?;
        let end = Instant::now() + REST;
        let mut rests = 0;
        // Controllers answer to what they see go; two looks that find nothing say that they are done.
        while rests < 2 {
            rests = if etcd.put_back(baseline)? == 0 { rests + 1 } else { 0 };
            if Instant::now() > end {
                bail!("the control plane does not come to rest within {} s", REST.as_secs());
            }
            pause();
        }
        while served_groups(&kubectl)? != self.groups {
            if Instant::now() > end {
                bail!("other API groups than at the beginning are served still after {} s", REST.as_secs());
            }
            pause();
        }
        Ok(())
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
        Ok(Self {
            _programs: Vec::new(),
            _data: None,
            folder,
            kubectl,
            url: url.to_owned(),
            etcd: None,
            baseline: None,
            groups: BTreeSet::new(),
            uses: 0,
        })
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
        // It remembers types by host and port: each use has others.
        let cache = self.etcd.map(|_| self.folder.join(format!("kubectl-{}", self.uses)));
        Kubectl { program: self.kubectl.clone(), kubeconfig: self.kubeconfig(), cache }
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

    /// Runs it and gives its standard output. Where it makes namespaces, waits for the objects that controllers make in each:
    /// a test that lists a namespace would see them or not, as fast as a controller is.
    ///
    /// # Errors
    /// When it fails; the message holds what it printed. When a new namespace has not got its objects within two minutes.
    pub fn try_run(&self, args: &[&str]) -> Result<String> {
        let output = self.output(args)?;
        if !output.status.success() {
            bail!("kubectl {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if matches!(args.first(), Some(&("create" | "apply"))) {
            self.until_furnished(&namespaces_made(&printed))?;
        }
        Ok(printed)
    }

    /// Waits until namespaces have a service account and the certificate of the cluster's authority.
    fn until_furnished(&self, namespaces: &[&str]) -> Result<()> {
        let begun = Instant::now();
        for (resource, name) in [("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default")] {
            let selector = format!("--field-selector=metadata.name={name}");
            let list =
                ["get", resource, "--all-namespaces", &selector, "--output=jsonpath={.items[*].metadata.namespace}"];
            while !namespaces.is_empty() {
                let output = self.output(&list)?;
                let (listed, refused) =
                    (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
                let furnished: BTreeSet<&str> = listed.split_whitespace().collect();
                // Who may not look has to wait by other means.
                if namespaces.iter().all(|name| furnished.contains(name)) || refused.contains("Forbidden") {
                    break;
                }
                if begun.elapsed() > MISSED {
                    self.furnish(namespaces, resource, name)?;
                }
                if begun.elapsed() > FURNISHED {
                    let log = self.kubeconfig.with_file_name("controller-manager.log");
                    let log = std::fs::read_to_string(log).unwrap_or_default();
                    let last: Vec<&str> = log.lines().rev().take(40).collect();
                    let (names, last) = (namespaces.join(", "), last.join("\n"));
                    bail!("{names} has no {resource}/{name} after {} s: {refused}\n{last}", FURNISHED.as_secs());
                }
                pause();
            }
        }
        Ok(())
    }

    /// Makes the object of a controller in namespaces that lack it. A controller that has missed the deletion of one, when its
    /// control plane was put back, takes it for there and never makes it again.
    fn furnish(&self, namespaces: &[&str], resource: &str, name: &str) -> Result<()> {
        let model = self.output(&["get", resource, name, "--namespace=kube-system", "--output=json"])?;
        let Ok(model) = serde_json::from_slice(&model.stdout) else { return Ok(()) };
        for namespace in namespaces {
            let file = tempfile::Builder::new().suffix(".json").tempfile()?;
            std::fs::write(file.path(), copy_for(&model, namespace).to_string())?;
            // One that is there by now is refused.
            self.output(&["create", "--filename", &file.path().display().to_string()])?;
        }
        Ok(())
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

/// The object that a controller makes in a namespace, as it stands in another one.
fn copy_for(object: &serde_json::Value, namespace: &str) -> serde_json::Value {
    let mut copy = object.clone();
    let annotations = &object["metadata"]["annotations"];
    copy["metadata"] = serde_json::json!({"name": object["metadata"]["name"], "namespace": namespace});
    if annotations.is_object() {
        copy["metadata"]["annotations"] = annotations.clone();
    }
    copy
}

/// The namespaces that kubectl says it has created or applied, by the lines that it prints.
fn namespaces_made(printed: &str) -> Vec<&str> {
    let made = printed.lines().filter_map(|line| line.strip_prefix("namespace/")?.split_once(' '));
    made.filter(|(_, done)| matches!(*done, "created" | "serverside-applied")).map(|(name, _)| name).collect()
}

/// The API groups that an API server serves.
fn served_groups(kubectl: &Kubectl) -> Result<BTreeSet<String>> {
    let groups: serde_json::Value = serde_json::from_str(&kubectl.try_run(&["get", "--raw", "/apis"])?)?;
    let groups = groups["groups"].as_array().context("the groups that are served")?;
    Ok(groups.iter().filter_map(|group| Some(group["name"].as_str()?.to_owned())).collect())
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
