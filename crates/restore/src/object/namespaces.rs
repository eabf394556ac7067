//! Makes sure that the namespace of an object is there (velero: pkg/restore/restore.go).

use crate::object::existing::is_made_since;
use crate::object::managed_fields::FieldManagers;
use crate::object::refused::Missing;
use crate::plan::confirmed::{ConfirmedPlan, PlannedWrite};
use crate::state::env::Env;
use crate::state::item_result::ItemResult;
use crate::state::lock::lock;
use crate::state::namespace_uids::NamespaceUids;
use crate::state::retry::{can_be_read_later, can_pass};
use crate::state::terminating::TerminatingObject;
use crate::state::wait::{WaitBudget, WaitShare, Waited, poll};
use bytes::Bytes;
use jiff::Timestamp;
use lifeboat_cluster::{ClusterError, MergePatch, WriteBody};
use lifeboat_object::{ApiResource, GroupResource, ObjectKey, ResultScope};
use lifeboat_operation::Journal;
use lifeboat_store::StoreError;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// The namespaces of one restore: the first caller ensures one, and callers that come meanwhile wait for that. One that
/// is refused for a reason that can pass is tried once in each round.
#[derive(Debug)]
pub(crate) struct Namespaces {
    resource: Arc<ApiResource>,
    /// The time that all waits for terminating namespaces share.
    terminating: WaitBudget,
    /// Of a restore that was cut off: when it began. Namespaces that were made since then are its own.
    began: Option<Timestamp>,
    /// The plan that the restore is held to.
    pinned: Option<Arc<ConfirmedPlan>>,
    /// By target name.
    cells: Mutex<BTreeMap<String, Arc<Cell>>>,
    round: AtomicU64,
    /// The UIDs of existing namespaces, for a resumed restore.
    uids: Arc<NamespaceUids>,
    /// Set when a namespace was being deleted when it was asked for.
    saw_one_leave: AtomicBool,
}

#[derive(Debug, Default)]
struct Cell {
    state: tokio::sync::Mutex<EnsuredState>,
    /// Objects that were not restored because it is missing.
    unrestored: AtomicU64,
}

/// State of a namespace.
#[derive(Debug, Default, PartialEq, Eq)]
enum EnsuredState {
    /// Nothing.
    #[default]
    Unknown,
    /// It is there, and whether this restore made it.
    There { made: bool },
    /// It was refused in this round for a reason that can pass.
    Refused { round: u64, why: String },
    /// It does not come any more.
    Lost { why: String },
    /// It is missing, and the plan that the restore is held to does not make it: only the objects that need it report
    /// that.
    Unplanned { why: String },
}

impl Namespaces {
    pub(crate) fn new(
        resource: Arc<ApiResource>,
        timeout: Duration,
        began: Option<Timestamp>,
        pinned: Option<Arc<ConfirmedPlan>>,
    ) -> Self {
        let terminating = WaitBudget::new(timeout);
        Self {
            resource,
            terminating,
            began,
            pinned,
            cells: Mutex::default(),
            round: AtomicU64::default(),
            uids: Arc::default(),
            saw_one_leave: AtomicBool::default(),
        }
    }

    /// Notes the UIDs of existing namespaces here.
    pub(crate) fn noting(self, uids: Arc<NamespaceUids>) -> Self {
        Self { uids, ..self }
    }

    /// Lets refused namespaces be tried again.
    pub(crate) fn next_round(&self) {
        self.round.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns true if a namespace was missing, is still missing, or was deleted and came back: existence checks made
    /// in it before that are out of date.
    pub(crate) fn has_changed_any(&self) -> bool {
        let was_there =
            |cell: &Arc<Cell>| cell.state.try_lock().is_ok_and(|s| *s == EnsuredState::There { made: false });
        self.saw_one_leave.load(Ordering::Relaxed) || !lock(&self.cells).values().all(was_there)
    }

    /// Ensures that the namespace exists and is not being deleted; tells whether this restore made it. `in_backup`
    /// reads the one in the backup, and runs only for the first caller of a round; without it a bare one is made.
    pub(crate) async fn ensure(
        &self,
        name: &str,
        in_backup: impl Future<Output = Result<Option<Value>, StoreError>> + Send,
        env: &Env,
    ) -> Result<bool, Missing> {
        let cell = self.cell(name);
        let mut state = cell.state.lock().await;
        let round = self.round.load(Ordering::Relaxed);
        if state.is_open(round) {
            *state = match in_backup.await {
                Ok(source) => self.make(name, source.as_ref(), env).await,
                Err(e) => {
                    let why = format!("error creating namespace {name}: it could not be read from the backup: {e}");
                    if can_be_read_later(&e) {
                        EnsuredState::Refused { round, why }
                    } else {
                        EnsuredState::Lost { why }
                    }
                }
            };
        }
        match &*state {
            EnsuredState::There { made } => Ok(*made),
            EnsuredState::Lost { .. } | EnsuredState::Unplanned { .. } => Err(Missing::ForGood),
            EnsuredState::Refused { .. } | EnsuredState::Unknown => Err(Missing::ForNow),
        }
    }

    /// Gives a namespace up that is still refused: it is tried no more.
    pub(crate) async fn give_up(&self, name: &str) {
        let cell = self.cell(name);
        let mut state = cell.state.lock().await;
        if let EnsuredState::Refused { why, .. } = &mut *state {
            *state = EnsuredState::Lost { why: std::mem::take(why) };
        }
    }

    /// Counts an object that is not restored because this namespace is missing.
    pub(crate) fn count_unrestored(&self, name: &str) {
        self.cell(name).unrestored.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes an error for each namespace that is missing, with the number of objects that were not restored. Returns
    /// all namespaces for the resource list: those that this restore made, and those that are missing.
    pub(crate) async fn report(&self, journal: &Journal) -> Vec<(String, ItemResult)> {
        let mut out = Vec::new();
        let cells = lock(&self.cells).clone();
        for (name, cell) in cells {
            let unrestored = cell.unrestored.load(Ordering::Relaxed);
            match &*cell.state.lock().await {
                EnsuredState::Unplanned { .. } if unrestored == 0 => {}
                EnsuredState::There { made: true } => out.push((name, ItemResult::Created)),
                EnsuredState::Lost { why } | EnsuredState::Unplanned { why } => {
                    journal.error(&ResultScope::Velero, with_cost(why, unrestored));
                    out.push((name, ItemResult::Failed));
                }
                EnsuredState::There { made: false } | EnsuredState::Refused { .. } | EnsuredState::Unknown => {}
            }
        }
        out
    }

    fn cell(&self, name: &str) -> Arc<Cell> {
        let mut cells = lock(&self.cells);
        match cells.get(name) {
            Some(cell) => Arc::clone(cell),
            None => Arc::clone(cells.entry(name.to_owned()).or_default()),
        }
    }

    /// The state of a namespace that the plan does not say is made; `None` when it may be.
    async fn held(&self, name: &str, env: &Env) -> Option<EnsuredState> {
        let pinned = self.pinned.as_ref()?;
        let key = ObjectKey::new(GroupResource::namespaces(), None, name);
        let refusal = pinned.allows(&key, PlannedWrite::Create, &Value::Null).err()?;
        Some(match env.cluster.get(&self.resource, None, name).await {
            Ok(found) => {
                let found: Option<Value> = found.map(|body| serde_json::from_slice(&body).unwrap_or_default());
                let why = format!("error creating namespace {name}: it was not made, because {refusal}");
                match found.filter(|found| TerminatingObject::of_namespace(found).is_none()) {
                    Some(found) => {
                        self.note_uid(name, &found);
                        EnsuredState::There { made: is_made_since(&found, self.began) }
                    }
                    None if pinned.names(&key) => EnsuredState::Lost { why },
                    None => EnsuredState::Unplanned { why },
                }
            }
            Err(e) => self.refused(format!("error reading namespace {name}: {}", e.failure), &e),
        })
    }

    /// The state of a namespace that the API server has refused.
    fn refused(&self, why: String, error: &ClusterError) -> EnsuredState {
        let round = self.round.load(Ordering::Relaxed);
        if can_pass(error) { EnsuredState::Refused { round, why } } else { EnsuredState::Lost { why } }
    }

    async fn make(&self, name: &str, source: Option<&Value>, env: &Env) -> EnsuredState {
        if let Some(state) = self.held(name, env).await {
            return state;
        }
        let round = self.round.load(Ordering::Relaxed);
        let body = Bytes::from(target(name, source).to_string());
        let managers =
            source.map(|namespace| FieldManagers::of(&namespace["metadata"]["managedFields"])).unwrap_or_default();
        let wanted = || WriteBody { body: body.clone(), field_manager: &managers.field_manager };
        let since = Instant::now();
        let tried = poll(
            || self.terminating.until(),
            &env.operation.cancel,
            || async {
                match env.cluster.create(&self.resource, None, name, wanted()).await {
                    Ok(made) => {
                        self.note_uid(name, &serde_json::from_slice(&made).unwrap_or_default());
                        Ok(Some(true))
                    }
                    Err(e) if e.is_already_exists() || is_terminating(&e) || e.is_forbidden() => {
                        let found = match env.cluster.get(&self.resource, None, name).await {
                            // Who may make no namespaces needs none that is there.
                            Ok(None) | Err(_) if e.is_forbidden() => return Err(e),
                            found => found?,
                        };
                        let found = found.map(|body| serde_json::from_slice(&body).unwrap_or_default());
                        // Gone meanwhile, or being deleted: try again.
                        let found = found.filter(|found| TerminatingObject::of_namespace(found).is_none());
                        if found.is_none() {
                            self.saw_one_leave.store(true, Ordering::Relaxed);
                        }
                        if let Some(found) = &found {
                            self.note_uid(name, found);
                        }
                        Ok(found.map(|found| is_made_since(&found, self.began)))
                    }
                    Err(e) => Err(e),
                }
            },
        );
        match tried.await {
            Waited::Done(made) => {
                if let Some(source) = source.filter(|_| made) {
                    self.give_back(name, source, &managers, env).await;
                }
                EnsuredState::There { made }
            }
            Waited::Failed(e) => self.refused(format!("error creating namespace {name}: {}", e.failure), &e),
            Waited::TimedOut => EnsuredState::Lost { why: stays(name, self.terminating.from(since)) },
            Waited::Cancelled => EnsuredState::Refused { round, why: "the restore was cancelled".to_owned() },
        }
    }

    fn note_uid(&self, name: &str, namespace: &Value) {
        self.uids.note(name, namespace["metadata"]["uid"].as_str().unwrap_or_default());
    }

    /// Gives the fields of a new namespace back to their managers, where the create could not.
    async fn give_back(&self, name: &str, source: &Value, managers: &FieldManagers, env: &Env) {
        if !managers.second_write {
            return;
        }
        let managed_fields = &source["metadata"]["managedFields"];
        let patch = Bytes::from(json!({"metadata": {"managedFields": managed_fields}}).to_string());
        if let Err(e) = env.cluster.patch(&self.resource, None, name, MergePatch::of(patch)).await {
            let message = format!("error restoring managedFields of namespaces/{name}: {}", e.failure);
            env.operation.journal.warn(&ResultScope::Cluster, message);
        }
    }
}

impl EnsuredState {
    /// Returns true if it is to be ensured in this round.
    fn is_open(&self, now: u64) -> bool {
        match self {
            Self::Unknown => true,
            Self::Refused { round, .. } => *round != now,
            Self::There { .. } | Self::Lost { .. } | Self::Unplanned { .. } => false,
        }
    }
}

/// Explains, for people, that a terminating namespace is still there.
fn stays(name: &str, share: WaitShare) -> String {
    let waited = match share {
        WaitShare::Some(waited) => format!("it is still there after {:.0} s", waited.as_secs_f64()),
        WaitShare::Nothing(all) => format!("the {} s for all such namespaces of a restore were over", all.as_secs()),
    };
    format!("timed out waiting for terminating namespace {name} to disappear before restoring: {waited}")
}

/// Describes, for people, a namespace that is missing and the number of objects that were not restored because of that.
fn with_cost(why: &str, objects: u64) -> String {
    match objects {
        0 => why.to_owned(),
        1 => format!("{why}; 1 object in it was not restored"),
        _ => format!("{why}; {objects} objects in it were not restored"),
    }
}

fn is_terminating(error: &ClusterError) -> bool {
    error.is_conflict() || error.status().is_some_and(|s| s.code == 409)
}

/// The namespace to create: labels, annotations, finalizers and spec of the one in the backup.
fn target(name: &str, source: Option<&Value>) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), name.into());
    let mut out = json!({"apiVersion": "v1", "kind": "Namespace"});
    if let Some(source) = source {
        for key in ["labels", "annotations", "finalizers"] {
            if let Some(value) = source["metadata"].get(key) {
                metadata.insert(key.to_owned(), value.clone());
            }
        }
        if let Some(spec) = source.get("spec") {
            out["spec"] = spec.clone();
        }
        // The server sets this label to the name itself.
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.remove("kubernetes.io/metadata.name");
        }
    }
    out["metadata"] = metadata.into();
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_action::Actions;
    use lifeboat_cluster::{Cluster, ConnectOptions};
    use lifeboat_operation::Operation;
    use lifeboat_store::Store;
    use lifeboat_testbed::scripted_api_server;
    use tokio::task::JoinSet;

    /// Namespaces, and an API server that gives these answers.
    async fn asking(tasks: &mut JoinSet<()>, answers: Vec<(u16, String)>) -> (Namespaces, Env) {
        let kubeconfig = scripted_api_server(tasks, answers).await.unwrap();
        let options = ConnectOptions { kubeconfig: Some(kubeconfig.path().to_owned()), ..ConnectOptions::default() };
        let env = Env {
            cluster: Cluster::connect(&options).await.unwrap(),
            store: Store::in_memory(),
            actions: Actions::default(),
            operation: Operation::new(Arc::new(|| Timestamp::UNIX_EPOCH), "restore=velero/r", std::env::temp_dir()),
        };
        let resource = Arc::new(ApiResource::namespaces());
        (Namespaces::new(resource, Duration::from_secs(60), None, None), env)
    }

    fn failure(reason: &str, code: u16) -> (u16, String) {
        (code, json!({"kind": "Status", "status": "Failure", "reason": reason, "code": code}).to_string())
    }

    fn there(metadata: &Value) -> (u16, String) {
        (200, json!({"kind": "Namespace", "metadata": metadata}).to_string())
    }

    /// Another client may make it again before the restore does, empty: existence checks made in it before are out of
    /// date.
    #[tokio::test]
    async fn a_namespace_that_went_and_came_again_has_changed() {
        let exists = || failure("AlreadyExists", 409);
        let terminating = json!({"name": "shop", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        for (answers, expected) in [
            (vec![exists(), there(&json!({"name": "shop"}))], false),
            (vec![exists(), there(&terminating), exists(), there(&json!({"name": "shop"}))], true),
        ] {
            let mut tasks = JoinSet::new();
            let (namespaces, env) = asking(&mut tasks, answers).await;
            assert_eq!(namespaces.ensure("shop", async { Ok(None) }, &env).await, Ok(false));
            assert_eq!(namespaces.has_changed_any(), expected);
        }
    }

    #[tokio::test]
    async fn who_may_make_no_namespaces_needs_none_that_is_there() {
        let forbidden = || failure("Forbidden", 403);
        for (found, expected) in [
            (there(&json!({"name": "shop"})), Ok(false)),
            (failure("NotFound", 404), Err(Missing::ForGood)),
            (forbidden(), Err(Missing::ForGood)),
        ] {
            let mut tasks = JoinSet::new();
            let (namespaces, env) = asking(&mut tasks, vec![forbidden(), found]).await;
            assert_eq!(namespaces.ensure("shop", async { Ok(None) }, &env).await, expected);
        }
    }

    #[test]
    fn a_refused_namespace_is_tried_once_in_each_round() {
        let refused = EnsuredState::Refused { round: 3, why: "w".to_owned() };
        for (state, now, expected) in [
            (EnsuredState::Unknown, 3, true),
            (EnsuredState::There { made: true }, 3, false),
            (EnsuredState::Lost { why: "w".to_owned() }, 4, false),
        ] {
            assert_eq!(state.is_open(now), expected, "{state:?}");
        }
        assert_eq!([3, 4].map(|now| refused.is_open(now)), [false, true]);
        let said = [0, 1, 2].map(|objects| with_cost("no", objects));
        assert_eq!(said, ["no", "no; 1 object in it was not restored", "no; 2 objects in it were not restored"]);
    }

    #[test]
    fn who_waits_for_a_terminating_namespace_is_told_how_long_it_was() {
        let said = |share| stays("shop", share);
        let begin = "timed out waiting for terminating namespace shop to disappear before restoring:";
        assert_eq!(said(WaitShare::Some(Duration::from_millis(8900))), format!("{begin} it is still there after 9 s"));
        let none = said(WaitShare::Nothing(Duration::from_secs(600)));
        assert_eq!(none, format!("{begin} the 600 s for all such namespaces of a restore were over"));
    }

    #[test]
    fn a_namespace_keeps_what_a_person_wrote() {
        let source = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "old", "uid": "u", "labels": {"team": "red", "kubernetes.io/metadata.name": "old"}, "annotations": {"a": "b"}, "finalizers": ["f"]},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        assert_eq!(
            target("new", Some(&source)),
            json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": "new", "labels": {"team": "red"}, "annotations": {"a": "b"}, "finalizers": ["f"]}, "spec": {"finalizers": ["kubernetes"]}})
        );
        assert_eq!(target("new", None), json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}));
    }
}
