//! Labels, annotations and other maps of texts in an object that was parsed.

use serde_json::Value;
use std::collections::BTreeMap;

/// The labels of an object.
#[must_use]
pub fn labels(object: &Value) -> BTreeMap<String, String> {
    texts(&object["metadata"]["labels"])
}

/// The texts of a map such as annotations. What is of another type than Kubernetes says counts as absent.
#[must_use]
pub fn texts(map: &Value) -> BTreeMap<String, String> {
    let entries = map.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_texts_count() {
        let labels = |labels: Value| super::labels(&json!({"metadata": {"labels": labels}}));
        let some = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        assert_eq!(labels(json!({"a": "b", "c": 1, "d": null})), some);
        for none in [json!(null), json!("a"), json!({})] {
            assert_eq!(labels(none.clone()), BTreeMap::new(), "{none}");
        }
        assert_eq!(super::labels(&Value::Null), BTreeMap::new());
    }
}
