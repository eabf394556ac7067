//! Tables of built-in types: each column and each cell is that of a real API server.
//!
//! `samples.json` has objects that tell much. The real server is asked for a table of each, with the object in it; then the
//! sandbox shows the very same object at the same time. The tables must be the same. What the server has said is also kept in
//! `tables.json`, so that the comparison needs no control plane: `LIFEBOAT_WRITE_GOLDEN=1` writes it anew.

use crate::client::{Api, name};
use crate::control_plane;
use async_trait::async_trait;
use jiff::Timestamp;
use lifeboat_object::{ApiResource, ObjectKey};
use lifeboat_sandbox::{
    ListPage, ListQuery, ObjectStore, Sandbox, SandboxOptions, ServedTypes, StoreError, StoredObject,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

pub(crate) const AS_TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/tables.json");

/// A server that shows one object, whatever object is asked for.
struct Showcase {
    shown: Arc<Mutex<(Value, Timestamp)>>,
    sandbox: Sandbox,
    api: Api,
}

struct Store {
    shown: Arc<Mutex<(Value, Timestamp)>>,
    types: Arc<ServedTypes>,
    revision: watch::Sender<u64>,
}

#[async_trait]
impl ObjectStore for Store {
    fn read_only(&self) -> Option<&str> {
        Some("this is a showcase")
    }

    fn types(&self) -> Arc<ServedTypes> {
        self.types.clone()
    }

    fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<StoredObject>>, StoreError> {
        let object = self.shown.lock().unwrap().0.clone();
        Ok(Some(Arc::new(StoredObject::new(key.clone(), 1, &object))))
    }

    async fn list(&self, _: &ListQuery) -> Result<ListPage, StoreError> {
        Ok(ListPage { objects: Vec::new(), revision: 1, more: false })
    }
}

impl Showcase {
    async fn start() -> Self {
        let shown = Arc::new(Mutex::new((Value::Null, Timestamp::UNIX_EPOCH)));
        let store = Store { shown: shown.clone(), types: Arc::default(), revision: watch::Sender::new(1) };
        let time = shown.clone();
        let now = Arc::new(move || time.lock().unwrap().1);
        let options = SandboxOptions { now, ..SandboxOptions::for_tests() };
        let sandbox = Sandbox::start_over(options, Arc::new(store)).await.unwrap();
        let api = Api::open_only(&sandbox.kubeconfig()).await;
        Self { shown, sandbox, api }
    }

    /// The row that the sandbox shows of an object at a time.
    async fn table(&self, of: &str, object: &Value, now: Timestamp) -> Value {
        *self.shown.lock().unwrap() = (object.clone(), now);
        let path = format!("{}/{}?includeObject=None", collection(of, "any"), name(object));
        row(&self.api.get_as(&path, AS_TABLE).await)
    }
}

/// The columns of a table, and the cells and conditions of its row.
fn row(table: &Value) -> Value {
    let row = &table["rows"][0];
    json!({"columns": table["columnDefinitions"], "cells": row["cells"], "conditions": row["conditions"]})
}

fn resource(of: &str) -> Arc<ApiResource> {
    let parts: Vec<&str> = of.split('/').collect();
    let (group, version, resource) = match parts.as_slice() {
        [version, resource] => ("", *version, *resource),
        [group, version, resource] => (*group, *version, *resource),
        _ => panic!("{of}"),
    };
    ServedTypes::default().find(group, version, resource).unwrap_or_else(|| panic!("no type {of}")).clone()
}

fn collection(of: &str, namespace: &str) -> String {
    let r = resource(of);
    let base = if r.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", r.group) };
    let namespace = if r.namespaced { format!("/namespaces/{namespace}") } else { String::new() };
    format!("{base}/{}{namespace}/{}", r.version, r.resource)
}

#[tokio::test]
async fn tables_are_those_of_a_real_server() {
    let showcase = Showcase::start().await;
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(GOLDEN).unwrap()).unwrap();
    let mut seen = BTreeSet::new();
    for row in golden["rows"].as_array().unwrap() {
        let of = row["type"].as_str().unwrap();
        seen.insert(of);
        let table = showcase.table(of, &row["object"], row["now"].as_str().unwrap().parse().unwrap()).await;
        let expected =
            json!({"columns": golden["columns"][of], "cells": row["cells"], "conditions": row["conditions"]});
        assert_eq!(table, expected, "{of} {}", row["object"]);
    }
    let types = ServedTypes::default();
    let listed = types.all().filter(|r| r.can("list")).map(|r| format!("{}/{}", r.api_version(), r.resource));
    let listed: BTreeSet<String> = listed.collect();
    assert_eq!(seen, listed.iter().map(String::as_str).collect(), "each type has its rows");
    showcase.sandbox.shutdown().await;
}

#[tokio::test]
async fn a_real_server_makes_the_same_tables() {
    let api = control_plane().await;
    api.until(&format!("/api/v1/namespaces/{}/serviceaccounts/default", api.namespace), |code, _| code == 200).await;
    let showcase = Showcase::start().await;
    let samples: Vec<Value> = serde_json::from_str(include_str!("../golden/samples.json")).unwrap();
    let mut differences = Vec::new();
    let (mut columns, mut rows) = (json!({}), Vec::new());
    for (index, sample) in samples.iter().enumerate() {
        let of = sample["type"].as_str().unwrap();
        let (table, now) = real_table(&api, index, sample).await;
        // Names that differ in each run are not what is compared.
        let table = table.to_string().replace(&api.namespace, "shop");
        let table: Value = serde_json::from_str(&table).unwrap();
        let mut object = table["rows"][0]["object"].clone();
        object["metadata"].as_object_mut().unwrap().remove("managedFields");
        let (expected, shown) = (row(&table), showcase.table(of, &object, now).await);
        if shown != expected {
            differences.push(format!("{of} {object}\n real {expected}\n ours {shown}"));
        }
        columns[of] = expected["columns"].clone();
        let (cells, conditions) = (&expected["cells"], &expected["conditions"]);
        rows.push(json!({"type": of, "now": now, "object": object, "cells": cells, "conditions": conditions}));
    }
    if std::env::var_os("LIFEBOAT_WRITE_GOLDEN").is_some() {
        write(&columns, &rows);
    }
    showcase.sandbox.shutdown().await;
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Writes each row on a line of its own, so that changes can be read.
fn write(columns: &Value, rows: &[Value]) {
    let lines = |values: Vec<String>| values.join(",\n");
    let columns = columns.as_object().unwrap().iter().map(|(of, columns)| format!("{}:{columns}", json!(of))).collect();
    let rows = rows.iter().map(Value::to_string).collect();
    let text = format!("{{\"columns\":{{\n{}\n}},\"rows\":[\n{}\n]}}\n", lines(columns), lines(rows));
    std::fs::write(Path::new(GOLDEN), text).unwrap();
}

/// The table that a real server makes of a sample, and the time of it. What has no status is only tried; what has one is made, and
/// its status is tried, so that no controller has its say.
async fn real_table(api: &Api, index: usize, sample: &Value) -> (Value, Timestamp) {
    let of = sample["type"].as_str().unwrap();
    let all = collection(of, &api.namespace);
    let shows_object = "includeObject=Object";
    let status = &sample["object"]["status"];
    if let Some(name) = sample["get"].as_str() {
        let one = format!("{all}/{name}");
        return if status.is_null() {
            at_once(api, "GET", &format!("{one}?{shows_object}"), &Value::Null).await
        } else {
            try_status(api, &one, status).await
        };
    }
    let object = of_sample(api, index, sample);
    if status.is_null() && sample["deleted"].is_null() {
        return at_once(api, "POST", &format!("{all}?dryRun=All&{shows_object}"), &object).await;
    }
    let one = format!("{all}/{}", name(&api.post(&all, &object).await));
    if sample["deleted"] == true {
        assert_eq!(api.delete(&one).await.0, 200, "{one}");
    }
    let answer = match status.is_null() {
        true => at_once(api, "GET", &format!("{one}?{shows_object}"), &Value::Null).await,
        false => try_status(api, &one, status).await,
    };
    api.patch(&one, "merge-patch", &json!({"metadata": {"finalizers": null}})).await;
    api.delete(&format!("{one}?gracePeriodSeconds=0")).await;
    answer
}

/// The object of a sample, complete.
fn of_sample(api: &Api, index: usize, sample: &Value) -> Value {
    let text = sample["object"].to_string().replace("@NS@", &api.namespace);
    let mut object: Value = serde_json::from_str(&text).unwrap();
    set_times(&mut object, Timestamp::now());
    let r = resource(sample["type"].as_str().unwrap());
    object["apiVersion"] = r.api_version().into();
    object["kind"] = r.kind.clone().into();
    if object["metadata"]["name"].is_null() {
        object["metadata"]["name"] = format!("{}-{index}", api.namespace).into();
    }
    object
}

/// Replaces `AGO n` by the time n seconds ago.
fn set_times(value: &mut Value, now: Timestamp) {
    let format = |seconds: &str, format: &str| {
        let seconds: i64 = seconds.parse().unwrap();
        let time = Timestamp::from_second(now.as_second() - seconds).unwrap();
        Value::from(time.strftime(format).to_string())
    };
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|v| set_times(v, now)),
        Value::Array(elements) => elements.iter_mut().for_each(|v| set_times(v, now)),
        Value::String(text) => {
            if let Some(seconds) = text.strip_prefix("AGO ") {
                *value = format(seconds, "%Y-%m-%dT%H:%M:%SZ");
            } else if let Some(seconds) = text.strip_prefix("MICRO ") {
                *value = format(seconds, "%Y-%m-%dT%H:%M:%S.000000Z");
            }
        }
        _ => {}
    }
}

async fn try_status(api: &Api, one: &str, status: &Value) -> (Value, Timestamp) {
    let path = format!("{one}/status?dryRun=All&includeObject=Object");
    for _ in 0..10 {
        let (_, mut object) = api.get(one).await;
        // This counter must not go back.
        let collisions = object["status"]["collisionCount"].clone();
        object["status"] = status.clone();
        if !collisions.is_null() {
            object["status"]["collisionCount"] = collisions;
        }
        set_times(&mut object, Timestamp::now());
        match within_a_second(api, "PUT", &path, &object).await {
            Some((table, now)) if table["kind"] == "Table" => return (table, now),
            // Of a few types the server makes no table here: these are written.
            Some(_) if api.put(&format!("{one}/status"), &object).await.0 == 200 => {
                return at_once(api, "GET", &format!("{one}?includeObject=Object"), &Value::Null).await;
            }
            _ => {}
        }
    }
    panic!("{one} is written all the time");
}

async fn at_once(api: &Api, method: &str, path: &str, body: &Value) -> (Value, Timestamp) {
    for _ in 0..10 {
        if let Some(answer) = within_a_second(api, method, path, body).await {
            return answer;
        }
    }
    panic!("{method} {path} takes more than a second");
}

/// An answer and its time; `None` when a second has ended meanwhile, so that the time of the server is not known, or when someone
/// else has written the object.
async fn within_a_second(api: &Api, method: &str, path: &str, body: &Value) -> Option<(Value, Timestamp)> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let headers = [("accept", AS_TABLE), ("content-type", "application/json")];
    let before = Timestamp::now();
    let (code, answer) = api.send(method, path, &headers, body.clone()).await;
    if code == 409 {
        return None;
    }
    assert!(code < 300, "{method} {path} {body}\n{answer}");
    (Timestamp::now().as_second() == before.as_second()).then_some((answer, before))
}
