//! An application with claims on the node, and a server that backs it up.

use super::turn::Turn;
use crate::ground::{Ground, Server};
use crate::support::{Run, eventually, program, run};
use lifeboat_testbed::NODE_STATE;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// The Secret with the password of repositories.
pub(super) const REPOSITORY_SECRET: &str = "velero-repo-credentials";

/// A volume of a pod that sleeps, which mounts it below the root by its name.
#[derive(Clone, Copy, Debug)]
pub(super) enum PodVolume<'a> {
    /// A claim, whose name is also that of the volume.
    Claim(&'a str),
    EmptyDir(&'a str),
}

impl<'a> PodVolume<'a> {
    fn name(self) -> &'a str {
        match self {
            Self::Claim(name) | Self::EmptyDir(name) => name,
        }
    }

    fn source(self) -> Value {
        match self {
            Self::Claim(name) => json!({"name": name, "persistentVolumeClaim": {"claimName": name}}),
            Self::EmptyDir(name) => json!({"name": name, "emptyDir": {}}),
        }
    }
}

/// A container that sleeps and mounts volumes below the root, each by its name.
pub(super) fn sleeping_container(volumes: &[&str]) -> Value {
    let mount = |name: &&str| json!({"name": name, "mountPath": format!("/{name}")});
    let mounts: Vec<Value> = volumes.iter().map(mount).collect();
    json!({"name": "a", "image": "testbed.local/busybox:1", "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", "sleep 36000"], "volumeMounts": mounts})
}

/// A server's namespace and an application's on the node.
pub(super) struct Place {
    pub(super) ground: Ground,
    pub(super) own: String,
    pub(super) shop: String,
    name: String,
    // Given back when everything else has ended.
    _turn: Turn,
}

impl Place {
    pub(super) fn start(name: &str) -> Self {
        Self::of(Turn::beside_others(), name)
    }

    /// While no other test runs on the node: for what takes definitions or controllers away.
    pub(super) fn alone(name: &str) -> Self {
        Self::of(Turn::alone(), name)
    }

    fn of(turn: Turn, name: &str) -> Self {
        let own = format!("velero-{name}");
        let ground = Ground::with_node(&own);
        let place = Self { ground, own, shop: format!("shop-{name}"), name: name.to_owned(), _turn: turn };
        place.ground.bed.kubectl(&["create", "namespace", &place.shop]);
        let account = ["wait", "--for=create", "serviceaccount/default", "-n", &place.shop, "--timeout=180s"];
        place.ground.bed.kubectl(&account);
        place.ground.s3_location_in(&place.own, name, place.ground.s3.endpoint());
        place
    }

    pub(super) fn server(&self) -> Server {
        self.server_with(&[])
    }

    pub(super) fn server_with(&self, more: &[&str]) -> Server {
        let flags = ["--namespace", &self.own, "--features=EnableCSI", "--item-operation-sync-frequency=1s"];
        let flags = [&flags[..], more].concat();
        let server = self.ground.server_with("one", &self.ground.bed.plane.kubeconfig(), &flags);
        self.ground.until_in(&self.own, "backupstoragelocation", &self.name, "Available");
        server
    }

    pub(super) fn claim(&self, name: &str, labels: &Value) {
        self.ground.create(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": self.shop, "labels": labels},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "csi",
                "resources": {"requests": {"storage": "16Mi"}}}}));
        eventually("a bound claim", || {
            self.ground.get_in(&self.shop, "persistentvolumeclaim", name)["status"]["phase"] == "Bound"
        });
    }

    /// A pod that mounts a claim.
    pub(super) fn pod(&self, name: &str, claim: &str, annotations: &Value) {
        self.ground.create(&json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": self.shop, "annotations": annotations},
        "spec": {"terminationGracePeriodSeconds": 0,
            "containers": [{"name": "a", "image": "testbed.local/busybox:1", "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", "-c", "echo precious > /data/file; sync; sleep 3600"],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}}));
        self.until_ready(&self.shop, name);
    }

    /// Starts a pod that sleeps and mounts volumes, with labels and annotations as the metadata say, and waits until it
    /// runs.
    pub(super) fn sleeper(&self, name: &str, volumes: &[PodVolume<'_>], metadata: &Value) {
        let mut metadata = metadata.clone();
        metadata["name"] = json!(name);
        metadata["namespace"] = json!(self.shop);
        let names: Vec<&str> = volumes.iter().map(|volume| volume.name()).collect();
        let sources: Vec<Value> = volumes.iter().map(|volume| volume.source()).collect();
        self.ground.create(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [sleeping_container(&names)], "volumes": sources}}));
        self.until_ready(&self.shop, name);
    }

    /// Waits until a pod is ready.
    pub(super) fn until_ready(&self, namespace: &str, pod: &str) {
        let pod = format!("pod/{pod}");
        self.ground.bed.kubectl(&["wait", "--for=condition=Ready", &pod, "-n", namespace, "--timeout=180s"]);
    }

    /// Lists all entries of folders below the root of a pod with their owners and modes, and hashes the files. A folder
    /// that is not there has no entries.
    pub(super) fn look(&self, namespace: &str, pod: &str, folders: &[&str]) -> String {
        let command = format!(
            "cd / && for d in {}; do [ -d $d ] && find $d; done | sort | grep -v -e /.velero -e lost+found | \
             while read f; do stat -c '%n %u:%g %a %F' $f; [ -f $f ] && sha256sum < $f; done; true",
            folders.join(" ")
        );
        self.ask(namespace, pod, &command)
    }

    pub(super) fn backup(&self, name: &str, rest: &Value) {
        let mut spec = json!({"includedNamespaces": [self.shop], "storageLocation": self.name});
        spec.as_object_mut().expect("a map").extend(rest.as_object().cloned().unwrap_or_default());
        self.ground.velero_in(&self.own, "Backup", name, &spec);
    }

    /// Runs the program against the server's namespace.
    pub(super) fn lifeboat(&self, arguments: &[&str]) -> Run {
        run(&mut self.command(arguments))
    }

    /// The same, to be run.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(arguments).args(["--namespace", &self.own]);
        command.env("KUBECONFIG", self.ground.bed.plane.kubeconfig());
        command
    }

    /// The output of a shell command in a pod.
    pub(super) fn ask(&self, namespace: &str, pod: &str, command: &str) -> String {
        self.ground.bed.kubectl(&["exec", "-n", namespace, pod, "--", "/bin/sh", "-c", command])
    }

    /// Loses a namespace with everything in it, and waits until it is gone.
    pub(super) fn lose(&self, namespace: &str) {
        self.ground.bed.kubectl(&["delete", "namespace", namespace, "--wait=true", "--timeout=120s"]);
    }

    pub(super) fn described(&self, name: &str) -> Value {
        let mut command = Command::new(program());
        command.args(["backup", "describe", name, "--details", "-o", "json", "--namespace", &self.own]);
        let run = run(command.env("KUBECONFIG", self.ground.bed.plane.kubeconfig()));
        assert_eq!(run.code, 0, "{run:?}");
        serde_json::from_str(&run.out).expect("JSON")
    }

    /// The objects of snapshots in the application's namespace, and the contents of the whole cluster that belong to
    /// them.
    pub(super) fn snapshot_objects(&self) -> (usize, usize) {
        self.snapshot_objects_in(&self.shop)
    }

    /// Counts the VolumeSnapshots of a namespace, and the VolumeSnapshotContents that belong to it.
    pub(super) fn snapshot_objects_in(&self, namespace: &str) -> (usize, usize) {
        let of_namespace = format!("@.spec.volumeSnapshotRef.namespace==\"{namespace}\"");
        let snapshots = self.ground.bed.kubectl(&["get", "volumesnapshots", "-n", namespace, "-o", "name"]);
        (snapshots.lines().filter(|line| !line.is_empty()).count(), self.contents(&of_namespace).len())
    }

    /// The names of the VolumeSnapshotContents for which a condition of JSONPath holds.
    pub(super) fn contents(&self, condition: &str) -> Vec<String> {
        let paths = format!("jsonpath={{range .items[?({condition})]}}{{.metadata.name}}{{\"\\n\"}}{{end}}");
        let names = self.ground.bed.kubectl(&["get", "volumesnapshotcontents", "-o", &paths]);
        names.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// The handles of the snapshots that the driver has of claims of the application.
    pub(super) fn handles(&self) -> Vec<String> {
        let of_shop = |one: &Value| self.is_of_shop(&one["Claim"]);
        entries(&driver()["Snapshots"]).filter(|(_, one)| of_shop(one)).map(|(handle, _)| handle.clone()).collect()
    }

    /// The handles of the groups of snapshots that the driver has of claims of the application.
    pub(super) fn groups(&self) -> Vec<String> {
        let of_shop = |one: &Value| one["Claims"].as_array().is_some_and(|all| all.iter().any(|c| self.is_of_shop(c)));
        entries(&driver()["Groups"]).filter(|(_, one)| of_shop(one)).map(|(handle, _)| handle.clone()).collect()
    }

    fn is_of_shop(&self, claim: &Value) -> bool {
        claim.as_str().and_then(|claim| claim.split_once('/')).is_some_and(|(namespace, _)| namespace == self.shop)
    }

    pub(super) fn end(&self) {
        self.ground.bed.kubectl(&["delete", "namespace", &self.shop, &self.own, "--wait=false"]);
    }
}

/// The state of the CSI driver.
fn driver() -> Value {
    let state = std::fs::read(Path::new(NODE_STATE).join("csi/state.json")).expect("the driver's state");
    serde_json::from_slice(&state).expect("JSON")
}

fn entries(kept: &Value) -> impl Iterator<Item = (&String, &Value)> {
    kept.as_object().into_iter().flatten()
}
