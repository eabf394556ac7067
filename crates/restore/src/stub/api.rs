//! An API server in memory for restores, and the ways in which tests let it misbehave.

use super::types::{TYPES, discovered};
use lifeboat_testbed::{ScriptedRequest, ScriptedResponse};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The change that controllers make to an object when it is created.
pub(super) type Reaction = Box<dyn Fn(&mut Value) + Send>;

/// Changes an object, or takes it away.
pub(super) type BeforeDeletion = fn(&mut Value) -> bool;

/// A code and a reason.
pub(super) type ScriptedError = (u16, &'static str);

/// An API server in memory, in which created objects exist at once.
#[derive(Default)]
pub(super) struct Api {
    pub(super) objects: Mutex<BTreeMap<String, Value>>,
    pub(super) made: Mutex<Vec<String>>,
    /// Number of creations of a name that are still to be refused.
    pub(super) refused: Mutex<BTreeMap<String, usize>>,
    /// Number of patches of a name that are still to be refused, with the answer.
    pub(super) refused_patches: Mutex<BTreeMap<String, (usize, ScriptedError)>>,
    pub(super) patches: Mutex<Vec<Value>>,
    pub(super) writes: Mutex<Vec<String>>,
    /// Set when discovery fails once something was written.
    pub(super) loses_discovery: AtomicBool,
    /// Number of answers of discovery that still leave out types.
    pub(super) late_discoveries: AtomicUsize,
    /// Paths of objects that go once somebody has tried to create them and then looks at them, and whether a create was tried.
    pub(super) going: Mutex<BTreeMap<String, bool>>,
    /// Answer to each request of a method at a path.
    pub(super) answers: Mutex<BTreeMap<(&'static str, &'static str), ScriptedError>>,
    /// Delay of the answers about a path.
    pub(super) slow: Mutex<BTreeMap<&'static str, Duration>>,
    /// The most bytes that an object may have; 0 for any.
    pub(super) largest: AtomicUsize,
    /// Fields that no patch may change, as JSON pointers, and how such a refusal names them; empty for each by itself.
    pub(super) fixed: Mutex<Vec<&'static str>>,
    pub(super) named_as: Mutex<&'static str>,
    /// Change of an object just before the next deletion.
    pub(super) before_deletion: Mutex<Option<BeforeDeletion>>,
    /// Changes of objects when they are created, by kind.
    pub(super) reactions: Mutex<BTreeMap<&'static str, Reaction>>,
}

impl Api {
    /// The response to a request, after the time that those about its path take.
    pub(super) async fn answer(&self, request: ScriptedRequest) -> ScriptedResponse {
        let path = request.path.split('?').next().unwrap_or_default();
        let slow = self.slow.lock().unwrap().get(path).copied();
        tokio::time::sleep(slow.unwrap_or_default()).await;
        let (code, body) = self.say(&request.method, &request.path, request.json());
        ScriptedResponse::json(code, &body).with_header("date", "Thu, 01 Jan 2026 00:00:00 GMT")
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
pub(super) fn remove(objects: &mut BTreeMap<String, Value>, path: &str) -> Option<Value> {
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
