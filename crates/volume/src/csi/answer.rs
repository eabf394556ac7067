//! What the API server answers, as the actions of snapshots take it.

use lifeboat_action::ActionError;
use lifeboat_cluster::ClusterError;
use serde_json::Value;

/// The text at a JSON pointer of an object; empty when there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// What a request that failed means for the object of an action: whether the action is called again.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn failed(error: ClusterError) -> ActionError {
    if error.can_pass() { ActionError::passing(error.to_string()) } else { ActionError::item(error.to_string()) }
}
