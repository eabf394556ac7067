//! Create, update and patch.

use crate::encoding::error::ApiError;
use crate::encoding::protobuf;
use crate::encoding::response::{HandlerResult, answer, json_answer};
use crate::server::shared::Server;
use crate::store::managed;
use crate::store::object_store::StoreError;
use crate::store::shape::{
    check_definition, check_finalizers, check_life, check_place, check_shape, complete_type, is_path_segment,
    metadata_mut,
};
use crate::store::stored::StoredObject;
use crate::types::crd;
use crate::types::known::{is_definition, is_namespace, namespace_key};
use crate::verbs::call::ObjectRequest;
use http::StatusCode;
use lifeboat_object::{ApiResource, ObjectKey};
use lifeboat_patch::{JsonPatch, JsonPatchError};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The number of times that a write is tried again when another client has written meanwhile.
pub(crate) const MOST_TRIES: u32 = 32;
/// The patches that are served.
const PATCHES: [&str; 2] = ["application/merge-patch+json", "application/json-patch+json"];
/// The number of generated names that are tried after the first.
const MOST_NAMES: u32 = 8;

/// A new object on its way into the store.
struct New<'a> {
    resource: &'a ApiResource,
    is_custom: bool,
    manager: &'a str,
    dry_run: bool,
    /// Keep status, uid and creation time: the object is loaded, not created by a client.
    keeps_life: bool,
}

impl Server {
    pub(crate) async fn create(&self, call: &ObjectRequest) -> HandlerResult {
        let object = self.parse_object(call)?;
        if let Some(review) = self.review(&call.resource, &object)? {
            return Ok(json_answer(StatusCode::CREATED, &review));
        }
        let namespace = call.place.namespace.as_deref();
        if call.resource.namespaced && namespace.is_none() {
            return Err(ApiError::method());
        }
        let new = New {
            resource: &call.resource,
            is_custom: call.is_custom,
            manager: &managed::manager(call.query.text("fieldManager"), &call.user_agent),
            dry_run: call.is_dry_run()?,
            keeps_life: false,
        };
        let made = self.insert(&new, namespace, object).await?;
        Ok(answer(StatusCode::CREATED, "application/json", self.write_renderer(call).object(&made)))
    }

    pub(crate) async fn update(&self, call: &ObjectRequest) -> HandlerResult {
        let object = self.parse_object(call)?;
        let key = call.key(call.place.name.as_deref().unwrap_or_default());
        let dry_run = call.is_dry_run()?;
        for _ in 0..MOST_TRIES {
            let old = self.store.get(&key).await?.ok_or_else(|| ApiError::not_found(&key))?;
            if call.is_custom && object["metadata"]["resourceVersion"].as_str().unwrap_or_default().is_empty() {
                let message = format!(
                    "{} {:?} is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update",
                    key.resource, key.name
                );
                return Err(ApiError::invalid(&key, &call.resource.kind, message));
            }
            let replaced = self.replace(call, &old, object.clone(), dry_run).await;
            match replaced {
                Err(Replace::Raced) => {}
                Err(Replace::Refused(error)) => return Err(*error),
                Ok(made) => {
                    return Ok(answer(StatusCode::OK, "application/json", self.write_renderer(call).object(&made)));
                }
            }
        }
        Err(ApiError::changed(&key))
    }

    pub(crate) async fn patch(&self, call: &ObjectRequest) -> HandlerResult {
        if !PATCHES.contains(&call.content_type.as_str()) {
            return Err(ApiError::unsupported(&call.content_type));
        }
        let key = call.key(call.place.name.as_deref().unwrap_or_default());
        let dry_run = call.is_dry_run()?;
        for _ in 0..MOST_TRIES {
            let old = self.store.get(&key).await?.ok_or_else(|| ApiError::not_found(&key))?;
            let mut object = old.value();
            object["apiVersion"] = call.resource.api_version().into();
            patched(call, &key, &mut object)?;
            // A resource version that the patch did not set is that of the object it was applied to.
            match self.replace(call, &old, object, dry_run).await {
                Err(Replace::Raced) => {}
                Err(Replace::Refused(error)) => return Err(*error),
                Ok(made) => {
                    return Ok(answer(StatusCode::OK, "application/json", self.write_renderer(call).object(&made)));
                }
            }
        }
        Err(ApiError::changed(&key))
    }

    /// Makes or replaces an object as it is, with status, uid and creation time where it has them.
    pub(crate) async fn load(&self, mut object: Value) -> Result<(), ApiError> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let types = self.store.types();
        let resource = types.of_kind(&api_version, &kind).ok_or_else(|| {
            ApiError::bad_request(format!("no type is served for kind {kind:?} in version {api_version:?}"))
        })?;
        check_shape(&object)?;
        let metadata = metadata_mut(&mut object)?;
        metadata.remove("resourceVersion");
        metadata.remove("deletionTimestamp");
        metadata.remove("deletionGracePeriodSeconds");
        let name = text(&metadata.get("name").cloned().unwrap_or_default());
        let namespace =
            metadata.get("namespace").and_then(Value::as_str).filter(|n| !n.is_empty()).unwrap_or("default");
        let namespace = resource.namespaced.then(|| namespace.to_owned());
        let key = ObjectKey::new(resource.group_resource(), namespace.as_deref(), name);
        for _ in 0..MOST_TRIES {
            let Some(old) = self.store.get(&key).await? else {
                let is_custom = types.is_custom(resource);
                let new = New { resource, is_custom, manager: "sandbox", dry_run: false, keeps_life: true };
                return self.insert(&new, namespace.as_deref(), object).await.map(drop);
            };
            let mut next = object.clone();
            keep_life(&mut next, &old.value());
            if is_definition(&key) {
                crd::establish(&mut next, &self.now_text());
            }
            match self.store.update(&key, old.revision, &next).await {
                Err(StoreError::Conflict(_) | StoreError::NotFound(_)) => {}
                other => return Ok(other.map(drop)?),
            }
        }
        Err(ApiError::changed(&key))
    }

    fn parse_object(&self, call: &ObjectRequest) -> Result<Value, ApiError> {
        let mut object = parse_body(call)?;
        check_shape(&object)?;
        complete_type(&mut object, &call.resource)?;
        check_place(&object, call)?;
        Ok(object)
    }

    async fn insert(
        &self,
        new: &New<'_>,
        namespace: Option<&str>,
        mut object: Value,
    ) -> Result<Arc<StoredObject>, ApiError> {
        let kind = &new.resource.kind;
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let metadata = metadata_mut(&mut object)?;
        let name = text(metadata.get("name"));
        let prefix = text(metadata.get("generateName"));
        let generates = name.is_empty() && !prefix.is_empty();
        let mut key = ObjectKey::new(new.resource.group_resource(), namespace, &name);
        if name.is_empty() && !generates {
            let message = format!(
                "{} \"\" is invalid: metadata.name: Required value: name or generateName is required",
                key.resource
            );
            return Err(ApiError::invalid(&key, kind, message));
        }
        if !generates && !is_path_segment(&name) {
            let message = format!(
                "{} {name:?} is invalid: metadata.name: Invalid value: it cannot be part of a path",
                key.resource
            );
            return Err(ApiError::invalid(&key, kind, message));
        }
        if !text(metadata.get("resourceVersion")).is_empty() {
            return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
        }
        for _ in 0..MOST_NAMES {
            if generates {
                key.name = generated_name(&prefix, &(self.options.new_uid)());
            }
            if let Some(namespace) = namespace {
                self.check_namespace(&key, namespace).await?;
            }
            let stamped = self.stamp(new, &key, object.clone())?;
            if new.dry_run {
                if self.store.get(&key).await?.is_some() {
                    return Err(StoreError::Exists(key).into());
                }
                return Ok(Arc::new(StoredObject::new(key, 0, &stamped)));
            }
            match self.store.insert(&key, &stamped).await {
                Err(StoreError::Exists(_)) if generates => {}
                Err(error) => return Err(error.into()),
                Ok(made) => {
                    if is_namespace(&key) {
                        self.furnish(&key.name).await?;
                    }
                    return Ok(made);
                }
            }
        }
        Err(StoreError::Exists(key).into())
    }

    async fn check_namespace(&self, key: &ObjectKey, namespace: &str) -> Result<(), ApiError> {
        match self.store.get(&namespace_key(namespace)).await? {
            None => Err(ApiError::no_namespace(namespace)),
            Some(found) if found.is_deleting => Err(ApiError::terminating(key, namespace)),
            Some(_) => Ok(()),
        }
    }

    /// Writes into a new object what the server decides.
    fn stamp(&self, new: &New<'_>, key: &ObjectKey, mut object: Value) -> Result<Value, ApiError> {
        let now = self.now_text();
        let has_status = new.resource.has_subresource("status");
        if !new.keeps_life
            && has_status
            && let Some(object) = object.as_object_mut()
        {
            object.remove("status");
        }
        let has_generation = new.is_custom || object.get("spec").is_some_and(Value::is_object);
        let metadata = metadata_mut(&mut object)?;
        for own in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "generation"] {
            metadata.remove(own);
        }
        metadata.insert("name".to_owned(), key.name.clone().into());
        match &key.namespace {
            Some(namespace) => metadata.insert("namespace".to_owned(), namespace.clone().into()),
            None => metadata.remove("namespace"),
        };
        let uid = metadata.get("uid").and_then(Value::as_str).filter(|u| !u.is_empty());
        let keeps_uid = new.keeps_life && uid.is_some_and(|u| self.store.with_uid(u).is_none());
        if !keeps_uid {
            metadata.insert("uid".to_owned(), (self.options.new_uid)().into());
        }
        if !(new.keeps_life && metadata.contains_key("creationTimestamp")) {
            metadata.insert("creationTimestamp".to_owned(), now.clone().into());
        }
        if has_generation {
            metadata.insert("generation".to_owned(), 1.into());
        }
        let keeps_managed = new.keeps_life && metadata.contains_key("managedFields");
        if !keeps_managed {
            metadata.remove("managedFields");
        }
        if is_namespace(key) {
            open_namespace(&mut object, &key.name);
        }
        if !keeps_managed {
            let managed = managed::of_create(&object, new.manager, &now, new.is_custom);
            metadata_mut(&mut object)?.insert("managedFields".to_owned(), managed);
        }
        if is_definition(key) {
            check_definition(key, &object)?;
            crd::establish(&mut object, &now);
        }
        Ok(object)
    }

    /// Creates the objects that every namespace has on a real cluster.
    async fn furnish(&self, namespace: &str) -> Result<(), ApiError> {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        let authority = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt",
            "annotations": {"kubernetes.io/description": "The certificate authority of this API server."}},
            "data": {"ca.crt": self.authority_pem}});
        for mut object in [account, authority] {
            object["metadata"]["namespace"] = namespace.into();
            match Box::pin(self.load(object)).await {
                // Gone again already.
                Err(error) if error.code == 403 || error.code == 404 => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Replaces `old` by what a client made of it.
    async fn replace(
        &self,
        call: &ObjectRequest,
        old: &Arc<StoredObject>,
        new: Value,
        dry_run: bool,
    ) -> Result<Arc<StoredObject>, Replace> {
        let key = &old.key;
        let mut before = old.value();
        before["apiVersion"] = call.resource.api_version().into();
        check_life(key, &before, &new)?;
        let mut next = match call.place.subresource.as_deref() {
            Some("status") => with_field(before.clone(), &new, "status"),
            Some(_) => {
                let mut next = before.clone();
                next["spec"]["finalizers"] = new["spec"]["finalizers"].clone();
                next
            }
            None => merged(call, &before, new)?,
        };
        check_finalizers(key, &call.resource.kind, &before, &next)?;
        if is_definition(key) {
            check_definition(key, &next)?;
            crd::establish(&mut next, &self.now_text());
        }
        if next == before {
            return Ok(old.clone());
        }
        if dry_run {
            return Ok(Arc::new(StoredObject::new(key.clone(), old.revision, &next)));
        }
        let made = self.store.update(key, old.revision, &next).await.map_err(Replace::of)?;
        // The last finalizer of a deleted object: it goes.
        if made.is_deleting && !has_finalizers(&next, is_namespace(key)) {
            match self.store.remove(key, made.revision).await {
                Ok(_) | Err(StoreError::NotFound(_)) => {}
                // A namespace with content waits for the janitor; any other object was written meanwhile.
                Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(Replace::of(error)),
            }
        }
        Ok(made)
    }
}

/// Reasons for which an object was not replaced.
enum Replace {
    /// Another client has written it meanwhile.
    Raced,
    Refused(Box<ApiError>),
}

impl Replace {
    fn of(error: StoreError) -> Self {
        match error {
            StoreError::Conflict(_) => Self::Raced,
            other => Self::Refused(Box::new(other.into())),
        }
    }
}

impl From<ApiError> for Replace {
    fn from(error: ApiError) -> Self {
        Self::Refused(Box::new(error))
    }
}

/// Parses JSON; nesting is bounded by the parser at 128.
fn parse_json(body: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(body).map_err(|e| ApiError::bad_request(format!("the body is not JSON: {e}")))
}

/// Parses the body of a write other than a patch.
pub(crate) fn parse_body(call: &ObjectRequest) -> Result<Value, ApiError> {
    let unsupported = || ApiError::unsupported(&call.content_type);
    match call.content_type.as_str() {
        "" | "application/json" => parse_json(&call.body),
        protobuf::MEDIA_TYPE => protobuf::decode(&call.body).ok_or_else(unsupported),
        _ => Err(unsupported()),
    }
}

fn patched(call: &ObjectRequest, key: &ObjectKey, object: &mut Value) -> Result<(), ApiError> {
    match call.content_type.as_str() {
        "application/merge-patch+json" => lifeboat_patch::merge(object, &parse_json(&call.body)?),
        "application/json-patch+json" => {
            JsonPatch::parse(&call.body).and_then(|patch| patch.apply(object)).map_err(|e| match e {
                JsonPatchError::Malformed(_) => ApiError::bad_request(e.to_string()),
                _ => ApiError::invalid(key, &call.resource.kind, e.to_string()),
            })?;
        }
        other => return Err(ApiError::unsupported(other)),
    }
    check_shape(object)?;
    complete_type(object, &call.resource)?;
    check_place(object, call)
}

/// `before` with one field of `new`.
fn with_field(mut before: Value, new: &Value, field: &str) -> Value {
    if let Some(object) = before.as_object_mut() {
        match new.get(field) {
            Some(value) => object.insert(field.to_owned(), value.clone()),
            None => object.remove(field),
        };
    }
    before
}

/// The object that a write of the main resource makes of `before`.
fn merged(call: &ObjectRequest, before: &Value, mut new: Value) -> Result<Value, ApiError> {
    if call.resource.has_subresource("status") {
        new = with_field(new, before, "status");
    }
    if is_namespace(&call.key("")) {
        // Finalizers of the specification change through `finalize` only.
        new["spec"] = before["spec"].clone();
    }
    let metadata = metadata_mut(&mut new)?;
    // `[{}]` and `[]` reset the managers.
    match metadata.get("managedFields").and_then(Value::as_array).map(Vec::as_slice) {
        None => copy(metadata, before, "managedFields"),
        Some(list) if list.iter().all(|m| m.as_object().is_some_and(Map::is_empty)) => {
            metadata.remove("managedFields");
        }
        Some(_) => {}
    }
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "generateName",
        "resourceVersion",
    ] {
        copy(metadata, before, field);
    }
    metadata.remove("selfLink");
    if let Some(generation) = before["metadata"]["generation"].as_i64()
        && is_other_apart_from_metadata(before, &new)
    {
        new["metadata"]["generation"] = generation.saturating_add(1).into();
    }
    Ok(new)
}

fn copy(metadata: &mut Map<String, Value>, before: &Value, field: &str) {
    match before["metadata"].get(field) {
        Some(value) => metadata.insert(field.to_owned(), value.clone()),
        None => metadata.remove(field),
    };
}

fn is_other_apart_from_metadata(a: &Value, b: &Value) -> bool {
    let rest = |v: &Value| -> Vec<(String, Value)> {
        let fields = v.as_object().into_iter().flatten();
        let fields = fields.filter(|(k, _)| !["metadata", "status"].contains(&k.as_str()));
        fields.map(|(k, v)| (k.clone(), v.clone())).collect()
    };
    rest(a) != rest(b)
}

/// Returns true if finalizers still hold a deleted object.
pub(crate) fn has_finalizers(object: &Value, is_namespace: bool) -> bool {
    let any = |list: &Value| list.as_array().is_some_and(|l| !l.is_empty());
    any(&object["metadata"]["finalizers"]) || (is_namespace && any(&object["spec"]["finalizers"]))
}

fn open_namespace(object: &mut Value, name: &str) {
    object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
    if !object["spec"].is_object() {
        object["spec"] = json!({});
    }
    object["spec"]["finalizers"] = json!(["kubernetes"]);
    object["status"] = json!({"phase": "Active"});
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("generation");
    }
}

/// The identity of an object that is replaced as a whole.
fn keep_life(next: &mut Value, before: &Value) {
    if let Some(metadata) = next["metadata"].as_object_mut() {
        for field in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
            copy(metadata, before, field);
        }
    }
    if next["kind"] == "Namespace" && next["apiVersion"] == "v1" {
        for field in ["spec", "status"] {
            next[field] = before[field].clone();
        }
        if let Some(name) = before["metadata"]["name"].as_str() {
            next["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
        }
    }
}

/// The prefix and five characters made of `uid`, from the alphabet that Kubernetes uses for it.
fn generated_name(prefix: &str, uid: &str) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut hash =
        uid.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let mut name: String = prefix.chars().take(58).collect();
    for _ in 0..5 {
        let digit = usize::try_from(hash % ALPHABET.len() as u64).unwrap_or_default();
        name.push(ALPHABET.get(digit).map_or('x', |b| char::from(*b)));
        hash /= ALPHABET.len() as u64;
    }
    name
}
