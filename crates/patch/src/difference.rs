//! The places where two values differ.

use crate::equal;
use serde_json::{Value, json};
use std::fmt;

/// A place where two values differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// JSON pointer (RFC 6901) of the place.
    pub path: String,
    /// The value on the left; `None` when there is none.
    pub left: Option<Value>,
    /// The value on the right; `None` when there is none.
    pub right: Option<Value>,
}

impl Difference {
    /// The place as JSON: `path`, and what stands there on the left and on the right, as far as something does, by these names.
    #[must_use]
    pub fn to_json(&self, [left, right]: [&str; 2]) -> Value {
        let mut out = json!({"path": self.path});
        for (name, side) in [(left, &self.left), (right, &self.right)] {
            if let Some(value) = side {
                out[name] = value.clone();
            }
        }
        out
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |v: &Option<Value>| v.as_ref().map_or_else(|| "absent".to_owned(), Value::to_string);
        write!(f, "{}: {} became {}", self.path, show(&self.left), show(&self.right))
    }
}

/// Text shown in place of a value of a Secret.
const HIDDEN: &str = "(hidden)";
/// The annotation in which kubectl keeps the whole object.
const LAST_APPLIED: &str = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";

/// Places at which what differs holds values, or that annotation.
const WHOLES: [&str; 4] = ["", "/metadata", "/metadata/annotations", LAST_APPLIED];

/// Hides the values among the differences of a Secret; which keys differ stays visible.
pub fn hide_secret_values(differences: &mut [Difference]) {
    for difference in differences {
        if difference.path.starts_with("/data") || difference.path.starts_with("/stringData") {
            let whole_map = |side: &Option<Value>| side.as_ref().and_then(Value::as_object).cloned();
            for side in [&mut difference.left, &mut difference.right] {
                *side = match whole_map(side) {
                    Some(map) => Some(map.into_iter().map(|(key, _)| (key, Value::from(HIDDEN))).collect()),
                    None => side.as_ref().map(|_| HIDDEN.into()),
                };
            }
        } else if WHOLES.contains(&difference.path.as_str()) {
            for side in [&mut difference.left, &mut difference.right] {
                *side = side.as_ref().map(|_| HIDDEN.into());
            }
        }
    }
}

/// Hides the values of a Secret; which keys it has stays visible.
pub fn hide_secret(secret: &mut Value) {
    for field in ["data", "stringData"] {
        for value in secret.get_mut(field).and_then(Value::as_object_mut).into_iter().flat_map(|map| map.values_mut()) {
            *value = HIDDEN.into();
        }
    }
    if let Some(applied) = secret.pointer_mut(LAST_APPLIED) {
        *applied = HIDDEN.into();
    }
}

/// Every place where `left` and `right` are not [`equal`], as deep down as possible, in order of the paths.
#[must_use]
pub fn differences(left: &Value, right: &Value) -> Vec<Difference> {
    let mut out = Vec::new();
    descend(&mut String::new(), Some(left), Some(right), &mut out);
    out
}

fn descend(path: &mut String, left: Option<&Value>, right: Option<&Value>, out: &mut Vec<Difference>) {
    match (left, right) {
        (Some(Value::Object(l)), Some(Value::Object(r))) => {
            let mut keys: Vec<&String> = l.keys().chain(r.keys().filter(|k| !l.contains_key(*k))).collect();
            keys.sort();
            for key in keys {
                step(path, &key.replace('~', "~0").replace('/', "~1"), l.get(key), r.get(key), out);
            }
        }
        (Some(Value::Array(l)), Some(Value::Array(r))) => {
            for i in 0..l.len().max(r.len()) {
                step(path, &i.to_string(), l.get(i), r.get(i), out);
            }
        }
        (Some(l), Some(r)) if equal(l, r) => {}
        (l, r) => out.push(Difference { path: path.clone(), left: l.cloned(), right: r.cloned() }),
    }
}

fn step(path: &mut String, key: &str, left: Option<&Value>, right: Option<&Value>, out: &mut Vec<Difference>) {
    let length = path.len();
    path.push('/');
    path.push_str(key);
    descend(path, left, right, out);
    path.truncate(length);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_its_keys_alone() {
        let mut secret = json!({"type": "Opaque", "data": {"a": "MQ=="}, "stringData": {"b": "1"},
            "metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "c": "d"}}});
        hide_secret(&mut secret);
        let hidden = json!({"type": "Opaque", "data": {"a": "(hidden)"}, "stringData": {"b": "(hidden)"},
            "metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "(hidden)", "c": "d"}}});
        assert_eq!(secret, hidden);
        let mut empty = json!({"data": null});
        hide_secret(&mut empty);
        assert_eq!(empty, json!({"data": null}));
    }

    #[test]
    fn values_of_secrets_are_hidden() {
        let texts = |left: Value, right: Value| -> Vec<String> {
            let mut found = differences(&left, &right);
            hide_secret_values(&mut found);
            found.iter().map(ToString::to_string).collect()
        };
        let applied = |text: &str| json!({"kubectl.kubernetes.io/last-applied-configuration": text, "a": text});
        assert_eq!(
            texts(
                json!({"type": "Opaque", "data": {"a": "MQ=="}, "metadata": {"annotations": applied("1")}}),
                json!({"type": "tls", "data": {"a": "Mg==", "b": "Mw=="}, "metadata": {"annotations": applied("2")}})
            ),
            [
                "/data/a: \"(hidden)\" became \"(hidden)\"",
                "/data/b: absent became \"(hidden)\"",
                "/metadata/annotations/a: \"1\" became \"2\"",
                "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration: \"(hidden)\" became \"(hidden)\"",
                "/type: \"Opaque\" became \"tls\"",
            ]
        );
        assert_eq!(
            texts(json!({}), json!({"data": {"a": "MQ=="}, "metadata": {"annotations": applied("1")}}))[0],
            "/data: absent became {\"a\":\"(hidden)\"}"
        );
        let whole = texts(json!({"metadata": {}}), json!({"metadata": {"annotations": applied("1")}}));
        assert_eq!(whole, ["/metadata/annotations: absent became \"(hidden)\""]);
        let secret = json!({"data": {"a": "MQ=="}, "metadata": {"annotations": applied("1")}});
        assert_eq!(texts(json!(null), secret.clone()), [": \"(hidden)\" became \"(hidden)\""]);
        let metadata = texts(json!({"data": {"a": "MQ=="}}), secret);
        assert_eq!(metadata, ["/metadata: absent became \"(hidden)\""]);
    }

    #[test]
    fn says_where_and_what() {
        let left = json!({"a": {"x/y": 1, "same": [1]}, "gone": null, "list": [1, 2]});
        let right = json!({"a": {"x/y": 2, "same": [1]}, "list": [1, 3, 4], "new": {}});
        let texts: Vec<String> = differences(&left, &right).iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "/a/x~1y: 1 became 2",
                "/gone: null became absent",
                "/list/1: 2 became 3",
                "/list/2: absent became 4",
                "/new: absent became {}"
            ]
        );
        assert_eq!(differences(&left, &left), vec![]);
    }
}
