//! Merges objects and lists, each by what its schema says.

use super::error::{StrategicError, refused};
use super::order::{identities, put_in_order, wanted};
use super::schema::{Node, SchemaField};
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
        None => {}
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
        let is_retained = |name: &str| names.iter().any(|retained| retained == name);
        let sets = |(name, value): &(&String, &Value)| !name.starts_with('$') && !value.is_null();
        if let Some((name, _)) = patch.iter().filter(sets).find(|(name, _)| !is_retained(name)) {
            return refused(&format!("{path}/{RETAIN}"), format!("the patch sets {name}, which it does not retain"));
        }
        target.retain(|name, _| is_retained(name));
    }
    for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
        let at = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
        let field = match node.field(name) {
            SchemaField::Known(field) => field,
            SchemaField::Unknown => return refused(&at, "the type has no such field"),
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
                && let SchemaField::Known(field) = node.field(name)
            {
                let key = field.merge_key();
                put_in_order(list, &wanted(values, key, &at)?, &identities(list, key), key);
            }
        } else if directive.starts_with('$') && ![DIRECTIVE, RETAIN].contains(&directive.as_str()) {
            return refused(&at, "the directive is unknown");
        }
    }
    Ok(())
}

/// The value of a field in a patch, with the directive for its order.
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
                    let key = field.merge_key();
                    let before = identities(list, key);
                    merge_list(list, elements, field, path)?;
                    if let Some(order) = patch.order {
                        let order = wanted(order, key, path)?;
                        check_order(elements, &order, key, path)?;
                        put_in_order(list, &order, &before, key);
                    }
                    Ok(())
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

/// Refuses a patch whose elements do not stand in the order that it asks for.
fn check_order(
    elements: &[Value],
    order: &[Option<Value>],
    key: Option<&str>,
    path: &str,
) -> Result<(), StrategicError> {
    let kept: Vec<Value> = elements.iter().filter(|value| value[DIRECTIVE].is_null()).cloned().collect();
    if order.is_empty() {
        return Ok(());
    }
    let mut order = order.iter();
    match identities(&kept, key).iter().all(|id| order.any(|one| one == id)) {
        true => Ok(()),
        false => refused(path, format!("the elements stand in another order than that of {ORDER}")),
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
        let before = identities(target, None);
        for value in patch {
            if !target.contains(value) {
                target.push(value.clone());
            }
        }
        put_in_order(target, &identities(patch, None), &before, None);
        return Ok(());
    };
    let mut merged = Vec::new();
    for (at, value) in patch.iter().enumerate() {
        let path = format!("{path}/{at}");
        merged.extend(to_merge(target, value, key, &path)?.map(|fields| (fields, path)));
    }
    // It says so for the whole list, and is itself no element.
    if patch.iter().any(|value| value[DIRECTIVE] == "replace") {
        target.clear();
        for (fields, path) in merged {
            target.push(new_element(&Value::Object(fields.clone()), &element, &path)?);
        }
        return Ok(());
    }
    let before = identities(target, Some(key));
    let named: Vec<Option<Value>> = merged.iter().map(|(fields, _)| fields.get(key).cloned()).collect();
    for (fields, path) in merged {
        match target.iter_mut().find(|existing| existing.get(key) == fields.get(key)) {
            Some(Value::Object(existing)) => merge_object(existing, fields, &element, &path)?,
            _ => target.push(new_element(&Value::Object(fields.clone()), &element, &path)?),
        }
    }
    put_in_order(target, &named, &before, Some(key));
    Ok(())
}

/// The fields of an element that is to be merged; `None` for one that only says what becomes of the list, or of another element, which
/// it deletes.
fn to_merge<'a>(
    target: &mut Vec<Value>,
    value: &'a Value,
    key: &str,
    path: &str,
) -> Result<Option<&'a Map<String, Value>>, StrategicError> {
    let Value::Object(fields) = value else { return refused(path, "an element of a list that is merged is no object") };
    let directive = fields.get(DIRECTIVE).map(|directive| directive.as_str().unwrap_or_default());
    match directive {
        Some("replace") => return Ok(None),
        None | Some("delete") => {}
        Some(other) => return refused(path, format!("unknown patch type {other:?}")),
    }
    let Some(of_key) = fields.get(key) else {
        return refused(path, format!("the element does not contain the merge key {key}"));
    };
    if directive.is_none() {
        return Ok(Some(fields));
    }
    target.retain(|existing| existing.get(key) != Some(of_key));
    Ok(None)
}

/// An element that was not there: without what a patch says about merging it.
fn new_element(value: &Value, element: &Node<'_>, path: &str) -> Result<Value, StrategicError> {
    let Value::Object(fields) = value else { return Ok(value.clone()) };
    let mut made = Map::new();
    merge_object(&mut made, fields, element, path)?;
    Ok(made.into())
}
