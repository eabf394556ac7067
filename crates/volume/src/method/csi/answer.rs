//! Reads answers of the API server for the actions of snapshots.

use super::error::CsiError;
use lifeboat_action::ActionError;
use serde_json::Value;

/// The text at a JSON pointer of an object; empty when there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns true if an object is being deleted: it stays as long as it has finalizers.
pub(crate) fn is_being_deleted(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// Turns the error of a request into the error of an action, which tells whether the action is called again.
pub(crate) fn failed(error: impl Into<CsiError>) -> ActionError {
    let error = error.into();
    match &error {
        CsiError::Cluster(e) if e.can_pass() => ActionError::passing(e.to_string()),
        other => ActionError::item(other.to_string()),
    }
}
