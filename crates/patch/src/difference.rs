//! Where two values differ.

use serde_json::Value;
use std::fmt;

/// One place where two values differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// JSON pointer (RFC 6901) of the place.
    pub path: String,
    /// What stands there on the left; `None` when nothing does.
    pub left: Option<Value>,
    /// What stands there on the right; `None` when nothing does.
    pub right: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |v: &Option<Value>| v.as_ref().map_or_else(|| "absent".to_owned(), Value::to_string);
        write!(f, "{}: {} became {}", self.path, show(&self.left), show(&self.right))
    }
}

/// Every place where `left` and `right` differ, as deep down as possible, in order of the paths.
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
        (l, r) if l == r => {}
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
    use serde_json::json;

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
