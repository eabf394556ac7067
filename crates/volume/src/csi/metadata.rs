//! What is written into the metadata of objects that are saved or restored, and what it names.

use lifeboat_object::{GroupResource, ObjectKey};
use serde_json::{Value, json};

/// Puts texts into a part of the metadata of an object.
pub(crate) fn put(object: &mut Value, part: &str, texts: &[(&str, String)]) {
    if texts.is_empty() || !object.is_object() {
        return;
    }
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        return;
    }
    if !metadata[part].is_object() {
        metadata[part] = json!({});
    }
    for (key, value) in texts {
        metadata[part][*key] = value.clone().into();
    }
}

/// The Secret that annotations of an object name: one has its name, and one its namespace.
pub(crate) fn secret(object: &Value, [name, namespace]: [&str; 2]) -> Option<ObjectKey> {
    let annotation = |key: &str| object["metadata"]["annotations"].get(key).and_then(Value::as_str);
    let (name, namespace) = (annotation(name)?, annotation(namespace)?);
    Some(ObjectKey::new(GroupResource::new("", "secrets"), Some(namespace), name))
}
