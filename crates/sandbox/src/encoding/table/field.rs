//! Reads fields of objects, and forms the texts that cells of several types have.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// A text; empty when it is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A text, or what is said where it is absent or empty.
pub(super) fn text_or(value: &Value, otherwise: &str) -> Value {
    match text(value) {
        "" => otherwise.into(),
        found => found.into(),
    }
}

/// The first text that is not empty, if there is one.
pub(super) fn first_text(values: [&Value; 2]) -> &str {
    values.into_iter().map(text).find(|text| !text.is_empty()).unwrap_or_default()
}

/// A text that may be empty, or what is said where it is absent.
pub(super) fn optional(value: &Value, otherwise: &str) -> Value {
    value.as_str().unwrap_or(otherwise).into()
}

/// A whole number; 0 when it is none.
pub(super) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

/// Returns true if the value is `true`.
pub(super) fn is_true(value: &Value) -> bool {
    value.as_bool().unwrap_or(false)
}

/// The elements of a list; none when it is no list.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The entries of a map; none when it is no map.
pub(super) fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

/// The number of elements or entries; 0 for any other value.
pub(super) fn count(value: &Value) -> i64 {
    let count = value.as_array().map(Vec::len).or_else(|| value.as_object().map(Map::len));
    count.and_then(|n| i64::try_from(n).ok()).unwrap_or(0)
}

/// An amount such as `10Gi`, as it is written; `0` when there is none.
pub(super) fn quantity(value: &Value) -> String {
    scalar(value).unwrap_or_else(|| "0".to_owned())
}

/// The text of what may be a text or a number.
pub(super) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The cell of the object's name.
pub(super) fn name(object: &Value) -> Value {
    text(&object["metadata"]["name"]).into()
}

/// Returns true if the object is being deleted.
pub(super) fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// The status of the condition of a type.
pub(super) fn condition<'a>(status: &'a Value, of: &str) -> Option<&'a str> {
    condition_of(status, of).map(|c| text(&c["status"]))
}

/// The first condition of a type.
pub(super) fn condition_of<'a>(status: &'a Value, of: &str) -> Option<&'a Value> {
    list(&status["conditions"]).iter().find(|c| text(&c["type"]) == of)
}

/// Texts with a comma between them.
pub(super) fn joined(values: &[Value]) -> String {
    values.iter().map(text).collect::<Vec<_>>().join(",")
}

/// The names and the images of the containers of a pod.
pub(super) fn containers(pod: &Value) -> [Value; 2] {
    let all = |field: &str| {
        let of_each: Vec<&str> = list(&pod["containers"]).iter().map(|c| text(&c[field])).collect();
        Value::from(of_each.join(","))
    };
    [all("name"), all("image")]
}

/// The addresses of a load balancer, sorted.
pub(super) fn load_balancer(status: &Value) -> String {
    let address = |ingress: &Value| match text(&ingress["ip"]) {
        "" => text(&ingress["hostname"]).to_owned(),
        ip => ip.to_owned(),
    };
    let found: BTreeSet<String> = list(&status["loadBalancer"]["ingress"]).iter().map(address).collect();
    found.into_iter().filter(|a| !a.is_empty()).collect::<Vec<_>>().join(",")
}

/// The first `most` of so many texts, and how many more there are. The others are not made.
pub(super) fn first(texts: impl Iterator<Item = String>, count: usize, most: usize, separator: &str) -> String {
    let shown = texts.take(most).collect::<Vec<_>>().join(separator);
    match count.saturating_sub(most) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}
