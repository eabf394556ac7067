//! Writes labels and annotations into objects that are saved or restored.

use serde_json::{Value, json};

/// Gives an object these annotations, beside those that it has.
pub(crate) fn annotate(object: &mut Value, annotations: &[(&str, String)]) {
    put(object, "annotations", annotations);
}

/// Gives an object these labels, beside those that it has.
pub(crate) fn label(object: &mut Value, labels: &[(&str, String)]) {
    put(object, "labels", labels);
}

fn put(object: &mut Value, part: &str, texts: &[(&str, String)]) {
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
