//! A walk over objects with actions that answer as they are told.

use crate::collect::lists::CollectedLists;
use crate::collect::spool::{Batch, RawPage};
use crate::collect::tally::Tally;
use crate::env::{test_env, test_env_of};
use crate::output::entry::Entries;
use crate::process::{ProcessingStages, process};
use crate::request::scope::test_scope;
use async_trait::async_trait;
use lifeboat_action::{ActionError, ActionScope, Actions, BackupItemAction, BackupItemInput, BackupItemOutput};
use lifeboat_archive::operations::BackupOperation;
use lifeboat_object::{ApiResource, GroupResource, Item, ObjectKey};
use lifeboat_store::stream;
use lifeboat_testbed::scripted_api_server;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub(super) type ScriptedOutput = Result<BackupItemOutput, ActionError>;

/// Answers as it is told: for this object, for which it was called so often before.
struct Scripted<F> {
    types: &'static [&'static str],
    answer: F,
    calls: Mutex<BTreeMap<String, usize>>,
}

#[async_trait]
impl<F: Fn(Value, usize) -> ScriptedOutput + Send + Sync> BackupItemAction for Scripted<F> {
    fn name(&self) -> &str {
        "test/scripted"
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope { label_selector: "quiet!=yes".to_owned(), ..ActionScope::resources(self.types) }
    }

    async fn execute(&self, input: BackupItemInput<'_>) -> ScriptedOutput {
        let name = input.item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let before = {
            let mut calls = self.calls.lock().unwrap();
            let count = calls.entry(name).or_default();
            *count += 1;
            *count - 1
        };
        (self.answer)(input.item, before)
    }
}

pub(super) fn scripted(
    types: &'static [&'static str],
    answer: impl Fn(Value, usize) -> ScriptedOutput + Send + Sync + 'static,
) -> Arc<dyn BackupItemAction> {
    Arc::new(Scripted { types, answer, calls: Mutex::default() })
}

pub(super) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// Objects of which actions of these tests see the things and parts, and never the plain ones.
pub(super) fn types() -> Vec<ApiResource> {
    [("things", "Thing"), ("parts", "Part"), ("plains", "Plain")]
        .map(|(resource, kind)| ApiResource {
            namespaced: true,
            ..ApiResource::new("example.com", "v1", resource, kind)
        })
        .into()
}

pub(super) fn key(text: &str) -> ObjectKey {
    let (resource, name) = text.split_once('/').unwrap();
    ObjectKey::new(GroupResource::new("example.com", resource), Some("a"), name)
}

/// An object as an API server lists it, with these annotations.
pub(super) fn object(name: &str, annotations: Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "a", "annotations": annotations}, "spec": {"n": 1.50}})
}

/// The answer of the API server to a read of one object.
pub(super) fn read(kind: &str, name: &str, labels: Value) -> (u16, String) {
    let metadata = json!({"name": name, "namespace": "a", "labels": labels});
    (200, json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": metadata}).to_string())
}

pub(super) fn status(code: u16) -> (u16, String) {
    (code, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}).to_string())
}

/// The result of a walk.
#[derive(Debug, Default, PartialEq)]
pub(super) struct WalkResult {
    /// Entries of the archive in their order, without the namespace.
    pub(super) saved: Vec<String>,
    pub(super) errors: Vec<String>,
    pub(super) warnings: Vec<String>,
    pub(super) left_out: Vec<String>,
    pub(super) operations: Vec<BackupOperation>,
    /// The reason for which the walk did not come to its end.
    pub(super) refusal: Option<String>,
}

pub(super) struct WalkCase {
    pub(super) actions: Actions,
    pub(super) answers: Vec<(u16, String)>,
    pub(super) workers: usize,
    /// Bytes of memory for what waits; the rest is to lie in this folder.
    pub(super) room: usize,
    pub(super) scratch: PathBuf,
    pub(super) cancel: CancellationToken,
}

pub(super) fn case(actions: Vec<Arc<dyn BackupItemAction>>) -> WalkCase {
    WalkCase {
        actions: Actions { backup_item: actions, ..Actions::default() },
        answers: Vec::new(),
        workers: 1,
        room: 1 << 20,
        scratch: std::env::temp_dir(),
        cancel: CancellationToken::new(),
    }
}

impl WalkCase {
    /// Walks over these objects, `type/name` and their annotations. Gives the result, and the bodies.
    pub(super) async fn walk(self, objects: &[(&str, Value)]) -> (WalkResult, BTreeMap<String, String>) {
        let mut tasks = JoinSet::new();
        let mut env = if self.answers.is_empty() {
            test_env().await
        } else {
            let kubeconfig = scripted_api_server(&mut tasks, self.answers).await.unwrap();
            test_env_of(kubeconfig.path()).await
        };
        env.operation.scratch = self.scratch;
        env.operation.cancel = self.cancel;
        let mut scope = test_scope(types(), &self.actions);
        Arc::get_mut(&mut scope).unwrap().lane.workers = self.workers;
        let (fast, batches) = stream(100, "listing objects");
        let (lane, looked_at) = stream(100, "listing objects");
        let tally = Arc::new(Tally::default());
        tally.came(objects.len());
        for (id, annotations) in objects {
            let (of_type, name) = id.split_once('/').unwrap();
            let resource = Arc::clone(scope.find("example.com", of_type).unwrap());
            let body: bytes::Bytes = object(name, annotations.clone()).to_string().into();
            if scope.lane.takes(&resource) {
                lane.send(RawPage { resource, bodies: vec![body] }).await.unwrap();
            } else {
                let budget = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
                let items = vec![Item::parse(resource, body).unwrap()];
                fast.send(Batch { items, budget }).await.unwrap();
            }
        }
        fast.end();
        lane.end();
        let collected = CollectedLists { batches, looked_at, room: self.room };
        let ProcessingStages { mut entries, learned, refusal } = process(collected, scope, &env, &tally, &mut tasks);
        let (mut seen, mut bodies) = (WalkResult::default(), BTreeMap::new());
        let ended = loop {
            match entries.next().await {
                Ok(Some(Entries { entries, .. })) => {
                    tally.settled(entries.len());
                    for entry in entries.into_iter().filter(|entry| entry.resource.resource != "namespaces") {
                        let id = format!("{}/{}", entry.resource.resource, entry.name);
                        bodies.insert(id.clone(), String::from_utf8(entry.body.to_bytes().to_vec()).unwrap());
                        seen.saved.push(id);
                    }
                }
                ended => break ended.is_ok(),
            }
        };
        if ended {
            tally.balance().unwrap();
            let learned = learned.await.unwrap();
            let what =
                |((resource, reason), count): (&(GroupResource, &str), &u64)| format!("{count} {resource}: {reason}");
            seen.left_out = learned.left_out.iter().map(what).collect();
            seen.operations = learned.operations;
        } else {
            let refusal = refusal.await.map(|r| format!("{} {}: {}", r.action, r.object, r.message));
            seen.refusal = Some(refusal.unwrap_or_else(|_| "no action".to_owned()));
        }
        let results = env.operation.journal.close().results;
        seen.errors = results.errors.messages().map(str::to_owned).collect();
        seen.warnings = results.warnings.messages().map(str::to_owned).collect();
        (seen, bodies)
    }
}

pub(super) fn failed(id: &str, why: &str) -> String {
    let (resource, name) = id.split_once('/').unwrap();
    format!(" resource: /{resource}.example.com name: /{name} message: /Error backing up item error: /{why}")
}

pub(super) fn not_found(id: &str, parent: &str) -> String {
    let (resource, name) = id.split_once('/').unwrap();
    format!(
        " resource: /{resource}.example.com name: /{name} message: /an object that {} needs was not found",
        key(parent)
    )
}

pub(super) fn list(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
