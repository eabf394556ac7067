//! The node with both installations, and what rows do with them.

use super::rows::MoverOptions;
use super::transfers::{Direction, FollowedOperation, MovedVolume, follow};
use crate::bench::bed::{Bed, pause};
use crate::bench::compared::sides::Side;
use crate::bench::programs::Programs;
use anyhow::{Context, Result, ensure};
use lifeboat_testbed::{
    ApiClient, LIFEBOAT_IMAGE, Node, S3Server, VELERO_IMAGE, VELERO_PLUGIN_IMAGE, VeleroPrograms, import_program,
    import_velero,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The bucket of both installations.
pub(super) const BUCKET: &str = "bench";
/// Transfers that our node agent runs at once.
pub(super) const AT_ONCE: usize = 4;
/// The ConfigMap of our node agent.
const SETTINGS: &str = "node-agent-config";
/// The folder in which kubelet keeps the volumes of pods.
const PODS: &str = "/var/lib/kubelet/pods";
/// Time limit for what takes some seconds.
const PATIENCE: Duration = Duration::from_secs(300);

/// An installation on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Installation {
    Lifeboat,
    Velero,
}

impl Installation {
    /// The side of a row on which its costs count. Its word is also the prefix in the bucket.
    pub(super) fn side(self) -> Side {
        match self {
            Self::Lifeboat => Side::Lifeboat,
            Self::Velero => Side::Velero,
        }
    }

    pub(super) fn namespace(self) -> &'static str {
        match self {
            Self::Lifeboat => "ours",
            Self::Velero => "theirs",
        }
    }
}

/// The namespace that is restored, and the one into which it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct RestoredNamespace<'a> {
    pub(super) from: &'a str,
    pub(super) into: &'a str,
}

/// The node, the bucket, and both installations.
pub(super) struct Ground<'a> {
    // Ended in this order.
    _node: Node,
    pub(super) s3: S3Server,
    pub(super) bed: Bed<'a>,
    pub(super) folder: &'a Path,
    scale: u64,
    pub(super) rounds: usize,
}

impl<'a> Ground<'a> {
    /// Starts a node and installs what the rows need.
    pub(super) fn start(programs: &'a Programs, folder: &'a Path, options: &MoverOptions) -> Result<Self> {
        let bed = Bed::start(programs, folder)?;
        let node = Node::start(&bed.plane)?;
        let s3 = S3Server::start_on_node()?;
        s3.make_bucket(BUCKET)?;
        import_program(&programs.lifeboat)?;
        let ground = Self { _node: node, s3, bed, folder, scale: options.scale, rounds: options.rounds };
        let (id, secret) = (ground.s3.access_key(), ground.s3.secret_key());
        std::fs::write(
            ground.credentials(),
            format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n"),
        )?;
        ground.install_ours()?;
        if options.need_velero() {
            ground.install_velero()?;
        }
        Ok(ground)
    }

    pub(super) fn client(&self) -> &ApiClient {
        self.bed.plane.client()
    }

    /// A size of the benchmark, divided as asked for.
    pub(super) fn scaled(&self, size: u64) -> u64 {
        (size / self.scale).max(1)
    }

    /// The installations in the order of a round: every other one begins with the other.
    pub(super) fn order(&self, round: usize) -> [Installation; 2] {
        use Installation::{Lifeboat, Velero};
        if round.is_multiple_of(2) { [Velero, Lifeboat] } else { [Lifeboat, Velero] }
    }

    pub(super) fn credentials(&self) -> PathBuf {
        self.folder.join("credentials")
    }

    fn flags(&self, installation: Installation) -> Vec<String> {
        let (region, endpoint) = (self.s3.region(), self.s3.endpoint());
        // Two installations find room on a small machine, and nothing holds a program back.
        let sizes = ["velero-pod-cpu", "velero-pod-mem", "node-agent-pod-cpu", "node-agent-pod-mem"];
        let unlimited = sizes.iter().flat_map(|what| [format!("--{what}-request=0"), format!("--{what}-limit=0")]);
        let flags = [
            format!("--namespace={}", installation.namespace()),
            "--provider=aws".to_owned(),
            format!("--bucket={BUCKET}"),
            format!("--prefix={}", installation.side().word()),
            format!("--backup-location-config=region={region},s3ForcePathStyle=true,s3Url={endpoint}"),
            format!("--secret-file={}", self.credentials().display()),
            "--use-volume-snapshots=false".to_owned(),
            "--use-node-agent".to_owned(),
        ];
        flags.into_iter().chain(unlimited).collect()
    }

    fn install_ours(&self) -> Result<()> {
        let own = Installation::Lifeboat.namespace();
        self.bed.plane.kubectl().try_run(&["create", "namespace", own])?;
        let settings = json!({"loadConcurrency": {"globalConfig": AT_ONCE}});
        self.bed.plane.create(&json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": SETTINGS, "namespace": own}, "data": {"config": settings.to_string()}}))?;
        let mut install = Command::new(&self.bed.programs.lifeboat);
        install.args(["install", "--wait", &format!("--image={LIFEBOAT_IMAGE}")]);
        install.arg(format!("--node-agent-configmap={SETTINGS}")).args(self.flags(Installation::Lifeboat));
        self.printed(&mut install)?;
        self.until_available(own)
    }

    /// Installs what Velero's client would, beside our definitions, which are the same.
    fn install_velero(&self) -> Result<()> {
        let (programs, own) = (VeleroPrograms::build()?, Installation::Velero.namespace());
        import_velero(&programs)?;
        let mut client = Command::new(&programs.velero);
        client.args(["install", "--dry-run", "-o", "json", &format!("--image={VELERO_IMAGE}")]);
        client.arg(format!("--plugins={VELERO_PLUGIN_IMAGE}")).args(self.flags(Installation::Velero));
        let all: Value = serde_json::from_str(&self.printed(&mut client)?).context("what velero install prints")?;
        let items = all["items"].as_array().into_iter().flatten();
        let items: Vec<&Value> = items.filter(|item| item["kind"] != "CustomResourceDefinition").collect();
        let file = self.folder.join("velero.json");
        std::fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())?;
        let kubectl = self.bed.plane.kubectl();
        kubectl.apply(&file)?;
        for workload in ["deployment/velero", "daemonset/node-agent"] {
            kubectl.try_run(&["rollout", "status", workload, "-n", own, "--timeout=300s"])?;
        }
        self.until_available(own)
    }

    /// Waits until the location of an installation can be used.
    fn until_available(&self, namespace: &str) -> Result<()> {
        self.until("a location that can be used", || {
            let location = self.client().get("backupstoragelocations.velero.io", "default", namespace)?;
            Ok(location.is_some_and(|location| location["status"]["phase"] == "Available"))
        })
    }

    /// Runs a client in this cluster and gives what it prints.
    fn printed(&self, command: &mut Command) -> Result<String> {
        let output = command.env("KUBECONFIG", self.bed.plane.kubeconfig()).output().context("run a client")?;
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "{command:?} ended with {}: {err}", output.status);
        Ok(out.into_owned())
    }

    /// Waits until something is so.
    pub(super) fn until(&self, what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while !holds()? {
            ensure!(Instant::now() < end, "{what} did not come to be within {} s", PATIENCE.as_secs());
            pause();
        }
        Ok(())
    }

    /// Makes a namespace with a pod that has so many volumes of its own, and gives their folders on the node.
    pub(super) fn application(&self, namespace: &str, volumes: usize) -> Result<Vec<PathBuf>> {
        let kubectl = self.bed.plane.kubectl();
        kubectl.try_run(&["create", "namespace", namespace])?;
        let names: Vec<String> = (0..volumes).map(|number| format!("data-{number}")).collect();
        let mounts: Vec<Value> =
            names.iter().map(|name| json!({"name": name, "mountPath": format!("/{name}")})).collect();
        let volumes: Vec<Value> = names.iter().map(|name| json!({"name": name, "emptyDir": {}})).collect();
        self.bed.plane.create(&json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {"terminationGracePeriodSeconds": 0, "volumes": volumes,
                "containers": [{"name": "a", "image": "testbed.local/busybox:1", "imagePullPolicy": "IfNotPresent",
                    "command": ["/bin/sh", "-c", "sleep 360000"], "volumeMounts": mounts}]}}))?;
        kubectl.try_run(&["wait", "--for=condition=Ready", "pod/web", "-n", namespace, "--timeout=300s"])?;
        names.iter().map(|name| self.folder_of(namespace, name)).collect()
    }

    /// The folder of a volume of the application's pod on the node.
    pub(super) fn folder_of(&self, namespace: &str, volume: &str) -> Result<PathBuf> {
        let pod = self.client().get("pods", "web", namespace)?.context("the pod of the application")?;
        let uid = pod["metadata"]["uid"].as_str().context("the UID of a pod")?;
        let folder = Path::new(PODS).join(uid).join("volumes/kubernetes.io~empty-dir").join(volume);
        ensure!(folder.is_dir(), "{} is no folder", folder.display());
        Ok(folder)
    }

    /// Saves the files of a namespace by an installation.
    pub(super) fn backup(&self, by: Installation, namespace: &str, name: &str) -> Result<Vec<MovedVolume>> {
        let spec = json!({"includedNamespaces": [namespace], "storageLocation": "default",
            "defaultVolumesToFsBackup": true, "snapshotVolumes": false});
        self.operation("Backup", by, name, &spec)?;
        follow(self.client(), FollowedOperation { direction: Direction::Backup, namespace: by.namespace(), name })
    }

    /// Restores a backup of a namespace into another one.
    pub(super) fn restore(
        &self,
        by: Installation,
        backup: &str,
        namespace: RestoredNamespace<'_>,
    ) -> Result<Vec<MovedVolume>> {
        let RestoredNamespace { from, into } = namespace;
        let spec = json!({"backupName": backup, "namespaceMapping": {from: into}});
        self.operation("Restore", by, backup, &spec)?;
        let of = FollowedOperation { direction: Direction::Restore, namespace: by.namespace(), name: backup };
        follow(self.client(), of)
    }

    fn operation(&self, kind: &str, by: Installation, name: &str, spec: &Value) -> Result<()> {
        let metadata = json!({"name": name, "namespace": by.namespace()});
        self.bed.plane.create(&json!({"apiVersion": "velero.io/v1", "kind": kind, "metadata": metadata, "spec": spec}))
    }

    /// Removes a namespace, and waits until it is gone.
    pub(super) fn lose(&self, namespace: &str) -> Result<()> {
        let gone = ["delete", "namespace", namespace, "--wait=true", "--timeout=300s"];
        self.bed.plane.kubectl().try_run(&gone).map(drop)
    }
}
