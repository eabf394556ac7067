//! A cluster in memory in which the test plays kubelet, scheduler and controllers.

use crate::agent::{Agent, AgentError, run};
use crate::config::NodeAgentConfig;
use crate::health::Health;
use crate::kube::{Kube, ObjectName};
use crate::resources;
use crate::settings::AgentSettings;
use crate::transfer::TransferKind;
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use lifeboat_cluster::{Cluster, ConnectOptions, MergePatch};
use lifeboat_object::ApiResource;
use lifeboat_operation::Clock;
use lifeboat_reconcile::{MirrorEvent, MirroredType};
use lifeboat_sandbox::{Sandbox, SandboxOptions};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// The longest wait for something that must come.
const PATIENCE: Duration = Duration::from_secs(30);
pub(super) const NODE: &str = "n1";

/// The definition of a type of snapshots, without its rules.
fn snapshot_type(plural: &str, kind: &str, scope: &str) -> Value {
    let group = "snapshot.storage.k8s.io";
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": scope, "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

pub(super) struct Ground {
    pub(super) kube: Kube,
    pub(super) config: NodeAgentConfig,
    pub(super) concurrency: usize,
    later: Arc<Mutex<SignedDuration>>,
    host_root: tempfile::TempDir,
    agents: JoinSet<Result<(), AgentError>>,
    stop: CancellationToken,
    _sandbox: Sandbox,
}

impl Ground {
    /// A cluster with the DaemonSet of the node agent, and the pod `shop/db-0` that waits for its volumes.
    pub(super) async fn start() -> Self {
        let options = SandboxOptions { now: Arc::new(Timestamp::now), ..SandboxOptions::for_tests() };
        let sandbox = Sandbox::start(options).await.unwrap();
        let namespaces =
            ["velero", "shop"].map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        let container = json!({
            "name": "node-agent", "image": "velero:1", "volumeMounts": [{"name": "host-pods", "mountPath": "/host_pods"}],
        });
        let volumes = json!([{"name": "host-pods", "hostPath": {"path": "/var/lib/kubelet/pods"}}]);
        let template = json!({"spec": {"containers": [container], "volumes": volumes}});
        let daemon_set = json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "node-agent", "namespace": "velero"},
            "spec": {"template": template},
        });
        let snapshot_types = [
            snapshot_type("volumesnapshots", "VolumeSnapshot", "Namespaced"),
            snapshot_type("volumesnapshotcontents", "VolumeSnapshotContent", "Cluster"),
        ];
        let objects = namespaces.into_iter().chain(lifeboat_api::crds()).chain(snapshot_types).chain([daemon_set]);
        sandbox.apply(objects.collect()).await.unwrap();
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&kubeconfig, sandbox.kubeconfig()).unwrap();
        let options = ConnectOptions { kubeconfig: Some(kubeconfig.path().into()), ..ConnectOptions::default() };
        Self {
            kube: Kube(Cluster::connect(&options).await.unwrap()),
            config: NodeAgentConfig::default(),
            concurrency: 1,
            later: Arc::default(),
            host_root: tempfile::tempdir().unwrap(),
            agents: JoinSet::new(),
            stop: CancellationToken::new(),
            _sandbox: sandbox,
        }
    }

    /// The settings of an agent.
    pub(super) fn settings(&self) -> AgentSettings {
        AgentSettings {
            node: NODE.to_owned(),
            namespace: "velero".to_owned(),
            resource_timeout: Duration::from_secs(600),
            prepare_timeout: Duration::from_secs(1800),
            host_root: self.host_root.path().to_owned(),
            cache_limit_mb: 5000,
        }
    }

    /// Makes an agent that does not run yet.
    pub(super) fn new_agent(&self) -> Agent {
        let later = Arc::clone(&self.later);
        let clock: Clock = Arc::new(move || Timestamp::now() + *later.lock().unwrap());
        Agent {
            cluster: self.kube.0.clone(),
            settings: self.settings(),
            config: self.config.clone(),
            concurrency: self.concurrency,
            clock,
            health: Arc::new(Health::new(NODE.to_owned())),
        }
    }

    /// Starts an agent.
    pub(super) fn agent(&mut self) {
        let agent = self.new_agent();
        self.agents.spawn(run(agent, self.stop.clone()));
    }

    /// Stops the agent, as an update of the DaemonSet does.
    pub(super) async fn kill(&mut self) {
        self.stop.cancel();
        while let Some(ended) = self.agents.join_next().await {
            ended.unwrap().unwrap();
        }
        self.stop = CancellationToken::new();
    }

    /// Lets so much time pass, and lets the agent notice it by a change of a transfer.
    pub(super) async fn pass(&self, time: SignedDuration, kind: TransferKind, name: &str) {
        let later = {
            let mut later = self.later.lock().unwrap();
            *later += time;
            *later
        };
        self.patch(
            &kind.resource(),
            "velero",
            name,
            json!({"metadata": {"annotations": {"touched": later.to_string()}}}),
        )
        .await;
    }

    /// Makes a target pod with a volume that has a directory on the node, and gives its UID.
    pub(super) async fn target_pod(&self, name: &str) -> String {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop"},
            "spec": {
                "nodeName": NODE, "initContainers": [{"name": "restore-wait"}],
                "volumes": [{"name": "data", "emptyDir": {}}],
            },
        });
        let made = self.create(&resources::pods(), pod).await;
        let status =
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "restore-wait", "state": {"running": {}}}]});
        self.status(&resources::pods(), "shop", name, status).await;
        let uid = made["metadata"]["uid"].as_str().unwrap().to_owned();
        let directory = self.host_root.path().join(&uid).join("volumes/kubernetes.io~empty-dir/data");
        std::fs::create_dir_all(directory).unwrap();
        uid
    }

    /// Asks for the restore of the volume of a pod.
    pub(super) async fn restore(&self, name: &str, pod: (&str, &str)) {
        let spec = json!({
            "pod": {"namespace": "shop", "name": pod.0, "uid": pod.1}, "volume": "data",
            "backupStorageLocation": "default", "repoIdentifier": "", "uploaderType": "kopia", "snapshotID": "k1",
            "sourceNamespace": "shop",
        });
        let object = json!({
            "apiVersion": "velero.io/v1", "kind": "PodVolumeRestore", "metadata": {"name": name, "namespace": "velero"},
            "spec": spec,
        });
        self.create(&TransferKind::PodVolumeRestore.resource(), object).await;
    }

    /// Plays the kubelet: the target pod has all its volumes and runs.
    pub(super) async fn target_runs(&self, name: &str) {
        self.status(&resources::pods(), "shop", name, json!({"phase": "Running", "initContainerStatuses": null})).await;
    }

    /// Asks for the backup of the volume of a pod on a node.
    pub(super) async fn backup(&self, name: &str, node: &str, pod: (&str, &str)) {
        let spec = json!({
            "node": node, "pod": {"namespace": "shop", "name": pod.0, "uid": pod.1}, "volume": "data",
            "backupStorageLocation": "default", "repoIdentifier": "", "uploaderType": "kopia",
        });
        let object = json!({
            "apiVersion": "velero.io/v1", "kind": "PodVolumeBackup", "metadata": {"name": name, "namespace": "velero"},
            "spec": spec,
        });
        self.create(&TransferKind::PodVolumeBackup.resource(), object).await;
    }

    /// Makes a claim that waits for a volume.
    pub(super) async fn target_claim(&self, spec: Value) {
        let object = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop"},
            "spec": spec,
        });
        self.create(&resources::claims(), object).await;
        self.status(&resources::claims(), "shop", "data", json!({"phase": "Pending"})).await;
    }

    /// Asks for the download of a snapshot into the claim `shop/data`.
    pub(super) async fn download(&self, name: &str) {
        let spec = json!({
            "targetVolume": {"pvc": "data", "pv": "", "namespace": "shop"}, "backupStorageLocation": "default",
            "snapshotID": "k1", "sourceNamespace": "shop", "operationTimeout": "10m0s",
        });
        let object = json!({
            "apiVersion": "velero.io/v2alpha1", "kind": "DataDownload", "metadata": {"name": name, "namespace": "velero"},
            "spec": spec,
        });
        self.create(&TransferKind::DataDownload.resource(), object).await;
    }

    /// Plays the provisioner: makes a volume for the claim in which a download is restored.
    pub(super) async fn provision(&self, claim: &str, policy: &str) {
        let found = self.there(&resources::claims(), "velero", claim).await;
        let claim_ref = json!({"namespace": "velero", "name": claim, "uid": found["metadata"]["uid"]});
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": "pv-1", "annotations": {"pv.kubernetes.io/provisioned-by": "d"}},
            "spec": {"persistentVolumeReclaimPolicy": policy, "claimRef": claim_ref},
        });
        self.create(&resources::volumes(), volume).await;
        self.patch(&resources::claims(), "velero", claim, json!({"spec": {"volumeName": "pv-1"}})).await;
        self.status(&resources::claims(), "velero", claim, json!({"phase": "Bound"})).await;
    }

    /// Plays the binder: binds the target to the volume that is reserved for it.
    pub(super) async fn bind_target(&self) {
        let is_reserved =
            |volume: Option<&Value>| volume.is_some_and(|volume| volume["spec"]["claimRef"]["namespace"] == "shop");
        self.until(&resources::volumes(), None, "pv-1", is_reserved).await;
        self.status(&resources::claims(), "shop", "data", json!({"phase": "Bound"})).await;
    }

    /// Makes the snapshot of the claim `shop/data`, as a driver whose name for it is `snap-1`.
    pub(super) async fn snapshot(&self, is_ready: bool) {
        self.target_claim(json!({
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "8Mi"}}, "storageClassName": "fast",
        }))
        .await;
        let content = json!({
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
            "metadata": {"name": "snapcontent-1"}, "status": {"snapshotHandle": "snap-1"},
            "spec": {
                "deletionPolicy": "Delete", "driver": "d", "source": {"volumeHandle": "vol"},
                "volumeSnapshotRef": {"namespace": "shop", "name": "vs"},
            },
        });
        self.create(&resources::snapshot_contents(), content).await;
        let status =
            json!({"boundVolumeSnapshotContentName": "snapcontent-1", "readyToUse": is_ready, "restoreSize": "8Mi"});
        let snapshot = json!({
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
            "metadata": {"name": "vs", "namespace": "shop"}, "spec": {"source": {"persistentVolumeClaimName": "data"}},
            "status": status,
        });
        self.create(&resources::snapshots(), snapshot).await;
    }

    /// Asks for the snapshot of the claim `shop/data` to be moved.
    pub(super) async fn upload(&self, name: &str) {
        let spec = json!({
            "snapshotType": "CSI", "sourcePVC": "data", "sourceNamespace": "shop", "backupStorageLocation": "default",
            "csiSnapshot": {"volumeSnapshot": "vs", "storageClass": "fast", "snapshotClass": "", "driver": "d"},
            "operationTimeout": "10m0s",
        });
        let object = json!({
            "apiVersion": "velero.io/v2alpha1", "kind": "DataUpload", "metadata": {"name": name, "namespace": "velero"},
            "spec": spec,
        });
        self.create(&TransferKind::DataUpload.resource(), object).await;
    }

    /// Plays the provisioner: the volume goes when its claim has gone.
    pub(super) async fn delete_volume(&self, claim: &str) {
        self.gone(&resources::claims(), claim).await;
        self.kube.0.delete(&resources::volumes(), None, "pv-1").await.unwrap();
    }

    /// Plays the driver: deletes the snapshot when its content is told to go, and lets the content go.
    pub(super) async fn delete_snapshot(&self, content: &str) {
        let contents = resources::snapshot_contents();
        let goes =
            |found: Option<&Value>| found.is_some_and(|found| found["metadata"]["deletionTimestamp"].is_string());
        let content_goes = self.until(&contents, None, content, goes).await.unwrap();
        assert_eq!(content_goes["spec"]["deletionPolicy"], "Delete");
        let of = ObjectName { resource: &contents, namespace: None, name: content };
        self.kube.patch(of, &json!({"metadata": {"finalizers": null}})).await.unwrap();
    }

    /// The names of all objects of snapshots.
    pub(super) async fn snapshot_names(&self) -> Vec<String> {
        let mut all = self.kube.list(resources::snapshots(), None, "", "").await.unwrap();
        all.extend(self.kube.list(resources::snapshot_contents(), None, "", "").await.unwrap());
        all.iter().map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits for a pod of this name that is another one than that with this UID.
    pub(super) async fn another_pod(&self, name: &str, than: &Value) -> Value {
        let is_other =
            |found: Option<&Value>| found.is_some_and(|found| found["metadata"]["uid"] != than["metadata"]["uid"]);
        self.until(&resources::pods(), Some("velero"), name, is_other).await.unwrap()
    }

    /// Plays the kubelet: the mover's pod is in this phase, and has ended with this message.
    pub(super) async fn pod_is(&self, name: &str, phase: &str, message: &str) {
        self.there(&resources::pods(), "velero", name).await;
        let code = i32::from(phase != "Succeeded");
        let state = match phase {
            "Running" => json!({"running": {}}),
            _ => json!({"terminated": {"exitCode": code, "reason": "Error", "message": message}}),
        };
        let status = json!({"phase": phase, "containerStatuses": [{"name": "mover", "state": state}]});
        self.patch(&resources::pods(), "velero", name, json!({"spec": {"nodeName": NODE}})).await;
        self.status(&resources::pods(), "velero", name, status).await;
    }

    pub(super) async fn cancel(&self, kind: TransferKind, name: &str) {
        self.patch(&kind.resource(), "velero", name, json!({"spec": {"cancel": true}})).await;
    }

    pub(super) async fn create(&self, resource: &ApiResource, object: Value) -> Value {
        let name = object["metadata"]["name"].as_str().unwrap();
        let namespace = object["metadata"]["namespace"].as_str();
        self.kube.create(ObjectName { resource, namespace, name }, &object).await.unwrap().unwrap()
    }

    pub(super) async fn patch(&self, resource: &ApiResource, namespace: &str, name: &str, patch: Value) {
        self.kube.patch(ObjectName { resource, namespace: Some(namespace), name }, &patch).await.unwrap();
    }

    /// Sets the status of an object of Kubernetes, which its own patches leave as it is.
    pub(super) async fn status(&self, resource: &ApiResource, namespace: &str, name: &str, status: Value) {
        let body = Bytes::from(json!({"status": status}).to_string());
        let patch = MergePatch { body, subresource: Some("status") };
        self.kube.0.patch(resource, Some(namespace), name, patch).await.unwrap();
    }

    pub(super) async fn delete(&self, resource: &ApiResource, namespace: &str, name: &str) {
        self.kube.0.delete(resource, Some(namespace), name).await.unwrap();
    }

    /// An object, when it is there.
    pub(super) async fn there(&self, resource: &ApiResource, namespace: &str, name: &str) -> Value {
        self.until(resource, Some(namespace), name, |found| found.is_some()).await.unwrap()
    }

    /// Waits until an object is gone.
    pub(super) async fn gone(&self, resource: &ApiResource, name: &str) {
        self.until(resource, Some("velero"), name, |found| found.is_none()).await;
    }

    /// Waits until a transfer is in this phase, and gives it.
    pub(super) async fn phase(&self, kind: TransferKind, name: &str, phase: &str) -> Value {
        let is_in = |found: Option<&Value>| found.is_some_and(|found| found["status"]["phase"] == phase);
        self.until(&kind.resource(), Some("velero"), name, is_in).await.unwrap()
    }

    /// Waits until a transfer has ended in this phase and owns nothing more, and gives its message.
    pub(super) async fn ended(&self, kind: TransferKind, name: &str, phase: &str) -> String {
        let is_clean = |found: Option<&Value>| {
            found.is_some_and(|found| {
                found["status"]["phase"] == phase
                    && found["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty)
            })
        };
        let found = self.until(&kind.resource(), Some("velero"), name, is_clean).await.unwrap();
        assert_eq!(found["metadata"]["labels"].get("velero.io/expose-on-going"), None);
        for resource in [resources::pods(), resources::claims()] {
            let left =
                self.kube.get(ObjectName { resource: &resource, namespace: Some("velero"), name }).await.unwrap();
            assert_eq!(left, None, "nothing is left of {name}");
        }
        found["status"]["message"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an object is as wanted, and gives it.
    pub(super) async fn until(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        is_wanted: impl Fn(Option<&Value>) -> bool,
    ) -> Option<Value> {
        let mirrored = MirroredType {
            cluster: self.kube.0.clone(),
            resource: Arc::new(resource.clone()),
            namespace: namespace.map(str::to_owned),
            fields: String::new(),
            metadata_only: false,
        };
        let mut mirror = mirrored.start();
        let mut all = BTreeMap::new();
        let parsed = |body: &[u8]| -> (String, Value) {
            let object: Value = serde_json::from_slice(body).unwrap();
            (object["metadata"]["name"].as_str().unwrap().to_owned(), object)
        };
        let waiting = async {
            loop {
                match mirror.next().await.unwrap() {
                    MirrorEvent::All(bodies) => all = bodies.iter().map(|body| parsed(body)).collect(),
                    MirrorEvent::Applied(body) => all.extend([parsed(&body)]),
                    MirrorEvent::Deleted(body) => drop(all.remove(&parsed(&body).0)),
                }
                if is_wanted(all.get(name)) {
                    return;
                }
            }
        };
        let came = timeout(PATIENCE, waiting).await;
        assert!(
            came.is_ok(),
            "{} {name} did not become as wanted: {:#}",
            resource.kind,
            all.get(name).unwrap_or(&Value::Null)
        );
        all.remove(name)
    }
}

/// The termination message of a restore of seven bytes.
pub(super) const RESULT: &str = r#"{"target":{"byPath":"/u","volumeMode":"Filesystem"},"totalBytes":7}"#;

/// The termination message of a backup of seven bytes, three of which are new.
pub(super) const SAVED: &str = r#"{"snapshotID":"k1","emptySnapshot":false,"source":{"byPath":"/u","volumeMode":"Filesystem"},"totalBytes":7,"incrementalBytes":3}"#;

/// The termination message of the backup of an empty volume.
pub(super) const EMPTY: &str = r#"{"snapshotID":"","emptySnapshot":true,"source":{"byPath":"/u","volumeMode":"Filesystem"},"totalBytes":0,"incrementalBytes":0}"#;
