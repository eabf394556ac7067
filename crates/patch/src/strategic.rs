//! Strategic merge patch: a merge patch that knows of each list of a type whether it is replaced or merged, and by which key.
//!
//! How a field is merged stands in the OpenAPI document that an API server publishes of its types, in the extensions
//! `x-kubernetes-patch-strategy` and `x-kubernetes-patch-merge-key` (Kubernetes, sig-api-machinery, strategic-merge-patch.md).

mod list;
mod schema;

use list::merge_list;
pub use schema::MergeSchema;
use schema::{Field, Node};
use serde_json::{Map, Value};

/// A strategic merge patch that was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why} at {path:?}")]
pub struct StrategicError {
    /// Where in the patch, as a JSON pointer.
    pub path: String,
    /// Why it cannot be applied.
    pub why: String,
}

fn refused<T>(path: &str, why: impl Into<String>) -> Result<T, StrategicError> {
    Err(StrategicError { path: path.to_owned(), why: why.into() })
}

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE: &str = "$deleteFromPrimitiveList/";

/// Applies a strategic merge patch to an object of the schema's type. After an error the object is as before.
///
/// # Errors
/// [`StrategicError`]: a directive that is none, an element of a list without its key, and, unlike an API server of old, a
/// field that the type does not have and a value of another type than the field.
pub fn strategic_merge(object: &mut Value, patch: &Value, schema: &MergeSchema) -> Result<(), StrategicError> {
    let Value::Object(patch) = patch else { return refused("", "the patch is no object") };
    let mut changed = object.clone();
    let Value::Object(target) = &mut changed else { return refused("", "what is patched is no object") };
    merge_object(target, patch, &schema.root(), "")?;
    *object = changed;
    Ok(())
}

/// Merges a patch into an object whose fields the node describes.
fn merge_object(
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    node: &Node<'_>,
    path: &str,
) -> Result<(), StrategicError> {
    match patch.get(DIRECTIVE).map(|directive| directive.as_str().unwrap_or_default()) {
        None | Some("merge") => {}
        Some("delete") => {
            target.clear();
            return Ok(());
        }
        Some("replace") => target.clear(),
        Some(other) => return refused(&format!("{path}/{DIRECTIVE}"), format!("unknown patch type {other:?}")),
    }
    if let Some(retained) = patch.get(RETAIN) {
        let Some(names) = retained.as_array() else {
            return refused(&format!("{path}/{RETAIN}"), "the names to retain are no list");
        };
        target.retain(|name, _| names.iter().any(|retained| retained == name));
    }
    for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
        let at = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
        let field = match node.field(name) {
            Field::Known(field) => field,
            Field::Unknown => return refused(&at, "the type has no such field"),
        };
        if value.is_null() {
            target.remove(name);
            continue;
        }
        let order = patch.get(&format!("{ORDER}{name}"));
        merge_value(target, name, Patch { value, order }, &field, &at)?;
    }
    for (directive, values) in patch {
        let at = format!("{path}/{}", directive.replace('~', "~0").replace('/', "~1"));
        if let Some(name) = directive.strip_prefix(DELETE) {
            let Some(values) = values.as_array() else { return refused(&at, "what to delete is no list") };
            if let Some(Value::Array(list)) = target.get_mut(name) {
                list.retain(|value| !values.contains(value));
            }
        } else if let Some(name) = directive.strip_prefix(ORDER) {
            if !patch.contains_key(name)
                && let Some(Value::Array(list)) = target.get_mut(name)
                && let Field::Known(field) = node.field(name)
            {
                list::put_in_order(list, values, &field, &at)?;
            }
        } else if directive.starts_with('$') && ![DIRECTIVE, RETAIN].contains(&directive.as_str()) {
            return refused(&at, "the directive is unknown");
        }
    }
    Ok(())
}

/// What a patch has for a field.
struct Patch<'a> {
    value: &'a Value,
    /// The order that it wants for the elements of a list.
    order: Option<&'a Value>,
}

fn merge_value(
    target: &mut Map<String, Value>,
    name: &str,
    patch: Patch<'_>,
    field: &Node<'_>,
    path: &str,
) -> Result<(), StrategicError> {
    field.check_kind(patch.value, path)?;
    match patch.value {
        Value::Object(fields) => {
            let entry = target.entry(name).or_insert_with(|| Value::Object(Map::new()));
            if field.replaces() || !entry.is_object() {
                *entry = Value::Object(Map::new());
            }
            match entry {
                Value::Object(inner) => merge_object(inner, fields, field, path),
                _ => Ok(()),
            }
        }
        Value::Array(elements) => {
            let entry = target.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            if !entry.is_array() {
                *entry = Value::Array(Vec::new());
            }
            match entry {
                Value::Array(list) => {
                    merge_list(list, elements, field, path)?;
                    patch.order.map_or(Ok(()), |order| list::put_in_order(list, order, field, path))
                }
                _ => Ok(()),
            }
        }
        scalar => {
            target.insert(name.to_owned(), scalar.clone());
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests;
