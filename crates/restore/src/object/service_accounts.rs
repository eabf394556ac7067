//! Service accounts that exist already: they only gain fields. Pure.

use serde_json::Value;

/// The patch with the secrets, labels and annotations of the backup that a service account in the cluster lacks. `None`
/// when it lacks nothing.
pub(crate) fn missing_fields(desired: &Value, in_cluster: &Value) -> Option<Value> {
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
            missing_fields(&desired, &live),
            Some(json!({"metadata": {"labels": {"b": "backup"}}, "secrets": [{"name": "s0"}, {"name": "s1"}]}))
        );
        assert_eq!(missing_fields(&json!({"metadata": {"name": "web"}}), &live), None);
    }
}
