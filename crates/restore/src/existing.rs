//! What happens when the object is there already (restore.md 2.13).

use jiff::Timestamp;
use lifeboat_api::well_known::{LABEL_BACKUP_NAME, LABEL_RESTORE_NAME};
use lifeboat_patch::restored::OF_ONE_LIFE;
use serde_json::Value;

/// Removes what belongs to one life of an object: identity, times, owners, status. Gives the status back.
pub(crate) fn strip(object: &mut Value) -> Option<Value> {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in OF_ONE_LIFE {
            metadata.remove(key);
        }
        metadata.remove("ownerReferences");
    }
    object.as_object_mut().and_then(|o| o.remove("status"))
}

/// Whether both are the same object at the same revision.
pub(crate) fn is_same_state(left: &Value, right: &Value) -> bool {
    ["uid", "resourceVersion"].iter().all(|key| {
        let (left, right) = (left["metadata"][*key].as_str(), right["metadata"][*key].as_str());
        left == right && left.is_some_and(|text| !text.is_empty())
    })
}

/// Whether an object was made in or after the second in which the restore began: objects have whole seconds. Both times
/// are the API server's.
pub(crate) fn is_made_since(object: &Value, began: Option<Timestamp>) -> bool {
    let made = object["metadata"]["creationTimestamp"].as_str().and_then(|t| t.parse::<Timestamp>().ok());
    made.zip(began).is_some_and(|(made, began)| made.as_second() >= began.as_second())
}

/// Removes the labels that a restore adds.
pub(crate) fn remove_restore_labels(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
        labels.remove(LABEL_BACKUP_NAME);
        labels.remove(LABEL_RESTORE_NAME);
        if labels.is_empty() {
            metadata.remove("labels");
        }
    }
}

/// What a service account that exists gets from the backup: secrets, labels and annotations that it lacks (restore.md
/// 2.13). `None` when it lacks nothing.
pub(crate) fn merge_service_account(desired: &Value, in_cluster: &Value) -> Option<Value> {
    let mut merged = in_cluster.clone();
    for list in ["secrets", "imagePullSecrets"] {
        let Some(wanted) = desired.get(list).and_then(Value::as_array) else { continue };
        let Some(map) = merged.as_object_mut() else { continue };
        let Some(have) = map.entry(list).or_insert_with(|| Value::Array(Vec::new())).as_array_mut() else { continue };
        for entry in wanted {
            if !have.iter().any(|h| h.get("name") == entry.get("name")) {
                have.push(entry.clone());
            }
        }
        if have.is_empty() {
            map.remove(list);
        }
    }
    let metadata = merged.get_mut("metadata").and_then(Value::as_object_mut)?;
    for part in ["labels", "annotations"] {
        let Some(wanted) = desired["metadata"].get(part).and_then(Value::as_object) else { continue };
        let Some(have) = metadata.entry(part).or_insert_with(|| Value::Object(serde_json::Map::new())).as_object_mut()
        else {
            continue;
        };
        for (key, value) in wanted {
            have.entry(key.clone()).or_insert_with(|| value.clone());
        }
        if have.is_empty() {
            metadata.remove(part);
        }
    }
    lifeboat_patch::merge_diff(in_cluster, &merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_service_account_keeps_what_it_has_and_gets_what_it_lacks() {
        let desired = json!({"metadata": {"name": "web", "labels": {"a": "backup", "b": "backup"}}, "secrets": [{"name": "s1"}], "imagePullSecrets": [{"name": "regcred"}]});
        let live = json!({"metadata": {"name": "web", "labels": {"a": "live"}}, "secrets": [{"name": "s0"}], "imagePullSecrets": [{"name": "regcred"}]});
        assert_eq!(
            merge_service_account(&desired, &live),
            Some(json!({"metadata": {"labels": {"b": "backup"}}, "secrets": [{"name": "s0"}, {"name": "s1"}]}))
        );
        assert_eq!(merge_service_account(&json!({"metadata": {"name": "web"}}), &live), None);
    }

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
