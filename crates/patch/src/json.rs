//! JSON patch (RFC 6902), as API servers apply it.

use serde::Deserialize;
use serde_json::Value;

/// Operations in one patch; API servers have the same bound.
const MOST_OPERATIONS: usize = 10_000;

/// Bytes that an object may take in memory for `copy` to make it larger: operations that copy what others have copied double it
/// each time.
const MOST_BYTES: usize = 16 << 20;
/// Levels of an object: those that the parser of JSON takes.
const MOST_LEVELS: usize = 127;

/// A JSON patch.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPatch {
    operations: Vec<JsonOperation>,
}

/// An operation of a JSON patch.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct JsonOperation {
    /// `add`, `remove`, `replace`, `move`, `copy` or `test`.
    pub op: String,
    /// A JSON pointer (RFC 6901).
    pub path: String,
    /// The path from which `move` and `copy` take the value.
    pub from: Option<String>,
    /// The value of `add`, `replace` and `test`. `None` when there is none: null is a value.
    #[serde(default, deserialize_with = "present")]
    pub value: Option<Value>,
}

/// Reasons for which a JSON patch was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonPatchError {
    /// It is no JSON patch.
    #[error("not a JSON patch: {0}")]
    Malformed(String),
    /// It does not fit the object.
    #[error("operation {index} of the JSON patch cannot be applied: {why} at {path:?}")]
    Refused {
        /// The number of the operation, from 0.
        index: usize,
        /// Its path.
        path: String,
        /// The reason.
        why: &'static str,
    },
    /// Something else stands where an operation `test` has looked.
    #[error("operation {index} of the JSON patch cannot be applied: the test failed at {path:?}")]
    TestFailed {
        /// The number of the operation, from 0.
        index: usize,
        /// Its path.
        path: String,
    },
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl JsonPatch {
    /// A patch of these operations.
    ///
    /// # Errors
    /// [`JsonPatchError::Malformed`] when there are too many.
    pub fn new(operations: Vec<JsonOperation>) -> Result<Self, JsonPatchError> {
        if operations.len() > MOST_OPERATIONS {
            return Err(JsonPatchError::Malformed(format!("more than {MOST_OPERATIONS} operations")));
        }
        Ok(Self { operations })
    }

    /// Parses a patch.
    ///
    /// # Errors
    /// [`JsonPatchError::Malformed`].
    pub fn parse(text: &[u8]) -> Result<Self, JsonPatchError> {
        Self::new(serde_json::from_slice(text).map_err(|e| JsonPatchError::Malformed(e.to_string()))?)
    }

    /// Applies all operations, or none: after an error the target is as before.
    ///
    /// # Errors
    /// [`JsonPatchError::Refused`], also when the object would become too large or too deep, and [`JsonPatchError::TestFailed`].
    pub fn apply(&self, target: &mut Value) -> Result<(), JsonPatchError> {
        let mut changed = target.clone();
        // Counted when something is copied. What is removed does not make room.
        let mut size = None;
        for (index, operation) in self.operations.iter().enumerate() {
            step(&mut changed, operation, &mut size).map_err(|why| match why {
                TEST_FAILED => JsonPatchError::TestFailed { index, path: operation.path.clone() },
                why => JsonPatchError::Refused { index, path: operation.path.clone(), why },
            })?;
        }
        *target = changed;
        Ok(())
    }
}

/// Returns true if the target has this value at the path. A path that leads nowhere holds nothing, not even null.
#[must_use]
pub fn holds(target: &Value, path: &str, value: &Value) -> bool {
    target.pointer(path).is_some_and(|found| crate::equal(found, value))
}

const TEST_FAILED: &str = "the test failed";

const TOO_LARGE: &str = "the object would take more than 16 MiB";
const TOO_DEEP: &str = "the object would be nested more than 127 levels deep";

/// Applies one operation. `size` is that of the object with all that was copied, once it was counted.
fn step(target: &mut Value, operation: &JsonOperation, size: &mut Option<usize>) -> Result<(), &'static str> {
    let path = pointer(&operation.path)?;
    let value = operation.value.clone().ok_or("there is no value");
    let from = || pointer(operation.from.as_deref().ok_or("there is no from")?);
    match operation.op.as_str() {
        "add" => add(target, &path, value?),
        "remove" => remove(target, &path).map(drop),
        "replace" => {
            let value = value?;
            may_be_at(&path, &value)?;
            *find(target, &path).ok_or("there is nothing")? = value;
            Ok(())
        }
        "move" => {
            let from = from()?;
            if path.len() > from.len() && path.starts_with(&from) {
                return Err("a value cannot move into itself");
            }
            let value = remove(target, &from)?;
            add(target, &path, value)
        }
        "copy" => {
            let before = size.unwrap_or_else(|| bytes(target));
            let value = find(target, &from()?).ok_or("there is nothing to copy")?;
            // Checked before anything is copied.
            let after = before + bytes(value);
            if after > MOST_BYTES {
                return Err(TOO_LARGE);
            }
            *size = Some(after);
            let value = value.clone();
            add(target, &path, value)
        }
        "test" => test(target, &path, &value?),
        _ => Err("the operation is unknown"),
    }
}

/// Bytes that a value takes in memory, about.
fn bytes(value: &Value) -> usize {
    let content = match value {
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(bytes).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| size_of::<String>() + key.len() + bytes(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of::<Value>() + content
}

/// Lists and objects around the innermost value.
fn levels(value: &Value) -> usize {
    let inner = |values: &mut dyn Iterator<Item = &Value>| 1 + values.map(levels).max().unwrap_or_default();
    match value {
        Value::Array(list) => inner(&mut list.iter()),
        Value::Object(map) => inner(&mut map.values()),
        _ => 0,
    }
}

/// Refuses a value that would be nested too deeply at this path.
fn may_be_at(path: &[String], value: &Value) -> Result<(), &'static str> {
    if path.len() + levels(value) > MOST_LEVELS { Err(TOO_DEEP) } else { Ok(()) }
}

fn test(target: &mut Value, path: &[String], expected: &Value) -> Result<(), &'static str> {
    match find(target, path) {
        Some(found) if crate::equal(found, expected) => Ok(()),
        Some(_) => Err(TEST_FAILED),
        // compat: API servers take a key that an object lacks for null.
        None => {
            let parent = path.split_last().map(|(_, parent)| parent).unwrap_or_default();
            let parent = find(target, parent).ok_or("there is nothing to look into")?;
            if parent.is_object() && expected.is_null() { Ok(()) } else { Err(TEST_FAILED) }
        }
    }
}

fn pointer(text: &str) -> Result<Vec<String>, &'static str> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let rest = text.strip_prefix('/').ok_or("the path does not begin with a slash")?;
    Ok(rest.split('/').map(|token| token.replace("~1", "/").replace("~0", "~")).collect())
}

fn find<'a>(mut target: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    for token in path {
        target = match target {
            Value::Object(map) => map.get_mut(token)?,
            Value::Array(list) => {
                let at = index(token, list.len())?;
                list.get_mut(at)?
            }
            _ => return None,
        };
    }
    Some(target)
}

/// A place in a list of so many. compat: API servers count negative ones from its end.
fn index(token: &str, length: usize) -> Option<usize> {
    let (is_negative, digits) = token.strip_prefix('-').map_or((false, token), |digits| (true, digits));
    let is_plain = digits == "0" || (!digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit()));
    let number: usize = if is_plain { digits.parse().ok()? } else { return None };
    if is_negative { length.checked_sub(number) } else { Some(number) }
}

fn add(target: &mut Value, path: &[String], value: Value) -> Result<(), &'static str> {
    may_be_at(path, &value)?;
    let Some((last, parent)) = path.split_last() else {
        *target = value;
        return Ok(());
    };
    match find(target, parent).ok_or("there is nothing to add to")? {
        Value::Object(map) => {
            map.insert(last.clone(), value);
            Ok(())
        }
        Value::Array(list) => {
            // Counted from the end of the list that comes to be.
            let at = if last == "-" { Some(list.len()) } else { index(last, list.len() + 1) };
            let at = at.filter(|at| *at <= list.len()).ok_or("the list has no such place")?;
            list.insert(at, value);
            Ok(())
        }
        _ => Err("there is nothing to add to"),
    }
}

fn remove(target: &mut Value, path: &[String]) -> Result<Value, &'static str> {
    let (last, parent) = path.split_last().ok_or("the whole object cannot be removed")?;
    match find(target, parent).ok_or("there is nothing")? {
        Value::Object(map) => map.remove(last).ok_or("there is nothing"),
        Value::Array(list) => {
            let at = index(last, list.len()).filter(|at| *at < list.len()).ok_or("there is nothing")?;
            Ok(list.remove(at))
        }
        _ => Err("there is nothing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn operations() {
        for (target, patch, result) in [
            (json!({"a": 1}), json!([{"op": "add", "path": "/b", "value": 2}]), json!({"a": 1, "b": 2})),
            (json!({"a": [1, 3]}), json!([{"op": "add", "path": "/a/1", "value": 2}]), json!({"a": [1, 2, 3]})),
            (json!({"a": [1]}), json!([{"op": "add", "path": "/a/-", "value": null}]), json!({"a": [1, null]})),
            (json!({"a": [1]}), json!([{"op": "add", "path": "/a/1", "value": 2}]), json!({"a": [1, 2]})),
            (json!({"a": 1}), json!([{"op": "remove", "path": "/a"}]), json!({})),
            (json!({"a": [1, 2, 3]}), json!([{"op": "remove", "path": "/a/1"}]), json!({"a": [1, 3]})),
            (json!({"a": [1, 2]}), json!([{"op": "move", "from": "/a/0", "path": "/a/1"}]), json!({"a": [2, 1]})),
            (json!({"a": {"b": 1}}), json!([{"op": "move", "from": "/a/b", "path": "/a"}]), json!({"a": 1})),
            (json!({"a": 1}), json!([{"op": "move", "from": "/a", "path": "/a"}]), json!({"a": 1})),
            (
                json!({"a/b": 1, "m~n": 2}),
                json!([{"op": "remove", "path": "/a~1b"}, {"op": "remove", "path": "/m~0n"}]),
                json!({}),
            ),
            (json!({"a": 1}), json!([{"op": "replace", "path": "/a", "value": {"b": 2}}]), json!({"a": {"b": 2}})),
            (json!({"a": {"b": 1}}), json!([{"op": "move", "from": "/a/b", "path": "/c"}]), json!({"a": {}, "c": 1})),
            (json!({"a": [1]}), json!([{"op": "copy", "from": "/a", "path": "/b"}]), json!({"a": [1], "b": [1]})),
            (json!({"a": 1}), json!([{"op": "test", "path": "/a", "value": 1}]), json!({"a": 1})),
            (json!({"a": 1}), json!([{"op": "replace", "path": "", "value": {}}]), json!({})),
        ] {
            let mut got = target.clone();
            assert_eq!(JsonPatch::parse(patch.to_string().as_bytes()).unwrap().apply(&mut got), Ok(()), "{patch}");
            assert_eq!(got, result, "{patch}");
        }
    }

    #[test]
    fn refusals() {
        for patch in [
            json!([{"op": "test", "path": "/x/y", "value": 2}]),
            json!([{"op": "remove", "path": "/x"}]),
            json!([{"op": "replace", "path": "/x", "value": 1}]),
            json!([{"op": "add", "path": "/x/y", "value": 1}]),
            json!([{"op": "add", "path": "/l/2", "value": 1}]),
            json!([{"op": "add", "path": "/l/01", "value": 1}]),
            json!([{"op": "remove", "path": "/l/1"}]),
            json!([{"op": "remove", "path": "/l/-"}]),
            json!([{"op": "remove", "path": "/a/0"}]),
            json!([{"op": "add", "path": "a", "value": 1}]),
            json!([{"op": "add", "path": "/a"}]),
            json!([{"op": "move", "from": "/m", "path": "/m/x"}]),
            json!([{"op": "remove", "path": ""}]),
            json!([{"op": "other", "path": "/a"}]),
        ] {
            let mut target = json!({"a": 1, "l": [1], "m": {}});
            let got = JsonPatch::parse(patch.to_string().as_bytes()).unwrap().apply(&mut target);
            assert!(matches!(got, Err(JsonPatchError::Refused { index: 0, .. })), "{patch} {got:?}");
            assert_eq!(target, json!({"a": 1, "l": [1], "m": {}}), "{patch}");
        }
        for text in ["", "{}", "[1]", "[{\"op\":\"add\"}]"] {
            assert!(matches!(JsonPatch::parse(text.as_bytes()), Err(JsonPatchError::Malformed(_))), "{text}");
        }
    }

    #[test]
    fn a_test_that_fails_is_told_from_a_patch_that_does_not_fit() {
        for (operation, fails) in [
            (json!({"op": "test", "path": "/a", "value": 1}), false),
            (json!({"op": "test", "path": "/a", "value": 1.0}), false),
            (json!({"op": "test", "path": "/a", "value": 2}), true),
            (json!({"op": "test", "path": "/x", "value": 2}), true),
            (json!({"op": "test", "path": "/x", "value": null}), false),
            (json!({"op": "test", "path": "/l/-1", "value": 7}), false),
            (json!({"op": "test", "path": "/l/5", "value": 7}), true),
        ] {
            // What went before goes with it.
            let patch = json!([{"op": "add", "path": "/new", "value": 1}, operation]);
            let mut target = json!({"a": 1, "l": [6, 7]});
            let got = JsonPatch::parse(patch.to_string().as_bytes()).unwrap().apply(&mut target);
            assert_eq!(matches!(got, Err(JsonPatchError::TestFailed { index: 1, .. })), fails, "{patch} {got:?}");
            assert_eq!(target.get("new").is_some(), !fails, "{patch}");
        }
        assert!(holds(&json!({"a": null}), "/a", &Value::Null));
        assert!(!holds(&json!({}), "/a", &Value::Null));
    }

    #[test]
    fn no_operation_makes_an_object_too_large_or_too_deep() {
        let object = |depth: usize| {
            let mut object = json!({"leaf": {}});
            (1..depth).for_each(|_| object = json!({ "a": object.take() }));
            object
        };
        let deep = |levels: usize| "/a".repeat(levels);
        let text = json!({"text": "x".repeat(1 << 20)});
        let doubling = |times: usize| json!({"op": "copy", "from": "", "path": format!("/{times}")});
        for (target, patch, expected) in [
            (text.clone(), (0..3).map(doubling).collect(), Ok(())),
            (text.clone(), (0..30).map(doubling).collect(), Err((3, TOO_LARGE))),
            // An object that has grown by another patch.
            (json!({"text": "x".repeat(9 << 20)}), json!([doubling(0)]), Err((0, TOO_LARGE))),
            (object(62), json!([{"op": "copy", "from": "", "path": deep(61) + "/leaf/b"}]), Ok(())),
            (object(63), json!([{"op": "copy", "from": "", "path": deep(62) + "/leaf/b"}]), Err((0, TOO_DEEP))),
            (object(125), json!([{"op": "add", "path": deep(124) + "/leaf/b", "value": [1]}]), Ok(())),
            (object(125), json!([{"op": "add", "path": deep(124) + "/leaf/b", "value": [[]]}]), Err((0, TOO_DEEP))),
            (object(125), json!([{"op": "replace", "path": deep(124) + "/leaf", "value": [[[]]]}]), Err((0, TOO_DEEP))),
            (
                json!({"a": object(125), "b": {"c": {}}}),
                json!([{"op": "move", "from": "/a", "path": "/b/c/d"}]),
                Err((0, TOO_DEEP)),
            ),
        ] {
            let patch = JsonPatch::parse(patch.to_string().as_bytes()).unwrap();
            let applied = patch.apply(&mut target.clone()).map_err(|e| match e {
                JsonPatchError::Refused { index, why, .. } => (index, why),
                other => panic!("{other}"),
            });
            assert_eq!(applied, expected, "{patch:?}");
        }
    }

    proptest! {
        #[test]
        fn no_path_panics(op in "add|remove|replace|move|copy|test", path in "[/a0-9~-]{0,6}", from in "[/a0-9~-]{0,6}") {
            let mut target = json!({"a": [1, {"a": {}}], "0": "x"});
            let patch = json!([{"op": op, "path": path, "from": from, "value": 1}]);
            let _ = JsonPatch::parse(patch.to_string().as_bytes()).unwrap().apply(&mut target);
        }
    }
}
