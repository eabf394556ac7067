//! Merges lists.

use super::schema::Node;
use super::{DIRECTIVE, StrategicError, merge_object, refused};
use serde_json::{Map, Value};

/// Merges the list of a patch into a list.
pub(super) fn merge_list(
    target: &mut Vec<Value>,
    patch: &[Value],
    field: &Node<'_>,
    path: &str,
) -> Result<(), StrategicError> {
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

/// Puts a list into the order that a patch wants: of the elements that it names; each of the others stays before the same
/// named ones as it was.
pub(super) fn put_in_order(
    list: &mut Vec<Value>,
    order: &Value,
    field: &Node<'_>,
    path: &str,
) -> Result<(), StrategicError> {
    let Some(order) = order.as_array() else { return refused(path, "the order of elements is no list") };
    let key = field.merge_key();
    let identity = |value: &Value| key.map_or(Some(value.clone()), |key| value.get(key).cloned());
    let wanted: Vec<Option<Value>> = order.iter().map(identity).collect();
    let rank = |value: &Value| identity(value).and_then(|id| wanted.iter().position(|one| one.as_ref() == Some(&id)));
    let (mut named, others): (Vec<_>, Vec<_>) =
        std::mem::take(list).into_iter().enumerate().partition(|(_, value)| rank(value).is_some());
    named.sort_by_key(|(_, value)| rank(value));
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let other_first = match (named.peek(), others.peek()) {
            (Some((at, _)), Some((other, _))) => other < at,
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (None, None) => return Ok(()),
        };
        let next = if other_first { others.next() } else { named.next() };
        list.extend(next.map(|(_, value)| value));
    }
}
