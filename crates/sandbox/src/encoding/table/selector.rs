//! Label selectors of objects as kubectl writes them.

use super::field::{entries, joined, list, text};
use serde_json::Value;

/// Labels, or `<none>`.
pub(super) fn labels(value: &Value) -> String {
    let mut pairs: Vec<(&str, &str)> = entries(value).map(|(key, value)| (key.as_str(), text(value))).collect();
    pairs.sort_unstable();
    let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

/// A label selector, or `<none>` for one that is absent or selects everything.
pub(super) fn selector(value: &Value) -> String {
    match requirements(value) {
        None => "<error>".to_owned(),
        Some(text) if text.is_empty() => "<none>".to_owned(),
        Some(text) => text,
    }
}

/// The requirements of a label selector, by key; `None` when it cannot be understood.
pub(super) fn requirements(value: &Value) -> Option<String> {
    let of_labels = entries(&value["matchLabels"]).map(|(key, value)| (key.as_str(), format!("{key}={}", text(value))));
    let mut found: Vec<(&str, String)> = of_labels.collect();
    for expression in list(&value["matchExpressions"]) {
        let key = text(&expression["key"]);
        found.push((key, requirement(key, expression)?));
    }
    found.sort_by_key(|(key, _)| *key);
    Some(found.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(","))
}

fn requirement(key: &str, expression: &Value) -> Option<String> {
    let mut values = list(&expression["values"]).to_vec();
    values.sort_by(|a, b| text(a).cmp(text(b)));
    match (text(&expression["operator"]), values.is_empty()) {
        ("In", false) => Some(format!("{key} in ({})", joined(&values))),
        ("NotIn", false) => Some(format!("{key} notin ({})", joined(&values))),
        ("Exists", true) => Some(key.to_owned()),
        ("DoesNotExist", true) => Some(format!("!{key}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_are_written_by_key() {
        let expression =
            |key: &str, operator: &str, values: Value| json!({"key": key, "operator": operator, "values": values});
        for (value, expected) in [
            (json!(null), "<none>"),
            (json!({}), "<none>"),
            (json!({"matchLabels": {"b": "2", "a": "1"}}), "a=1,b=2"),
            (
                json!({"matchLabels": {"b": "2"}, "matchExpressions": [
                    expression("c", "In", json!(["y", "x"])), expression("a", "NotIn", json!(["z"])),
                    expression("d", "Exists", json!(null)), expression("e", "DoesNotExist", json!([]))]}),
                "a notin (z),b=2,c in (x,y),d,!e",
            ),
            (json!({"matchExpressions": [expression("c", "In", json!([]))]}), "<error>"),
            (json!({"matchExpressions": [expression("c", "Near", json!(["x"]))]}), "<error>"),
        ] {
            assert_eq!(selector(&value), expected, "{value}");
        }
    }
}
