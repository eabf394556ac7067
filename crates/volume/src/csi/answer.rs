//! What the API server answers, as the actions of snapshots take it.

use super::error::CsiError;
use lifeboat_action::ActionError;
use serde_json::Value;

/// The text at a JSON pointer of an object; empty when there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Whether an object is being deleted: it stays as long as it has finalizers.
pub(crate) fn is_being_deleted(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// What a request that failed means for the object of an action: whether the action is called again.
pub(crate) fn failed(error: impl Into<CsiError>) -> ActionError {
    let error = error.into();
    match &error {
        CsiError::Cluster(e) if e.can_pass() => ActionError::passing(e.to_string()),
        other => ActionError::item(other.to_string()),
    }
}
