//! Views of objects: the fields that the built-in actions read.

use lifeboat_object::{GroupResource, ObjectKey};
use serde_json::Value;

pub(crate) fn key(group: &str, resource: &str, namespace: Option<&str>, name: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::new(group, resource), namespace, name)
}

/// The text at a place of an object; empty when there is none.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
