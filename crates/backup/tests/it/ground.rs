//! A cluster and a bucket of one test, and an action that begins operations.

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use lifeboat_action::{
    ActionError, ActionScope, Actions, BackupItemAction, BackupItemInput, BackupItemOutput, OperationProgress,
};
use lifeboat_api::Backup;
use lifeboat_archive::ReadLimits;
use lifeboat_backup::{Env, Outcome, Request, Settings, run};
use lifeboat_bucket::{BlobStore, Memory};
use lifeboat_cluster::{Cluster, ConnectOptions, ListRequest};
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_operation::Operation;
use lifeboat_sandbox::{Sandbox, SandboxOptions};
use lifeboat_store::{OpenOptions, Store};
use lifeboat_testbed::Proxy;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::task::JoinSet;

pub(crate) const NAME: &str = "b";

pub(crate) struct Ground {
    sandbox: Sandbox,
    /// Stands before the cluster, and runs the commands in its containers.
    pub(crate) proxy: Proxy,
    cluster: Cluster,
    pub(crate) bucket: Arc<dyn BlobStore>,
    pub(crate) actions: Actions,
    /// Seconds since 1970.
    pub(crate) now: Arc<Mutex<i64>>,
}

impl Ground {
    /// A cluster in which the namespace `shop` has these ConfigMaps, and an empty bucket.
    pub(crate) async fn start(config_maps: &[&str], actions: Vec<Arc<dyn BackupItemAction>>) -> Self {
        let sandbox = Sandbox::start(SandboxOptions::for_tests()).await.unwrap();
        let url = format!("https://{}", sandbox.address());
        let proxy = Proxy::start(&url, Some(sandbox.authority_pem())).unwrap();
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&kubeconfig, proxy.kubeconfig("token")).unwrap();
        let options = ConnectOptions { kubeconfig: Some(kubeconfig.path().into()), ..ConnectOptions::default() };
        let cluster = Cluster::connect(&options).await.unwrap();
        let actions = Actions { backup_item: actions, ..Actions::default() };
        let ground =
            Self { sandbox, proxy, cluster, bucket: Arc::new(Memory::default()), actions, now: Arc::default() };
        let namespaces = ["kube-system", "shop"]
            .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": name}}));
        ground.sandbox.apply(namespaces.into()).await.unwrap();
        for name in config_maps {
            ground.set(name, "before").await;
        }
        ground
    }

    /// Gives a ConfigMap this content.
    pub(crate) async fn set(&self, name: &str, content: &str) {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"},
            "data": {"x": content}});
        self.sandbox.apply(vec![object]).await.unwrap();
    }

    /// Puts an object into the cluster.
    pub(crate) async fn put(&self, object: Value) {
        self.sandbox.apply(vec![object]).await.unwrap();
    }

    /// Applies the definitions of the server's types.
    pub(crate) async fn apply_definitions(&self) {
        for definition in lifeboat_api::crds() {
            self.put(definition).await;
        }
    }

    /// Applies the definitions, and puts the namespace of the server and the backup into the cluster: the resources for volumes are the
    /// backup's, and would go without it.
    pub(crate) async fn put_backup_and_definitions(&self) {
        self.apply_definitions().await;
        self.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "velero"}})).await;
        self.put(json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": NAME, "namespace": "velero", "uid": "u"}}))
            .await;
    }

    /// Puts a node agent into the cluster whose pod runs on the node `n1`.
    pub(crate) async fn put_node_agent(&self) {
        self.put(json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "node-agent", "namespace": "velero"},
            "spec": {"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}}}))
            .await;
        self.put(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "agent", "namespace": "velero", "labels": {"role": "node-agent"}},
            "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}))
            .await;
    }

    /// Runs a backup on this bucket, while something goes on in the cluster that never ends.
    pub(crate) async fn run_backup_beside(&self, request: &Request, serving: impl Future<Output = ()>) -> Outcome {
        let env = self.env(self.store());
        tokio::select! {
            outcome = Box::pin(run(request, &env)) => outcome.expect("an outcome"),
            () = serving => unreachable!("it serves for ever"),
        }
    }

    /// Another client of the cluster.
    pub(crate) async fn cluster(&self) -> Cluster {
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&kubeconfig, self.sandbox.kubeconfig()).unwrap();
        let options = ConnectOptions { kubeconfig: Some(kubeconfig.path().into()), ..ConnectOptions::default() };
        Cluster::connect(&options).await.unwrap()
    }

    /// The objects of a type; none of one that is not served.
    pub(crate) async fn list(&self, resource: &str) -> Vec<Value> {
        let catalog = self.cluster.discover().await.unwrap();
        let Some(resource) = catalog.find(&resource.parse().unwrap()) else { return Vec::new() };
        let request = ListRequest::all(Arc::clone(resource));
        let (mut list, mut out) = (self.cluster.list(request), Vec::new());
        while let Some(bodies) = list.next().await.unwrap() {
            out.extend(bodies.iter().map(|body| serde_json::from_slice::<Value>(body).unwrap()));
        }
        out
    }

    pub(crate) fn store(&self) -> Store {
        Store::new(Arc::clone(&self.bucket))
    }

    /// The environment of an operation on this bucket.
    pub(crate) fn env(&self, store: Store) -> Env {
        let now = Arc::clone(&self.now);
        let clock = Arc::new(move || Timestamp::UNIX_EPOCH + SignedDuration::from_secs(*now.lock().unwrap()));
        Env {
            cluster: self.cluster.clone(),
            store,
            actions: self.actions.clone(),
            operation: Operation::new(clock, "backup=velero/b", std::env::temp_dir()),
        }
    }

    pub(crate) fn request() -> Request {
        let mut backup = Backup::default();
        backup.metadata.name = NAME.to_owned();
        backup.metadata.uid = "u".to_owned();
        backup.spec.included_namespaces = vec!["shop".to_owned()];
        Request { backup, settings: Settings::default() }
    }

    /// The content of each ConfigMap in the bucket.
    pub(crate) async fn saved(&self) -> BTreeMap<String, String> {
        let archive = self.store().open_archive(NAME, &open()).await.unwrap();
        let mut tasks = JoinSet::new();
        let mut contents = archive.read((0..archive.rows().len()).collect(), &mut tasks);
        let mut out = BTreeMap::new();
        while let Some(item) = contents.next().await.unwrap() {
            let object: Value = serde_json::from_slice(&item.body).unwrap();
            // The namespace is there too.
            let Some(content) = object["data"]["x"].as_str() else { continue };
            let before = out.insert(item.head.name, content.to_owned());
            assert_eq!(before, None, "an object is there once");
        }
        out
    }

    /// Fails when the backup is not what its manifest says.
    pub(crate) async fn verify(&self, when: &str) {
        let found = self.store().verify(NAME, &open()).await.unwrap();
        assert!(found.has_manifest && found.problems.is_empty(), "{when}: {:?}", found.problems);
    }
}

pub(crate) fn open() -> OpenOptions {
    OpenOptions { limits: ReadLimits::default(), scratch: std::env::temp_dir(), ignore_index: false }
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::new("", "configmaps"), Some("shop"), name)
}

pub(crate) fn texts(all: &[(&str, &str)]) -> BTreeMap<String, String> {
    all.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

type Answer = Result<BackupItemOutput, ActionError>;
type Progress = Result<OperationProgress, ActionError>;
/// Gives the action's answer about an operation, by its ID and the number of questions before.
type Told = Box<dyn Fn(&str, usize) -> Progress + Send + Sync>;

/// An action for ConfigMaps that answers as it is told.
pub(crate) struct Scripted {
    pub(crate) execute: Box<dyn Fn(Value) -> Answer + Send + Sync>,
    pub(crate) progress: Told,
    /// The number of questions about each operation.
    pub(crate) asked: Mutex<BTreeMap<String, usize>>,
    /// The operations that it was told to end.
    pub(crate) cancelled: Mutex<Vec<String>>,
}

impl Scripted {
    pub(crate) fn new(
        execute: impl Fn(Value) -> Answer + Send + Sync + 'static,
        progress: impl Fn(&str, usize) -> Progress + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (execute, progress) = (Box::new(execute), Box::new(progress));
        Arc::new(Self { execute, progress, asked: Mutex::default(), cancelled: Mutex::default() })
    }
}

#[async_trait]
impl BackupItemAction for Scripted {
    fn name(&self) -> &str {
        "test/scripted"
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["configmaps"])
    }

    async fn execute(&self, input: BackupItemInput<'_>) -> Answer {
        (self.execute)(input.item)
    }

    async fn progress(&self, id: &str, _: &Backup) -> Progress {
        let before = {
            let mut asked = self.asked.lock().unwrap();
            let count = asked.entry(id.to_owned()).or_default();
            *count += 1;
            *count - 1
        };
        (self.progress)(id, before)
    }

    async fn cancel(&self, id: &str, _: &Backup) -> Result<(), ActionError> {
        self.cancelled.lock().unwrap().push(id.to_owned());
        Ok(())
    }
}
