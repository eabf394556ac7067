//! Merges objects and lists, each by what its schema says.

use super::error::{StrategicError, refused};
use super::order::put_in_order;
use super::schema::{Field, Node};
use serde_json::{Map, Value};

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE: &str = "$deleteFromPrimitiveList/";

/// Merges a patch into an object whose fields the node describes.
pub(super) fn merge_object(
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
                put_in_order(list, values, &field, &at)?;
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
                    patch.order.map_or(Ok(()), |order| put_in_order(list, order, field, path))
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

/// Merges the list of a patch into a list.
fn merge_list(target: &mut Vec<Value>, patch: &[Value], field: &Node<'_>, path: &str) -> Result<(), StrategicError> {
    let element = field.element();
    for (at, value) in patch.iter().enumerate() {
        element.check_kind(value, &format!("{path}/{at}"))?;
    }
    if !field.merges() {
        target.clear();
        for (at, value) in patch.iter().enumerate() {
            target.push(new_element(value, &element, &format!("{path}/{at}"))?);
        }
        return Ok(());
    }
    let Some(key) = field.merge_key() else {
        for value in patch {
            if !target.contains(value) {
                target.push(value.clone());
            }
        }
        return Ok(());
    };
    if patch.iter().any(|value| value[DIRECTIVE] == "replace") {
        target.clear();
    }
    for (at, value) in patch.iter().enumerate() {
        merge_element(target, value, (key, &element), &format!("{path}/{at}"))?;
    }
    Ok(())
}

fn merge_element(
    target: &mut Vec<Value>,
    value: &Value,
    (key, element): (&str, &Node<'_>),
    path: &str,
) -> Result<(), StrategicError> {
    let Value::Object(fields) = value else { return refused(path, "an element of a list that is merged is no object") };
    match fields.get(DIRECTIVE).map(|directive| directive.as_str().unwrap_or_default()) {
        // It says so for the whole list.
        Some("replace") if fields.len() == 1 => return Ok(()),
        None | Some("merge" | "replace" | "delete") => {}
        Some(other) => return refused(path, format!("unknown patch type {other:?}")),
    }
    let Some(of_key) = fields.get(key) else {
        return refused(path, format!("the element does not contain the merge key {key}"));
    };
    if fields.get(DIRECTIVE).is_some_and(|directive| directive == "delete") {
        target.retain(|existing| existing.get(key) != Some(of_key));
        return Ok(());
    }
    match target.iter_mut().find(|existing| existing.get(key) == Some(of_key)) {
        Some(Value::Object(existing)) => merge_object(existing, fields, element, path),
        _ => {
            target.push(new_element(value, element, path)?);
            Ok(())
        }
    }
}

/// An element that was not there: without what a patch says about merging it.
fn new_element(value: &Value, element: &Node<'_>, path: &str) -> Result<Value, StrategicError> {
    let Value::Object(fields) = value else { return Ok(value.clone()) };
    let mut made = Map::new();
    merge_object(&mut made, fields, element, path)?;
    Ok(made.into())
}
