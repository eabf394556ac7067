//! A cluster and a backup of one test.

use lifeboat_action::{Actions, LocatedSnapshotter};
use lifeboat_api::Restore;
use lifeboat_archive::layout::{BackupFile, RestoreFile};
use lifeboat_archive::volume_info::RestoreVolumeInfo;
use lifeboat_cluster::{Cluster, ConnectOptions};
use lifeboat_fixtures::BackupFixture;
use lifeboat_object::ApiResource;
use lifeboat_operation::{Operation, Records};
use lifeboat_restore::{Env, Outcome, Request, Settings};
use lifeboat_sandbox::{Sandbox, SandboxOptions};
use lifeboat_store::Store;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) struct Ground {
    sandbox: Sandbox,
    pub(crate) cluster: Cluster,
    pub(crate) store: Store,
    pub(crate) snapshotters: Vec<LocatedSnapshotter>,
    pub(crate) request: Request,
}

impl Ground {
    /// An empty cluster, and a backup of these objects, beside which these files lie.
    pub(crate) async fn start(objects: &[Value], files: &[(BackupFile, String)]) -> Self {
        let sandbox = Sandbox::start(SandboxOptions::for_tests()).await.unwrap();
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&kubeconfig, sandbox.kubeconfig()).unwrap();
        let options = ConnectOptions { kubeconfig: Some(kubeconfig.path().into()), ..ConnectOptions::default() };
        let cluster = Cluster::connect(&options).await.unwrap();
        let mut restore = Restore::default();
        restore.metadata.name = "r".to_owned();
        restore.metadata.namespace = "velero".to_owned();
        restore.metadata.uid = "u".to_owned();
        // The clock of the sandbox.
        restore.metadata.creation_timestamp =
            Some("1970-01-01T00:00:00Z".parse().map(lifeboat_api::Time::new).unwrap());
        restore.spec.backup_name = "b".to_owned();
        let request = Request { restore, settings: Settings::default() };
        let store = backup(objects, files).await;
        Self { sandbox, cluster, store, snapshotters: Vec::new(), request }
    }

    /// Puts an object into the cluster.
    pub(crate) async fn put(&self, object: Value) {
        self.sandbox.apply(vec![object]).await.unwrap();
    }

    /// Dependencies of a run of the restore.
    pub(crate) fn env(&self) -> Env {
        let clock = Arc::new(|| "2026-01-01T00:00:00Z".parse().unwrap());
        Env {
            cluster: self.cluster.clone(),
            store: self.store.clone(),
            actions: Actions { volume_snapshotters: self.snapshotters.clone(), ..Actions::default() },
            operation: Operation::new(clock, "restore=velero/r", std::env::temp_dir()),
        }
    }

    /// The same, with these notes.
    pub(crate) fn env_with(&self, records: Arc<dyn Records>) -> Env {
        let mut env = self.env();
        env.operation.records = records;
        env
    }

    pub(crate) async fn run(&self) -> Outcome {
        Box::pin(lifeboat_restore::run(&self.request, &self.env())).await.unwrap()
    }

    /// The PersistentVolumes of the cluster by name.
    pub(crate) async fn volumes(&self) -> BTreeMap<String, Value> {
        self.list("persistentvolumes", "PersistentVolume", false).await
    }

    /// The disks of the PersistentVolumes of the cluster, by name.
    pub(crate) async fn disks(&self) -> BTreeMap<String, String> {
        let disk =
            |volume: Value| volume["spec"]["awsElasticBlockStore"]["volumeID"].as_str().unwrap_or_default().to_owned();
        self.volumes().await.into_iter().map(|(name, volume)| (name, disk(volume))).collect()
    }

    /// The names of the PersistentVolumes that the claims of the cluster ask for, by namespace and name.
    pub(crate) async fn claims(&self) -> BTreeMap<String, String> {
        let claims = self.list("persistentvolumeclaims", "PersistentVolumeClaim", true).await;
        let volume = |claim: Value| claim["spec"]["volumeName"].as_str().unwrap_or_default().to_owned();
        claims.into_iter().map(|(name, claim)| (name, volume(claim))).collect()
    }

    /// The objects of a type by name, with their namespace before it.
    pub(crate) async fn list(&self, resource: &str, kind: &str, namespaced: bool) -> BTreeMap<String, Value> {
        let group = if resource == "statefulsets" { "apps" } else { "" };
        let resource = ApiResource { namespaced, ..ApiResource::new(group, "v1", resource, kind) };
        let mut list = self.cluster.list(lifeboat_cluster::ListRequest::all(resource));
        let mut out = BTreeMap::new();
        while let Some(bodies) = list.next().await.unwrap() {
            for body in bodies {
                let object: Value = serde_json::from_slice(&body).unwrap();
                let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
                let name = text("name").unwrap();
                let name = text("namespace").map_or(name.clone(), |namespace| format!("{namespace}/{name}"));
                out.insert(name, object);
            }
        }
        out
    }

    /// Volume information of the restore for the claim of this name.
    pub(crate) async fn info(&self, claim: &str) -> RestoreVolumeInfo {
        let all: Vec<RestoreVolumeInfo> = self.store.restore_file("r", RestoreFile::VolumeInfo).await.unwrap().unwrap();
        all.into_iter().find(|info| info.pvc_name == claim).unwrap()
    }
}

pub(crate) fn messages(outcome: &Outcome) -> [Vec<String>; 2] {
    let results = &outcome.results;
    [&results.warnings, &results.errors].map(|all| all.messages().map(str::to_owned).collect())
}

/// A PersistentVolume on this disk, of a claim in the namespace `shop`, and that claim.
pub(crate) fn volume(name: &str, claim: &str, disk: &str) -> [Value; 2] {
    [
        json!({"apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": name, "uid": format!("{name}-old"), "resourceVersion": "7", "labels": {"disk": "fast"},
                "annotations": {"pv.kubernetes.io/bound-by-controller": "yes", "note": "mine"}},
            "spec": {"persistentVolumeReclaimPolicy": "Delete", "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"], "awsElasticBlockStore": {"volumeID": disk},
                "claimRef": {"namespace": "shop", "name": claim, "uid": "old", "resourceVersion": "3"}},
            "status": {"phase": "Bound"}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim, "namespace": "shop", "uid": format!("{claim}-old"), "resourceVersion": "8"},
            "spec": {"volumeName": name, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Bound"}}),
    ]
}

/// A backup in memory of a namespace and what is in it.
async fn backup(objects: &[Value], files: &[(BackupFile, String)]) -> Store {
    let store = Store::in_memory();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let objects: Vec<Value> = std::iter::once(namespace).chain(objects.iter().cloned()).collect();
    let mut backup = BackupFixture::new("b", &objects);
    for (file, text) in files {
        backup = backup.with_file(*file, &serde_json::from_str(text).unwrap());
    }
    backup.write(&store).await;
    store
}
