//! Checks objects that clients send.

use crate::encoding::error::ApiError;
use crate::verbs::call::ObjectRequest;
use lifeboat_object::{ApiResource, ObjectKey};
use serde_json::{Map, Value, json};

/// Refuses an object whose metadata, labels, annotations, finalizers or owners are not of the form that Kubernetes gives them.
pub(crate) fn check_shape(object: &Value) -> Result<(), ApiError> {
    let wrong = |what: &str| Err(ApiError::bad_request(format!("the object cannot be handled: {what}")));
    if !object.is_object() {
        return wrong("it is not a JSON object");
    }
    let metadata = &object["metadata"];
    if !metadata.is_object() && !metadata.is_null() {
        return wrong("metadata is not an object");
    }
    for field in ["name", "generateName", "namespace", "uid", "resourceVersion"] {
        if !metadata[field].is_string() && !metadata[field].is_null() {
            return wrong(&format!("metadata.{field} is not a string"));
        }
    }
    for field in ["labels", "annotations"] {
        let fits = match &metadata[field] {
            Value::Null => true,
            Value::Object(map) => map.values().all(|v| v.is_string() || v.is_null()),
            _ => false,
        };
        if !fits {
            return wrong(&format!("metadata.{field} is not a map of strings"));
        }
    }
    let is_list_of = |field: &str, fits: fn(&Value) -> bool| match &metadata[field] {
        Value::Null => true,
        Value::Array(list) => list.iter().all(fits),
        _ => false,
    };
    if !is_list_of("finalizers", Value::is_string) {
        return wrong("metadata.finalizers is not a list of strings");
    }
    if !is_list_of("ownerReferences", Value::is_object) || !is_list_of("managedFields", Value::is_object) {
        return wrong("metadata.ownerReferences or metadata.managedFields is not a list of objects");
    }
    Ok(())
}

/// Fills in `apiVersion` and `kind` where they are missing, and refuses others than the path's.
pub(crate) fn complete_type(object: &mut Value, resource: &ApiResource) -> Result<(), ApiError> {
    for (field, what, expected) in
        [("apiVersion", "API version", resource.api_version()), ("kind", "kind", resource.kind.clone())]
    {
        match object[field].as_str() {
            None | Some("") => object[field] = expected.into(),
            Some(given) if given == expected => {}
            Some(given) => {
                let message =
                    format!("the {what} in the data ({given}) does not match the expected {what} ({expected})");
                return Err(ApiError::bad_request(message));
            }
        }
    }
    Ok(())
}

/// Refuses an object that names another namespace or name than the path.
pub(crate) fn check_place(object: &Value, call: &ObjectRequest) -> Result<(), ApiError> {
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    if let Some(namespace) = &call.place.namespace
        && !["", namespace.as_str()].contains(&text("namespace"))
    {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(message));
    }
    if let Some(name) = &call.place.name
        && !["", name.as_str()].contains(&text("name"))
    {
        let given = text("name");
        let message = format!("the name of the object ({given}) does not match the name on the URL ({name})");
        return Err(ApiError::bad_request(message));
    }
    Ok(())
}

/// Refuses a write that names another uid or another revision than the object has.
pub(crate) fn check_life(key: &ObjectKey, before: &Value, new: &Value) -> Result<(), ApiError> {
    let (old, given) = (&before["metadata"], &new["metadata"]);
    let is_other = |field: &str| given[field].as_str().is_some_and(|v| !v.is_empty() && Some(v) != old[field].as_str());
    if is_other("uid") {
        let why =
            format!("Precondition failed: UID in precondition: {}, UID in object meta: {}", given["uid"], old["uid"]);
        return Err(ApiError::conflict(key, &why.replace('"', "")));
    }
    if is_other("resourceVersion") {
        return Err(ApiError::changed(key));
    }
    Ok(())
}

/// Refuses a write that adds finalizers to an object that is being deleted.
pub(crate) fn check_finalizers(key: &ObjectKey, kind: &str, before: &Value, next: &Value) -> Result<(), ApiError> {
    if !before["metadata"]["deletionTimestamp"].is_string() {
        return Ok(());
    }
    let old = before["metadata"]["finalizers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let added: Vec<&Value> =
        next["metadata"]["finalizers"].as_array().into_iter().flatten().filter(|f| !old.contains(f)).collect();
    if added.is_empty() {
        return Ok(());
    }
    let message = format!(
        "{} {:?} is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted",
        key.resource, key.name
    );
    Err(ApiError::invalid(key, kind, message))
}

/// Refuses a definition whose name is not `plural.group`: it would define what another one defines.
pub(crate) fn check_definition(key: &ObjectKey, object: &Value) -> Result<(), ApiError> {
    let spec = &object["spec"];
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let (plural, group) = (text(&spec["names"]["plural"]), text(&spec["group"]));
    if !plural.is_empty() && !group.is_empty() && key.name == format!("{plural}.{group}") {
        return Ok(());
    }
    let message = format!(
        "CustomResourceDefinition {:?} is invalid: metadata.name: Invalid value: must be spec.names.plural+\".\"+spec.group",
        key.name
    );
    Err(ApiError::invalid(key, "CustomResourceDefinition", message))
}

pub(crate) fn metadata_mut(object: &mut Value) -> Result<&mut Map<String, Value>, ApiError> {
    let object = object.as_object_mut().ok_or_else(|| ApiError::bad_request("the object is not a JSON object"))?;
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if metadata.is_null() {
        *metadata = json!({});
    }
    metadata.as_object_mut().ok_or_else(|| ApiError::bad_request("metadata is not an object"))
}

pub(crate) fn is_path_segment(name: &str) -> bool {
    name != "." && name != ".." && !name.contains(['/', '%', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        for (object, fits) in [
            (json!({}), true),
            (json!({"metadata": null}), true),
            (
                json!({"metadata": {"labels": {"a": "b", "c": null}, "finalizers": ["x"], "ownerReferences": [{}]}}),
                true,
            ),
            (json!([]), false),
            (json!({"metadata": 1}), false),
            (json!({"metadata": {"name": 1}}), false),
            (json!({"metadata": {"labels": {"a": 1}}}), false),
            (json!({"metadata": {"annotations": []}}), false),
            (json!({"metadata": {"finalizers": [1]}}), false),
            (json!({"metadata": {"ownerReferences": ["x"]}}), false),
            (json!({"metadata": {"managedFields": {}}}), false),
        ] {
            assert_eq!(check_shape(&object).is_ok(), fits, "{object}");
        }
    }

    #[test]
    fn names_that_break_paths() {
        for (name, fits) in
            [("a", true), ("system:x", true), (".", false), ("..", false), ("a/b", false), ("a%b", false)]
        {
            assert_eq!(is_path_segment(name), fits, "{name}");
        }
    }
}
