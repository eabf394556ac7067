//! JSON patch (RFC 6902).

use serde::Deserialize;
use serde_json::Value;

/// Operations in one patch; the real server has the same bound.
const MOST_OPERATIONS: usize = 10_000;

/// Why a patch was not applied.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchError {
    /// Not a JSON patch.
    #[error("not a JSON patch: {0}")]
    Malformed(String),
    /// It does not fit the object.
    #[error("operation {index} of the JSON patch cannot be applied: {why} at {path:?}")]
    Refused { index: usize, path: String, why: &'static str },
}

#[derive(Deserialize)]
struct Operation {
    op: String,
    path: String,
    from: Option<String>,
    // `None` when the value is absent; null is a value.
    #[serde(default, deserialize_with = "present")]
    value: Option<Value>,
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Applies `patch` to `target`, which is left half changed after an error.
pub(crate) fn apply(target: &mut Value, patch: &[u8]) -> Result<(), PatchError> {
    let operations: Vec<Operation> = serde_json::from_slice(patch).map_err(|e| PatchError::Malformed(e.to_string()))?;
    if operations.len() > MOST_OPERATIONS {
        return Err(PatchError::Malformed(format!("more than {MOST_OPERATIONS} operations")));
    }
    for (index, operation) in operations.into_iter().enumerate() {
        let path = operation.path.clone();
        step(target, operation).map_err(|why| PatchError::Refused { index, path, why })?;
    }
    Ok(())
}

fn step(target: &mut Value, operation: Operation) -> Result<(), &'static str> {
    let path = pointer(&operation.path)?;
    let value = operation.value.ok_or("there is no value");
    let from = || pointer(operation.from.as_deref().ok_or("there is no from")?);
    match operation.op.as_str() {
        "add" => add(target, &path, value?),
        "remove" => remove(target, &path).map(drop),
        "replace" => {
            *find(target, &path).ok_or("there is nothing")? = value?;
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
            let value = find(target, &from()?).ok_or("there is nothing to copy")?.clone();
            add(target, &path, value)
        }
        "test" => {
            let expected = value?;
            if find(target, &path).map(|v| &*v) == Some(&expected) { Ok(()) } else { Err("the test failed") }
        }
        _ => Err("the operation is unknown"),
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
            Value::Array(list) => list.get_mut(index(token)?)?,
            _ => return None,
        };
    }
    Some(target)
}

fn index(token: &str) -> Option<usize> {
    let plain = token == "0" || (!token.starts_with('0') && token.bytes().all(|b| b.is_ascii_digit()));
    if plain { token.parse().ok() } else { None }
}

fn add(target: &mut Value, path: &[String], value: Value) -> Result<(), &'static str> {
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
            let at = if last == "-" { Some(list.len()) } else { index(last) };
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
            let at = index(last).filter(|at| *at < list.len()).ok_or("there is nothing")?;
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
            (json!({"a": 1}), json!([{"op": "remove", "path": "/a"}]), json!({})),
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
            assert_eq!(apply(&mut got, patch.to_string().as_bytes()), Ok(()), "{patch}");
            assert_eq!(got, result, "{patch}");
        }
    }

    #[test]
    fn refusals() {
        for patch in [
            json!([{"op": "test", "path": "/a", "value": 2}]),
            json!([{"op": "remove", "path": "/x"}]),
            json!([{"op": "replace", "path": "/x", "value": 1}]),
            json!([{"op": "add", "path": "/x/y", "value": 1}]),
            json!([{"op": "add", "path": "/l/2", "value": 1}]),
            json!([{"op": "add", "path": "/l/01", "value": 1}]),
            json!([{"op": "add", "path": "a", "value": 1}]),
            json!([{"op": "add", "path": "/a"}]),
            json!([{"op": "move", "from": "/m", "path": "/m/x"}]),
            json!([{"op": "remove", "path": ""}]),
            json!([{"op": "other", "path": "/a"}]),
        ] {
            let mut target = json!({"a": 1, "l": [1], "m": {}});
            let got = apply(&mut target, patch.to_string().as_bytes());
            assert!(matches!(got, Err(PatchError::Refused { index: 0, .. })), "{patch} {got:?}");
        }
        for text in ["", "{}", "[1]", "[{\"op\":\"add\"}]"] {
            assert!(matches!(apply(&mut json!({}), text.as_bytes()), Err(PatchError::Malformed(_))), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_path_panics(op in "add|remove|replace|move|copy|test", path in "[/a0-9~-]{0,6}", from in "[/a0-9~-]{0,6}") {
            let mut target = json!({"a": [1, {"a": {}}], "0": "x"});
            let patch = json!([{"op": op, "path": path, "from": from, "value": 1}]);
            let _ = apply(&mut target, patch.to_string().as_bytes());
        }
    }
}
