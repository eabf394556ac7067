//! Deletion: preconditions, finalizers, namespaces.

use crate::encoding::error::{self, ApiError};
use crate::encoding::pages::ListPages;
use crate::encoding::response::{HandlerResult, answer, json_answer};
use crate::server::shared::{Server, timestamp};
use crate::store::object_store::{ListPage, ObjectStore, StoreError};
use crate::store::stored::StoredObject;
use crate::types::known::is_namespace;
use crate::verbs::call::ObjectRequest;
use crate::verbs::read::list_answer;
use crate::verbs::write::{MOST_TRIES, has_finalizers, parse_body};
use http::StatusCode;
use lifeboat_object::ObjectKey;
use serde_json::{Value, json};
use std::sync::Arc;

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Preconditions and options of a delete.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deletion {
    uid: Option<String>,
    resource_version: Option<String>,
    orphans: bool,
    dry_run: bool,
}

/// The outcome of a delete.
pub(crate) enum Deleted {
    Gone(Arc<StoredObject>),
    /// It has a deletion timestamp and waits for its finalizers.
    Waits(Arc<StoredObject>),
}

impl Server {
    pub(crate) async fn delete(&self, call: &ObjectRequest) -> HandlerResult {
        let deletion = deletion(call)?;
        let key = call.key(call.place.name.as_deref().unwrap_or_default());
        match delete(&*self.store, (self.options.now)(), &key, &deletion).await? {
            Deleted::Gone(last) => {
                Ok(json_answer(StatusCode::OK, &error::deleted(&call.resource, &key.name, &last.uid)))
            }
            Deleted::Waits(object) => {
                Ok(answer(StatusCode::OK, "application/json", self.write_renderer(call).object(&object)))
            }
        }
    }

    pub(crate) async fn delete_collection(&self, call: &ObjectRequest) -> HandlerResult {
        let deletion = deletion(call)?;
        let page = self.select_all(call).await?;
        let mut objects = Vec::new();
        for object in page.objects {
            match delete(&*self.store, (self.options.now)(), &object.key, &deletion).await {
                Ok(Deleted::Gone(object) | Deleted::Waits(object)) => objects.push(object),
                Err(error) if error.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(list_answer(self.write_renderer(call), ListPages::of(ListPage { objects, ..page })))
    }
}

fn deletion(call: &ObjectRequest) -> Result<Deletion, ApiError> {
    let options = if call.body.is_empty() { Value::Null } else { parse_body(call)? };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let policy = text(&options["propagationPolicy"]).unwrap_or_else(|| call.query.text("propagationPolicy").to_owned());
    let is_dry_in_body = options["dryRun"].as_array().is_some_and(|d| d.iter().any(|v| v == "All"));
    Ok(Deletion {
        uid: text(&options["preconditions"]["uid"]),
        resource_version: text(&options["preconditions"]["resourceVersion"]),
        orphans: policy == "Orphan" || options["orphanDependents"] == true,
        dry_run: call.is_dry_run()? || is_dry_in_body,
    })
}

/// Deletes an object, or marks it when finalizers hold it.
pub(crate) async fn delete(
    store: &dyn ObjectStore,
    now: jiff::Timestamp,
    key: &ObjectKey,
    how: &Deletion,
) -> Result<Deleted, ApiError> {
    if is_namespace(key) && IMMORTAL.contains(&key.name.as_str()) {
        return Err(ApiError::forbidden(key, "this namespace may not be deleted"));
    }
    for _ in 0..MOST_TRIES {
        let old = store.get(key).await?.ok_or_else(|| ApiError::not_found(key))?;
        check(key, &old, how)?;
        let value = old.value();
        let waits = has_finalizers(&value, is_namespace(key));
        if how.dry_run {
            return Ok(if waits { Deleted::Waits(old) } else { Deleted::Gone(old) });
        }
        if waits && old.is_deleting {
            return Ok(Deleted::Waits(old));
        }
        if how.orphans {
            orphan(store, &old.uid).await?;
        }
        let done = if waits {
            store.update(key, old.revision, &marked(value, now, is_namespace(key))).await.map(Deleted::Waits)
        } else {
            store.remove(key, old.revision).await.map(Deleted::Gone)
        };
        match done {
            Err(StoreError::Conflict(_)) => {}
            other => return Ok(other?),
        }
    }
    Err(ApiError::changed(key))
}

fn check(key: &ObjectKey, old: &StoredObject, how: &Deletion) -> Result<(), ApiError> {
    let failed = |what: &str, given: &str, found: &str| {
        let why = format!("Precondition failed: {what} in precondition: {given}, {what} in object meta: {found}");
        Err(ApiError::conflict(key, &why))
    };
    if let Some(uid) = &how.uid
        && *uid != old.uid
    {
        return failed("UID", uid, &old.uid);
    }
    if let Some(version) = &how.resource_version
        && *version != old.revision.to_string()
    {
        return failed("ResourceVersion", version, &old.revision.to_string());
    }
    Ok(())
}

fn marked(mut object: Value, now: jiff::Timestamp, is_namespace: bool) -> Value {
    object["metadata"]["deletionTimestamp"] = timestamp(now).into();
    object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
    if is_namespace {
        // A namespace has no grace period.
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("deletionGracePeriodSeconds");
        }
        object["status"]["phase"] = json!("Terminating");
    } else if let Some(generation) = object["metadata"]["generation"].as_i64() {
        object["metadata"]["generation"] = generation.saturating_add(1).into();
    }
    object
}

/// Removes an owner from the owner references of its dependents.
async fn orphan(store: &dyn ObjectStore, uid: &str) -> Result<(), ApiError> {
    for key in store.dependents(uid) {
        for _ in 0..MOST_TRIES {
            let Some(old) = store.get(&key).await? else { break };
            let mut object = old.value();
            if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
                owners.retain(|owner| owner["uid"] != uid);
            }
            match store.update(&key, old.revision, &object).await {
                Err(StoreError::Conflict(_)) => {}
                Err(StoreError::NotFound(_)) | Ok(_) => break,
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}
