//! etcd, API server and controller manager.

use crate::Binaries;
use crate::api_client::ApiClient;
use crate::certificates::Certificates;
use crate::command::output_within;
use crate::etcd::{Baseline, Etcd};
use crate::furnish::{namespaces_in, namespaces_printed, until_furnished};
use crate::pause::pause;
use crate::process::{Daemon, free_port, until_ready};
use crate::stored::stored;
use anyhow::{Context, Result, bail};
use serde_json::Value;
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
    client: ApiClient,
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
    /// The folder of kubectl's discovery cache. The default one is keyed by host and port, and ports are reused.
    cache: PathBuf,
    /// For what is looked at beside kubectl; `None` where the kubeconfig is not one of a control plane of ours.
    client: Option<ApiClient>,
}

/// The time within which a control plane comes to rest.
const REST: Duration = Duration::from_secs(30);

const TOKEN: &str = "testbed-admin";
const CONTROLLERS_LOG: &str = "controller-manager.log";

impl ControlPlane {
    /// Starts all three on free ports and waits until the default service account exists.
    ///
    /// # Errors
    /// When a program does not start or is not ready within [`crate::START_TIMEOUT`]; the message holds the end of its log.
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
        let client = ApiClient::of_kubeconfig(&kubeconfig)?;
        until_ready("the API server", &[&api_server], || client.read("/readyz").is_ok())?;
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
            &at(CONTROLLERS_LOG),
        )?;
        until_ready("the controller manager", &[&controller_manager], || {
            matches!(client.get("serviceaccount", "default", "default"), Ok(Some(_)))
        })?;
        Ok(Self {
            _programs: vec![controller_manager, api_server, etcd],
            folder: folder.path().to_owned(),
            _data: Some(folder),
            kubectl: binaries.path("kubectl"),
            url,
            client,
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
            until_furnished(&plane.client, &[namespace], &plane.controllers_log())?;
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
        plane.groups = served_groups(&plane.client)?;
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
        while served_groups(&self.client)? != self.groups {
            if Instant::now() > end {
                bail!("other API groups than at the beginning are served still after {} s", REST.as_secs());
            }
            pause();
        }
        self.client.forget_types();
        Ok(())
    }

    /// Writes objects behind the API server, which learns of them by its watches: thousands in a second. Nobody validates them,
    /// and they have no managed fields.
    ///
    /// # Errors
    /// When the kind of one is not among those that can be written so; when etcd does not answer, or belongs to another process.
    pub fn store(&self, objects: &[Value]) -> Result<()> {
        let etcd = self.etcd.context("another process has started this control plane")?;
        etcd.put(&objects.iter().map(stored).collect::<Result<Vec<_>>>()?)
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
            client: ApiClient::of_kubeconfig(kubeconfig)?,
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

    /// Requests with all rights, without kubectl.
    #[must_use]
    pub fn client(&self) -> &ApiClient {
        &self.client
    }

    /// As [`Kubectl::create`].
    ///
    /// # Errors
    /// As [`Kubectl::create`].
    pub fn create(&self, object: &Value) -> Result<()> {
        self.kubectl().create(object)
    }

    fn controllers_log(&self) -> PathBuf {
        self.folder.join(CONTROLLERS_LOG)
    }

    /// kubectl with all rights.
    #[must_use]
    pub fn kubectl(&self) -> Kubectl {
        // Each use has other types.
        let cache = self.folder.join(format!("kubectl-{}", self.uses));
        let client = Some(self.client.clone());
        Kubectl { program: self.kubectl.clone(), kubeconfig: self.kubeconfig(), cache, client }
    }
}

/// The time after which a run of kubectl is killed: longer than any wait that a test asks it for.
const LONGEST_RUN: Duration = Duration::from_secs(600);

impl Kubectl {
    /// kubectl for a kubeconfig. What it learns of the cluster lies beside that, in `cache`.
    ///
    /// # Errors
    /// When the programs cannot be built.
    pub fn new(kubeconfig: &Path) -> Result<Self> {
        let (program, client) = (Binaries::ensure()?.path("kubectl"), ApiClient::of_kubeconfig(kubeconfig).ok());
        let cache = kubeconfig.with_file_name("cache");
        Ok(Self { program, kubeconfig: kubeconfig.to_owned(), cache, client })
    }

    /// With another program, as of [`crate::build_kubectl`].
    #[must_use]
    pub fn with_program(self, program: PathBuf) -> Self {
        Self { program, ..self }
    }

    /// A client for the same cluster with the same rights; `None` for a kubeconfig of another form than those of the test bed.
    #[must_use]
    pub fn client(&self) -> Option<&ApiClient> {
        self.client.as_ref()
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
        if let (Some(client), Some(&("create" | "apply"))) = (&self.client, args.first()) {
            let log = self.kubeconfig.with_file_name(CONTROLLERS_LOG);
            until_furnished(client, &namespaces_printed(&printed), &log)?;
        }
        Ok(printed)
    }

    /// Makes an object, or each of a List, as `kubectl create` does, and waits as [`Self::try_run`] does. Where requests can be sent
    /// without kubectl they are.
    ///
    /// # Errors
    /// When the server refuses it; as [`Self::try_run`].
    pub fn create(&self, object: &Value) -> Result<()> {
        if let Some(client) = &self.client {
            client.create(object)?;
            return until_furnished(client, &namespaces_in(object), &self.kubeconfig.with_file_name(CONTROLLERS_LOG));
        }
        let file = tempfile::Builder::new().suffix(".json").tempfile()?;
        std::fs::write(file.path(), object.to_string())?;
        self.try_run(&["create", "--filename", &file.path().display().to_string()]).map(drop)
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
        command.env("KUBECACHEDIR", &self.cache);
        output_within(LONGEST_RUN, &mut command).with_context(|| format!("kubectl {}", args.join(" ")))
    }
}

/// The API groups that an API server serves.
fn served_groups(client: &ApiClient) -> Result<BTreeSet<String>> {
    let groups = client.read("/apis")?;
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
