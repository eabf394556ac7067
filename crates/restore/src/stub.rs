//! Test fixtures for whole restores: an API server in memory, a backup, and an action with scripted answers.

mod action;
mod api;
mod types;

use crate::Env;
use crate::actions::test_server::connect;
use crate::end::outcome::{Outcome, RestoreError};
use crate::request::settings::{Request, Settings};
pub(crate) use action::Scripted;
use api::{Api, BeforeDeletion, ScriptedError, remove};
use lifeboat_action::{Actions, RestoreItemAction};
use lifeboat_api::Restore;
use lifeboat_archive::layout::BackupFile;
use lifeboat_fixtures::BackupFixture;
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_operation::Operation;
use lifeboat_store::Store;
use lifeboat_testbed::ScriptedServer;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use types::Type;

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

/// A restore of a backup of some objects, to a cluster that has nothing.
pub(crate) struct RestoreFixture {
    pub(crate) env: Env,
    pub(crate) request: Request,
    api: Arc<Api>,
    _server: ScriptedServer,
}

impl RestoreFixture {
    pub(crate) async fn new(objects: &[Value], action: &Arc<Scripted>) -> Self {
        Self::with_files(objects, &[], action).await
    }

    /// The same of a backup that has these files, too.
    pub(crate) async fn with_files(objects: &[Value], files: &[(BackupFile, Value)], action: &Arc<Scripted>) -> Self {
        let api = Arc::new(Api::default());
        let serving = Arc::clone(&api);
        let server = ScriptedServer::start(move |request| {
            let api = Arc::clone(&serving);
            async move { api.answer(request).await }
        });
        let server = server.await.unwrap();
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
            cluster: connect(&server).await,
            store: backup_with(Store::in_memory(), objects, files).await,
            actions,
            operation,
        };
        Self { env, request, api, _server: server }
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
    pub(crate) fn put(&self, object: Value) {
        let path = Type::of(&object).expect("a type that is served").path(&object);
        self.put_at(path, object);
    }

    /// The same of a type that no restore has to do with, at this path.
    pub(crate) fn put_at(&self, path: String, mut object: Value) {
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
async fn backup_with(store: Store, objects: &[Value], files: &[(BackupFile, Value)]) -> Store {
    let backup = BackupFixture::new("b", objects);
    files.iter().fold(backup, |backup, (file, content)| backup.with_file(*file, content)).write(&store).await;
    store
}
