//! What happens when the object is there already (restore.md 2.13).

use serde_json::Value;

/// Fields of metadata that belong to one life of an object, never to a backup (restore.md 2.8 step 8).
pub(crate) const OF_ONE_LIFE: [&str; 8] = [
    "generateName",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

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

/// Whether the object in the cluster is what the restore would have made of the one in the backup.
pub(crate) fn is_same(desired: &Value, in_cluster: &Value) -> bool {
    let comparable = |object: &Value| {
        let mut object = object.clone();
        strip(&mut object);
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
            if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
                labels.remove(lifeboat_api::well_known::LABEL_BACKUP_NAME);
                labels.remove(lifeboat_api::well_known::LABEL_RESTORE_NAME);
                if labels.is_empty() {
                    metadata.remove("labels");
                }
            }
        }
        object
    };
    comparable(desired) == comparable(in_cluster)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_life_does_not_make_a_difference() {
        let backup = json!({"metadata": {"name": "a", "uid": "1", "resourceVersion": "5", "managedFields": [1]}, "data": {"x": "1"}});
        let live = json!({"metadata": {"name": "a", "uid": "2", "labels": {"velero.io/restore-name": "r"}}, "data": {"x": "1"}, "status": {}});
        assert!(is_same(&backup, &live));
        assert!(!is_same(&backup, &json!({"metadata": {"name": "a"}, "data": {"x": "2"}})));
        assert!(!is_same(&backup, &json!({"metadata": {"name": "a", "labels": {"k": "v"}}, "data": {"x": "1"}})));
    }
}
