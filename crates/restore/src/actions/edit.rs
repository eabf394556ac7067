//! Looks into untyped objects, and edits of them that never panic.

use lifeboat_action::RestoreItemInput;
use serde_json::Value;

/// The namespace the object had when it was backed up; empty for cluster-scoped objects.
pub(super) fn original_namespace<'a>(input: &RestoreItemInput<'a>) -> &'a str {
    input.item_from_backup["metadata"]["namespace"].as_str().unwrap_or_default()
}

/// A text field; empty when absent or of another type.
pub(super) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

/// The list at a JSON pointer, for change.
pub(super) fn list_mut<'a>(object: &'a mut Value, pointer: &str) -> Option<&'a mut Vec<Value>> {
    object.pointer_mut(pointer)?.as_array_mut()
}

/// Removes a field of the object at a JSON pointer.
pub(super) fn remove(object: &mut Value, pointer: &str, field: &str) {
    if let Some(parent) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
        parent.remove(field);
    }
}

/// Removes keys from a map, such as labels, that is a field of the object at a JSON pointer. A map that ends empty goes
/// as well: absent is how typed clients write it.
pub(super) fn remove_keys(object: &mut Value, pointer: &str, map: &str, keys: &[&str]) {
    let Some(parent) = object.pointer_mut(pointer).and_then(Value::as_object_mut) else { return };
    let Some(entries) = parent.get_mut(map).and_then(Value::as_object_mut) else { return };
    let before = entries.len();
    entries.retain(|key, _| !keys.contains(&key.as_str()));
    if entries.is_empty() && before > 0 {
        parent.remove(map);
    }
}

/// Keeps the entries of a list, a field of the object at a JSON pointer, that pass. A list that ends empty goes as well.
pub(super) fn retain(object: &mut Value, pointer: &str, list: &str, keep: impl Fn(&Value) -> bool) {
    let Some(parent) = object.pointer_mut(pointer).and_then(Value::as_object_mut) else { return };
    let Some(entries) = parent.get_mut(list).and_then(Value::as_array_mut) else { return };
    let before = entries.len();
    entries.retain(keep);
    if entries.is_empty() && before > 0 {
        parent.remove(list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn maps_and_lists_that_end_empty_go() {
        let cases = [
            (json!({"m": {"a": 1, "b": 2}, "l": [1, 2]}), json!({"m": {"b": 2}, "l": [2]})),
            (json!({"m": {"a": 1}, "l": [1], "x": 0}), json!({"x": 0})),
            (json!({"m": {}, "l": []}), json!({"m": {}, "l": []})),
            (json!({"m": [1], "l": {"a": 1}}), json!({"m": [1], "l": {"a": 1}})),
            (json!({}), json!({})),
        ];
        for (inner, expected) in cases {
            let mut object = json!({"at": inner});
            remove_keys(&mut object, "/at", "m", &["a", "absent"]);
            retain(&mut object, "/at", "l", |v| *v != 1);
            assert_eq!(object, json!({"at": expected}));
        }
        let mut odd = json!("text");
        remove_keys(&mut odd, "/at", "m", &["a"]);
        retain(&mut odd, "", "l", |_| false);
        remove(&mut odd, "", "m");
        assert_eq!(odd, json!("text"));
    }
}
