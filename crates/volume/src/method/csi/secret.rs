//! Finds the Secret that an object names for its driver.

use lifeboat_object::{GroupResource, ObjectKey};
use serde_json::Value;

/// The Secret that annotations of an object name: one has its name, and one its namespace.
pub(crate) fn named_secret(object: &Value, [name, namespace]: [&str; 2]) -> Option<ObjectKey> {
    let annotation = |key: &str| object["metadata"]["annotations"].get(key).and_then(Value::as_str);
    let (name, namespace) = (annotation(name)?, annotation(namespace)?);
    Some(ObjectKey::new(GroupResource::secrets(), Some(namespace), name))
}
