//! Test fixtures for whole restores: an API server in memory, a backup, and an action with scripted answers.

use crate::Env;
use crate::actions::test_server::connect;
use crate::end::outcome::{Outcome, RestoreError};
use crate::request::settings::{Request, Settings};
use async_trait::async_trait;
use lifeboat_action::{
    ActionError, ActionScope, Actions, OperationProgress, RestoreItemAction, RestoreItemInput, RestoreItemOutput,
};
use lifeboat_api::{Backup, BackupPhase, Restore};
use lifeboat_archive::gzip::Packer;
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::tarball::{Assembler, ObjectEntry, Segment};
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_operation::Operation;
use lifeboat_store::{ClaimOutcome, ClaimRequest, Store, stream};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A key in the namespace `shop`.
pub(crate) fn key(resource: &str, name: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::new("", resource), Some("shop"), name)
}

/// A ConfigMap in the namespace `shop`.
pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}, "data": {"k": name}})
}

/// An object of the namespace `shop`, unless this says otherwise: it is merged into what has kind and name only.
pub(crate) fn object(api_version: &str, kind: &str, name: &str, rest: &Value) -> Value {
    let metadata = json!({"name": name, "namespace": "shop"});
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    lifeboat_patch::merge(&mut object, rest);
    object
}

type ScriptedOutput = Result<RestoreItemOutput, ActionError>;
type ProgressResult = Result<OperationProgress, ActionError>;
/// Progress of an operation, by its name and the number of earlier calls.
type ProgressScript = Box<dyn Fn(&str, usize) -> ProgressResult + Send + Sync>;

/// An action on ConfigMaps, unless another scope is given, that does as it is told.
pub(crate) struct Scripted {
    scope: ActionScope,
    is_pure: bool,
    execute: Box<dyn Fn(Value, usize) -> ScriptedOutput + Send + Sync>,
    ready: Vec<Result<bool, ActionError>>,
    ready_after: Option<&'static str>,
    /// Names of the objects it was asked about.
    asked: Mutex<Vec<String>>,
    /// The items it was asked whether they are ready.
    asked_whether_ready: Mutex<Vec<Vec<ObjectKey>>>,
    progress: ProgressScript,
    /// The operations it was asked how far they are, and those it was told to end.
    followed: Mutex<Vec<String>>,
    cancelled: Mutex<Vec<String>>,
}

impl Scripted {
    /// It is given the object, and how often it was asked about that before.
    pub(crate) fn new(execute: impl Fn(Value, usize) -> ScriptedOutput + Send + Sync + 'static) -> Self {
        Self {
            scope: ActionScope::resources(&["configmaps"]),
            is_pure: false,
            execute: Box::new(execute),
            ready: vec![Ok(true)],
            ready_after: None,
            asked: Mutex::default(),
            asked_whether_ready: Mutex::default(),
            progress: Box::new(|_, _| Ok(OperationProgress::default())),
            followed: Mutex::default(),
            cancelled: Mutex::default(),
        }
    }

    /// The same one, that says this of an operation of which it was asked so often before.
    pub(crate) fn progressing(self, progress: impl Fn(&str, usize) -> ProgressResult + Send + Sync + 'static) -> Self {
        Self { progress: Box::new(progress), ..self }
    }

    /// The same one, which previews may ask too.
    pub(crate) fn pure(self) -> Self {
        Self { is_pure: true, ..self }
    }

    /// The same one, for these objects.
    pub(crate) fn scoped(self, scope: ActionScope) -> Self {
        Self { scope, ..self }
    }

    pub(crate) fn cancelled(&self) -> Vec<String> {
        self.cancelled.lock().unwrap().clone()
    }

    /// An action that gives these answers when it is asked for the readiness of items; the last one is repeated.
    pub(crate) fn ready(ready: Vec<Result<bool, ActionError>>) -> Self {
        Self { ready, ..Self::new(|item, _| Ok(RestoreItemOutput::with(item))) }
    }

    /// The same one, that does this.
    pub(crate) fn executing(self, execute: impl Fn(Value, usize) -> ScriptedOutput + Send + Sync + 'static) -> Self {
        Self { execute: Box::new(execute), ..self }
    }

    /// The same one, for which items are ready when it was asked about the object of this name.
    pub(crate) fn until(self, name: &'static str) -> Self {
        Self { ready_after: Some(name), ..self }
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn asked_whether_ready(&self) -> usize {
        self.asked_whether_ready.lock().unwrap().len()
    }

    pub(crate) fn items(&self) -> Vec<Vec<ObjectKey>> {
        self.asked_whether_ready.lock().unwrap().clone()
    }
}

#[async_trait]
impl RestoreItemAction for Scripted {
    fn name(&self) -> &str {
        "test/scripted"
    }

    fn applies_to(&self) -> ActionScope {
        self.scope.clone()
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> ScriptedOutput {
        let name = input.item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let before = self.asked().iter().filter(|asked| **asked == name).count();
        self.asked.lock().unwrap().push(name);
        (self.execute)(input.item, before)
    }

    fn is_pure(&self) -> bool {
        self.is_pure
    }

    async fn are_additional_items_ready(&self, items: &[ObjectKey], _: &Restore) -> Result<bool, ActionError> {
        let asked = {
            let mut all = self.asked_whether_ready.lock().unwrap();
            all.push(items.to_vec());
            all.len()
        };
        if let Some(name) = self.ready_after {
            return Ok(self.asked().iter().any(|asked| asked == name));
        }
        self.ready[asked.min(self.ready.len()) - 1].clone()
    }

    async fn progress(&self, id: &str, _: &Restore) -> ProgressResult {
        let before = {
            let mut followed = self.followed.lock().unwrap();
            followed.push(id.to_owned());
            followed.iter().filter(|one| *one == id).count() - 1
        };
        (self.progress)(id, before)
    }

    async fn cancel(&self, id: &str, _: &Restore) -> Result<(), ActionError> {
        self.cancelled.lock().unwrap().push(id.to_owned());
        Ok(())
    }
}

/// A restore of a backup of some objects, to a cluster that has nothing.
pub(crate) struct RestoreFixture {
    pub(crate) env: Env,
    pub(crate) request: Request,
    api: Arc<Api>,
    _tasks: JoinSet<()>,
}

impl RestoreFixture {
    pub(crate) async fn new(objects: &[Value], action: &Arc<Scripted>) -> Self {
        Self::with_files(objects, &[], action).await
    }

    /// The same of a backup that has these files, too.
    pub(crate) async fn with_files(objects: &[Value], files: &[(BackupFile, Value)], action: &Arc<Scripted>) -> Self {
        let (mut tasks, api) = (JoinSet::new(), Arc::new(Api::default()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = Arc::clone(&api);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let api = Arc::clone(&serving);
                connections.spawn(async move { api.answer(stream).await });
            }
        });
        let clock = Arc::new(|| "2026-01-01T00:00:00Z".parse().unwrap());
        let operation = Operation::new(clock, "restore=velero/r", std::env::temp_dir());
        let restore_item: Vec<Arc<dyn RestoreItemAction>> = vec![Arc::clone(action) as _];
        let actions = Actions { restore_item, ..Actions::default() };
        let mut restore = Restore::default();
        restore.metadata.name = "r".to_owned();
        restore.metadata.namespace = "velero".to_owned();
        restore.metadata.uid = "u".to_owned();
        restore.metadata.creation_timestamp =
            Some("2026-01-01T00:00:00Z".parse().map(lifeboat_api::Time::new).unwrap());
        restore.spec.backup_name = "b".to_owned();
        let request = Request { restore, settings: Settings::default() };
        let env = Env {
            cluster: connect(&url).await,
            store: backup_with(Store::in_memory(), objects, files).await,
            actions,
            operation,
        };
        Self { env, request, api, _tasks: tasks }
    }

    pub(crate) async fn run(&self) -> Result<Outcome, RestoreError> {
        crate::run(&self.request, &self.env).await
    }

    /// A run again of the same restore, with a log of its own.
    pub(crate) async fn run_again(&mut self) -> Result<Outcome, RestoreError> {
        self.renew();
        self.run().await
    }

    /// Begins a log of its own for what comes next.
    pub(crate) fn renew(&mut self) {
        let old = &self.env.operation;
        let new = Operation::new(Arc::clone(&old.clock), "restore=velero/r", old.scratch.clone());
        self.env.operation = Operation { records: Arc::clone(&old.records), ..new };
    }

    /// A ConfigMap of the cluster.
    pub(crate) fn config_map(&self, name: &str) -> Option<Value> {
        self.api.objects.lock().unwrap().get(&format!("/api/v1/namespaces/shop/configmaps/{name}")).cloned()
    }

    /// Names of the ConfigMaps, in the order in which they were made.
    pub(crate) fn made(&self) -> Vec<String> {
        self.api.made.lock().unwrap().clone()
    }

    /// Changes a ConfigMap of the cluster behind the restore's back.
    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let path = format!("/api/v1/namespaces/shop/configmaps/{name}");
        change(self.api.objects.lock().unwrap().entry(path).or_default());
    }

    /// Answers the next patches of ConfigMaps of this name with this status. One that is not found is gone.
    pub(crate) fn refuse_patches(&self, name: &str, times: usize, answer: ScriptedError) {
        self.api.refused_patches.lock().unwrap().insert(name.to_owned(), (times, answer));
    }

    /// Puts an object into the cluster, behind the restore's back.
    pub(crate) fn put(&self, mut object: Value) {
        let path = Type::of(&object).expect("a type that is served").path(&object);
        object["metadata"]["uid"] = format!("uid-of-{}", path.replace('/', "-")).into();
        object["metadata"]["resourceVersion"] = "1".into();
        self.api.objects.lock().unwrap().insert(path, object);
    }

    /// Lets the object at this path go once somebody has tried to create it and then looks at it.
    pub(crate) fn let_go(&self, path: &str) {
        self.api.going.lock().unwrap().insert(path.to_owned(), false);
    }

    /// Takes an object out of the cluster, behind the restore's back, and what is in it.
    pub(crate) fn remove(&self, path: &str) {
        remove(&mut self.api.objects.lock().unwrap(), path);
    }

    /// The object of the cluster at this path.
    pub(crate) fn at(&self, path: &str) -> Option<Value> {
        self.api.objects.lock().unwrap().get(path).cloned()
    }

    /// Lets discovery fail once something was written.
    pub(crate) fn lose_discovery(&self) {
        self.api.loses_discovery.store(true, Ordering::Relaxed);
    }

    /// Lets discovery leave out the types of `example.com` in its next answers.
    pub(crate) fn discover_late(&self, times: usize) {
        self.api.late_discoveries.store(times, Ordering::Relaxed);
    }

    /// Answers each such request with this status.
    pub(crate) fn answer(&self, method: &'static str, path: &'static str, answer: ScriptedError) {
        self.api.answers.lock().unwrap().insert((method, path), answer);
    }

    /// Answers what is asked about this path so much later.
    pub(crate) fn slow(&self, path: &'static str, time: Duration) {
        self.api.slow.lock().unwrap().insert(path, time);
    }

    /// Changes the object that is deleted next, just before that, or takes it away where this says `false`.
    pub(crate) fn before_deletion(&self, change: BeforeDeletion) {
        *self.api.before_deletion.lock().unwrap() = Some(change);
    }

    /// Takes no objects that have more bytes than this.
    pub(crate) fn take_at_most(&self, bytes: usize) {
        self.api.largest.store(bytes, Ordering::Relaxed);
    }

    /// Lets no patch change these fields, which are JSON pointers.
    pub(crate) fn fix(&self, fields: &[&'static str]) {
        *self.api.fixed.lock().unwrap() = fields.to_vec();
    }

    /// Lets refusals name what the fixed fields are in, as Kubernetes does of some types.
    pub(crate) fn name_fixed(&self, place: &'static str) {
        *self.api.named_as.lock().unwrap() = place;
    }

    /// Changes each object of this kind when it is created, as its controllers would.
    pub(crate) fn react(&self, kind: &'static str, change: impl Fn(&mut Value) + Send + 'static) {
        self.api.reactions.lock().unwrap().insert(kind, Box::new(change));
    }

    /// Changes the object of the cluster at this path, behind the restore's back.
    pub(crate) fn change_at(&self, path: &str, change: impl FnOnce(&mut Value)) {
        change(self.api.objects.lock().unwrap().get_mut(path).expect("an object that is there"));
    }

    /// The objects of the cluster below this path, in the order of their names.
    pub(crate) fn below(&self, path: &str) -> Vec<Value> {
        let objects = self.api.objects.lock().unwrap();
        objects.iter().filter(|(at, _)| at.starts_with(path)).map(|(_, object)| object.clone()).collect()
    }

    /// The creations and patches that were asked for, each as `METHOD path`, in their order; without those of namespaces.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.api.writes.lock().unwrap().clone()
    }

    /// The patches that were made.
    pub(crate) fn patches(&self) -> Vec<Value> {
        self.api.patches.lock().unwrap().clone()
    }

    /// Refuses the next creations of ConfigMaps of this name for a reason that can pass.
    pub(crate) fn refuse(&self, name: &str, times: usize) {
        self.api.refused.lock().unwrap().insert(name.to_owned(), times);
    }
}

/// A store with a backup of these objects.
pub(crate) async fn backup(store: Store, objects: &[Value]) -> Store {
    backup_with(store, objects, &[]).await
}

/// The same with these files, too.
pub(crate) async fn backup_with(store: Store, objects: &[Value], files: &[(BackupFile, Value)]) -> Store {
    let request = ClaimRequest {
        name: "b".into(),
        backup_uid: "b".into(),
        cluster_uid: "c".into(),
        namespace: String::new(),
        take_over: false,
        now: jiff::Timestamp::UNIX_EPOCH,
    };
    let ClaimOutcome::Writer(mut writer) = store.claim(&request).await.unwrap() else { panic!("a new name") };
    let (mut assembler, mut segment) = (Assembler::new(), Segment::default());
    for object in objects {
        let text = |field: &str| object["metadata"][field].as_str();
        let (group, version) = group_version(object);
        let kind = object["kind"].as_str().unwrap().to_lowercase();
        let resource = GroupResource::new(group, format!("{kind}{}", if kind.ends_with('s') { "es" } else { "s" }));
        let body = object.to_string();
        let entry = ObjectEntry {
            resource: &resource,
            version,
            preferred: true,
            namespace: text("namespace"),
            name: text("name").unwrap(),
            body: [body.as_bytes(), b""],
        };
        segment.push_object(&entry, 0).unwrap();
    }
    let first = assembler.append(segment.compress(&mut Packer::new(1)));
    let (last, summary, index) = assembler.finish();
    let (sender, receiver) = stream(2, "making the archive");
    sender.send(first.into()).await.unwrap();
    sender.send(last.into()).await.unwrap();
    sender.end();
    writer.put_tarball(receiver).await.unwrap();
    writer.record_tarball(&summary);
    writer.put(BackupFile::Index, index).await.unwrap();
    for (file, content) in files {
        writer.put(*file, lifeboat_archive::sidecar::encode(content).unwrap()).await.unwrap();
    }
    let mut backup = Backup::default();
    backup.metadata.name = "b".into();
    backup.metadata.uid = "b".into();
    backup.status.phase = Some(BackupPhase::Completed);
    writer.commit(&backup, "test", BTreeMap::new(), "v1").await.unwrap();
    store
}

/// The change that controllers make to an object when it is created.
type Reaction = Box<dyn Fn(&mut Value) + Send>;

/// Changes an object, or takes it away.
type BeforeDeletion = fn(&mut Value) -> bool;

/// A code and a reason.
type ScriptedError = (u16, &'static str);

/// A type that is served.
struct Type {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    namespaced: bool,
    has_status: bool,
}

const fn served(group: &'static str, version: &'static str, plural: &'static str, kind: &'static str) -> Type {
    Type { group, version, plural, kind, namespaced: true, has_status: true }
}

const fn of_cluster(all: Type) -> Type {
    Type { namespaced: false, ..all }
}

/// Whose status is data, as all the rest of it.
const fn without_status(all: Type) -> Type {
    Type { has_status: false, ..all }
}

/// Of one group and version after the other, and of each group the preferred version first.
const TYPES: [Type; 20] = [
    of_cluster(served("", "v1", "namespaces", "Namespace")),
    served("", "v1", "configmaps", "ConfigMap"),
    served("", "v1", "pods", "Pod"),
    served("", "v1", "serviceaccounts", "ServiceAccount"),
    served("", "v1", "services", "Service"),
    of_cluster(served("", "v1", "persistentvolumes", "PersistentVolume")),
    served("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    of_cluster(served("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition")),
    served("apps", "v1", "daemonsets", "DaemonSet"),
    served("batch", "v1", "jobs", "Job"),
    served("example.com", "v2", "widgets", "Widget"),
    served("example.com", "v2", "gadgets", "Gadget"),
    without_status(served("example.com", "v2", "doors", "Door")),
    served("example.com", "v1", "widgets", "Widget"),
    of_cluster(served("networking.k8s.io", "v1", "ipaddresses", "IPAddress")),
    without_status(served("velero.io", "v1", "schedules", "Schedule")),
    without_status(served("velero.io", "v1", "restores", "Restore")),
    without_status(served("velero.io", "v1", "podvolumerestores", "PodVolumeRestore")),
    without_status(served("velero.io", "v1", "backuprepositories", "BackupRepository")),
    without_status(served("velero.io", "v2alpha1", "datadownloads", "DataDownload")),
];

impl Type {
    fn of(object: &Value) -> Option<&'static Self> {
        let (group, version) = group_version(object);
        TYPES
            .iter()
            .find(|one| (one.group, one.version, one.kind) == (group, version, object["kind"].as_str().unwrap()))
    }

    fn path(&self, object: &Value) -> String {
        let root = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let namespace = if self.namespaced { format!("namespaces/{}/", text("namespace")) } else { String::new() };
        format!("{root}/{}/{namespace}{}/{}", self.version, self.plural, text("name"))
    }

    fn discovered(&self) -> Value {
        let scope = if self.namespaced { "Namespaced" } else { "Cluster" };
        let subresources = if self.has_status { json!([{"subresource": "status"}]) } else { json!([]) };
        json!({"resource": self.plural, "responseKind": {"kind": self.kind}, "scope": scope,
            "verbs": ["get", "list", "create", "patch", "delete"], "subresources": subresources})
    }
}

fn group_version(object: &Value) -> (&str, &str) {
    let api_version = object["apiVersion"].as_str().unwrap();
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// The answer of the discovery of groups, aggregated.
fn discovered(is_wanted: impl Fn(&str) -> bool) -> Value {
    let mut items: Vec<Value> = Vec::new();
    for of_version in TYPES.chunk_by(|a, b| (a.group, a.version) == (b.group, b.version)) {
        let Type { group, version, .. } = of_version[0];
        if !is_wanted(group) {
            continue;
        }
        let resources: Vec<Value> = of_version.iter().map(Type::discovered).collect();
        let version = json!({"version": version, "resources": resources});
        match items.last_mut().filter(|last| last["metadata"]["name"] == group) {
            Some(last) => last["versions"].as_array_mut().unwrap().push(version),
            None => items.push(json!({"metadata": {"name": group}, "versions": [version]})),
        }
    }
    json!({"kind": "APIGroupDiscoveryList", "items": items})
}

/// An API server in memory, in which created objects exist at once.
#[derive(Default)]
struct Api {
    objects: Mutex<BTreeMap<String, Value>>,
    made: Mutex<Vec<String>>,
    /// Number of creations of a name that are still to be refused.
    refused: Mutex<BTreeMap<String, usize>>,
    /// Number of patches of a name that are still to be refused, with the answer.
    refused_patches: Mutex<BTreeMap<String, (usize, ScriptedError)>>,
    patches: Mutex<Vec<Value>>,
    writes: Mutex<Vec<String>>,
    /// Set when discovery fails once something was written.
    loses_discovery: AtomicBool,
    /// Number of answers of discovery that still leave out types.
    late_discoveries: AtomicUsize,
    /// Paths of objects that go once somebody has tried to create them and then looks at them, and whether a create was tried.
    going: Mutex<BTreeMap<String, bool>>,
    /// Answer to each request of a method at a path.
    answers: Mutex<BTreeMap<(&'static str, &'static str), ScriptedError>>,
    /// Delay of the answers about a path.
    slow: Mutex<BTreeMap<&'static str, Duration>>,
    /// The most bytes that an object may have; 0 for any.
    largest: AtomicUsize,
    /// Fields that no patch may change, as JSON pointers, and how such a refusal names them; empty for each by itself.
    fixed: Mutex<Vec<&'static str>>,
    named_as: Mutex<&'static str>,
    /// Change of an object just before the next deletion.
    before_deletion: Mutex<Option<BeforeDeletion>>,
    /// Changes of objects when they are created, by kind.
    reactions: Mutex<BTreeMap<&'static str, Reaction>>,
}

impl Api {
    async fn answer(&self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        let (mut head, mut line, mut length) = (String::new(), String::new(), 0);
        stream.read_line(&mut head).await.unwrap();
        while stream.read_line(&mut line).await.unwrap() > 2 {
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let mut words = head.split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let slow = self.slow.lock().unwrap().get(path.split('?').next().unwrap_or_default()).copied();
        tokio::time::sleep(slow.unwrap_or_default()).await;
        let (code, answer) = self.say(method, path, serde_json::from_slice(&body).unwrap_or_default());
        let answer = answer.to_string();
        let head = format!(
            "HTTP/1.1 {code} x\r\ncontent-type: application/json\r\nconnection: close\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
        );
        let all = format!("{head}content-length: {}\r\n\r\n{answer}", answer.len());
        // The client may have been stopped.
        let _ = stream.write_all(all.as_bytes()).await;
        let _ = stream.shutdown().await;
    }

    fn is_too_large(&self, object: &Value) -> bool {
        let largest = self.largest.load(Ordering::Relaxed);
        largest > 0 && object.to_string().len() > largest
    }

    fn say(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut objects = self.objects.lock().unwrap();
        if method == "DELETE"
            && let Some(change) = self.before_deletion.lock().unwrap().take()
            && !objects.get_mut(path).is_some_and(change)
        {
            objects.remove(path);
        }
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        let place = if method == "POST" { format!("{path}/{name}") } else { path.to_owned() };
        if ["POST", "PATCH"].contains(&method) && path != "/api/v1/namespaces" {
            self.writes.lock().unwrap().push(format!("{method} {place}"));
        }
        if let Some(((_, _), (code, reason))) =
            self.answers.lock().unwrap().iter().find(|((of, at), _)| *of == method && *at == place)
        {
            return status(*code, reason);
        }
        match (method, path) {
            (_, "/api") if self.loses_discovery.load(Ordering::Relaxed) && !self.writes.lock().unwrap().is_empty() => {
                status(403, "no more of it")
            }
            (_, "/api") => (200, discovered(str::is_empty)),
            (_, "/apis") => {
                let late = self.late_discoveries.try_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
                (200, discovered(|group| !group.is_empty() && (late.is_err() || group != "example.com")))
            }
            ("POST", _) => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let path = format!("{path}/{name}");
                if let Some(times) = self.refused.lock().unwrap().get_mut(&name).filter(|times| **times > 0) {
                    *times -= 1;
                    return status(403, "not yet ready to handle request");
                }
                if objects.contains_key(&path) {
                    self.going.lock().unwrap().entry(path).and_modify(|is_tried| *is_tried = true);
                    return status(409, "AlreadyExists");
                }
                if query.contains("dryRun=") {
                    return (201, body);
                }
                if self.is_too_large(&body) {
                    return status(500, "etcdserver: request is too large");
                }
                let mut object = body;
                object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:01Z");
                object["metadata"]["uid"] = format!("uid-of-{name}").into();
                object["metadata"]["resourceVersion"] = "1".into();
                if let Some(change) = self.reactions.lock().unwrap().get(object["kind"].as_str().unwrap_or_default()) {
                    change(&mut object);
                }
                objects.insert(path, object.clone());
                if object["kind"] == "ConfigMap" {
                    self.made.lock().unwrap().push(name);
                }
                (201, object)
            }
            ("DELETE", _) => {
                let Some(object) = objects.get(path) else { return status(404, "NotFound") };
                let differs = |field: &str| {
                    body["preconditions"].get(field).is_some_and(|said| object["metadata"][field] != *said)
                };
                if differs("uid") || differs("resourceVersion") {
                    return status(409, "Conflict");
                }
                (200, objects.remove(path).unwrap_or_default())
            }
            ("PATCH", _) => {
                let name = path.rsplit('/').next().unwrap_or_default();
                if let Some((times, (code, reason))) = self.refused_patches.lock().unwrap().get_mut(name)
                    && *times > 0
                {
                    *times -= 1;
                    if *code == 404 {
                        objects.remove(path);
                    }
                    return status(*code, reason);
                }
                let Some(object) = objects.get_mut(path.trim_end_matches("/status")) else {
                    return status(404, "NotFound");
                };
                let differs =
                    |field| body["metadata"].get(field).is_some_and(|said| object["metadata"][field] != *said);
                if differs("uid") || differs("resourceVersion") {
                    return status(409, "Conflict");
                }
                let fixed = self.fixed.lock().unwrap();
                if let Some(field) = fixed.iter().find(|field| body.pointer(field).is_some()) {
                    let named_as = *self.named_as.lock().unwrap();
                    return immutable(if named_as.is_empty() { field } else { named_as });
                }
                if query.contains("dryRun=") {
                    return (200, object.clone());
                }
                let mut changed = object.clone();
                lifeboat_patch::merge(&mut changed, &body);
                if self.is_too_large(&changed) {
                    return status(500, "etcdserver: request is too large");
                }
                *object = changed;
                let revision: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                object["metadata"]["resourceVersion"] = (revision + 1).to_string().into();
                self.patches.lock().unwrap().push(body);
                (200, object.clone())
            }
            _ if TYPES.iter().any(|one| path.rsplit('/').next() == Some(one.plural)) || path.ends_with("/secrets") => {
                let below = format!("{path}/");
                let found = objects.iter().filter(|(at, _)| at.starts_with(&below));
                let items: Vec<&Value> = found.map(|(_, object)| object).collect();
                (200, json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}))
            }
            _ if self.going.lock().unwrap().get(path).is_some_and(|is_tried| *is_tried) => {
                self.going.lock().unwrap().remove(path);
                let last = remove(&mut objects, path);
                last.map_or_else(|| status(404, "NotFound"), |object| (200, object))
            }
            ("GET", "/version") => (200, json!({"major": "1", "minor": "34", "gitVersion": "v1.34.4"})),
            _ => objects.get(path).map_or_else(|| status(404, "NotFound"), |object| (200, object.clone())),
        }
    }
}

/// Removes an object, and what is in it when it is a namespace.
fn remove(objects: &mut BTreeMap<String, Value>, path: &str) -> Option<Value> {
    let removed = objects.remove(path);
    objects.retain(|other, _| !other.starts_with(&format!("{path}/")));
    removed
}

/// The answer of Kubernetes about a field that cannot be changed.
fn immutable(field: &str) -> (u16, Value) {
    let (_, mut answer) = status(422, "Invalid");
    let field = field.trim_start_matches('/').replace('/', ".");
    answer["details"] = json!({"causes": [{"reason": "FieldValueInvalid", "field": field, "message": "Invalid value: 1: field is immutable"}]});
    (422, answer)
}

fn status(code: u16, reason: &str) -> (u16, Value) {
    (
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": reason, "code": code}),
    )
}
