//! Refusals, as a `Status` object.

use crate::encoding::selector::SelectorError;
use crate::store::object_store::StoreError;
use crate::types::known::namespace_key;
use lifeboat_object::{ApiResource, ObjectKey};
use serde_json::{Value, json};

/// An answer other than success.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ApiError {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Value,
    pub(crate) continue_token: String,
}

impl ApiError {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Value::Null, continue_token: String::new() }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn invalid(key: &ObjectKey, kind: &str, message: impl Into<String>) -> Self {
        let details = json!({"name": key.name, "group": key.resource.group, "kind": kind});
        Self { details, ..Self::new(422, "Invalid", message) }
    }

    pub(crate) fn unsupported(content_type: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - this server does not accept {content_type:?}: send \
             application/json, or a patch as application/json-patch+json or application/merge-patch+json"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn not_served(what: &str) -> Self {
        Self::new(501, "NotImplemented", format!("this sandbox does not serve {what}"))
    }

    /// A write to a store that cannot be written to.
    pub(crate) fn read_only(verb: &str, resource: &ApiResource, why: &str) -> Self {
        Self::new(405, "MethodNotAllowed", format!("cannot {verb} {}: {why}", resource.group_resource()))
    }

    /// Something that only a cluster that runs could answer.
    pub(crate) fn nothing_runs(what: &str, why: &str) -> Self {
        Self::new(501, "NotImplemented", format!("nothing runs here that could serve {what}: {why}"))
    }

    pub(crate) fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    pub(crate) fn method() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }

    pub(crate) fn forbidden(key: &ObjectKey, why: &str) -> Self {
        let message = format!("{} {:?} is forbidden: {why}", key.resource, key.name);
        Self { details: details(key), ..Self::new(403, "Forbidden", message) }
    }

    pub(crate) fn not_found(key: &ObjectKey) -> Self {
        let message = format!("{} {:?} not found", key.resource, key.name);
        Self { details: details(key), ..Self::new(404, "NotFound", message) }
    }

    pub(crate) fn no_namespace(namespace: &str) -> Self {
        Self::not_found(&namespace_key(namespace))
    }

    /// A new object in a namespace that is going away; client-go looks for the cause.
    pub(crate) fn terminating(key: &ObjectKey, namespace: &str) -> Self {
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut error = Self::forbidden(key, &why);
        error.details["causes"] = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
        error
    }

    pub(crate) fn conflict(key: &ObjectKey, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {:?}: {why}", key.resource, key.name);
        Self { details: details(key), ..Self::new(409, "Conflict", message) }
    }

    pub(crate) fn changed(key: &ObjectKey) -> Self {
        Self::conflict(
            key,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// A resource version that this server has not reached yet.
    pub(crate) fn too_new(asked: u64, newest: u64) -> Self {
        let message = format!("Too large resource version: {asked}, current: {newest}");
        let details = json!({
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        });
        Self { details, ..Self::new(504, "Timeout", message) }
    }

    pub(crate) fn too_old(asked: u64, oldest: u64) -> Self {
        Self::new(410, "Expired", format!("too old resource version: {asked} ({oldest})"))
    }

    /// The `Status` object.
    pub(crate) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        if !self.continue_token.is_empty() {
            status["metadata"]["continue"] = self.continue_token.clone().into();
        }
        status
    }
}

fn details(key: &ObjectKey) -> Value {
    let mut details = json!({"name": key.name, "kind": key.resource.resource});
    if !key.resource.group.is_empty() {
        details["group"] = key.resource.group.clone().into();
    }
    details
}

/// The `Status` object after a delete that is done.
pub(crate) fn deleted(resource: &ApiResource, name: &str, uid: &str) -> Value {
    let key = ObjectKey::new(resource.group_resource(), None, name);
    let mut details = details(&key);
    details["uid"] = uid.into();
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound(key) => Self::not_found(&key),
            StoreError::Exists(key) => {
                let message = format!("{} {:?} already exists", key.resource, key.name);
                Self { details: details(&key), ..Self::new(409, "AlreadyExists", message) }
            }
            StoreError::Conflict(key) => Self::changed(&key),
            StoreError::NoNamespace(namespace) => Self::no_namespace(&namespace),
            StoreError::Expired { asked, newest, .. } if asked > newest => Self::too_new(asked, newest),
            StoreError::Expired { asked, oldest, .. } => Self::too_old(asked, oldest),
            StoreError::ReadOnly => Self::new(405, "MethodNotAllowed", "what this server shows cannot be changed"),
            StoreError::Unavailable(message) => Self::new(500, "InternalError", message),
        }
    }
}

impl From<SelectorError> for ApiError {
    fn from(error: SelectorError) -> Self {
        Self::bad_request(error.to_string())
    }
}
