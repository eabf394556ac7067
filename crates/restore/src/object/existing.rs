//! Facts about objects that are in the cluster already.

use jiff::Timestamp;
use serde_json::Value;

/// Returns true if both are the same object at the same revision.
pub(crate) fn is_same_state(left: &Value, right: &Value) -> bool {
    ["uid", "resourceVersion"].iter().all(|key| {
        let (left, right) = (left["metadata"][*key].as_str(), right["metadata"][*key].as_str());
        left == right && left.is_some_and(|text| !text.is_empty())
    })
}

/// Returns true if an object was created in or after the second in which the restore began: timestamps of objects have
/// whole seconds. Both times are the API server's.
pub(crate) fn is_made_since(object: &Value, began: Option<Timestamp>) -> bool {
    let made = object["metadata"]["creationTimestamp"].as_str().and_then(|t| t.parse::<Timestamp>().ok());
    made.zip(began).is_some_and(|(made, began)| made.as_second() >= began.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_made_since_a_restore_began_may_be_its_own() {
        let began: Timestamp = "2026-01-01T00:00:10.5Z".parse().unwrap();
        let made = |at: &str| json!({"metadata": {"creationTimestamp": at}});
        for (object, began, expected) in [
            (made("2026-01-01T00:00:10Z"), Some(began), true),
            (made("2026-01-01T00:00:09Z"), Some(began), false),
            (made("2026-01-01T00:00:11Z"), None, false),
            (json!({}), Some(began), false),
        ] {
            assert_eq!(is_made_since(&object, began), expected, "{object}");
        }
    }
}
