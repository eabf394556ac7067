//! Fields of an object that differ for each creation of it, or for each restore, and do not count when objects are
//! compared. Pure.

use lifeboat_api::well_known::{LABEL_BACKUP_NAME, LABEL_RESTORE_NAME};
use lifeboat_patch::restored::OF_ONE_LIFE;
use serde_json::Value;

/// Removes the fields that differ for each creation of an object: identity, times, owners, status. Returns the status.
pub(crate) fn strip(object: &mut Value) -> Option<Value> {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in OF_ONE_LIFE {
            metadata.remove(key);
        }
        metadata.remove("ownerReferences");
    }
    object.as_object_mut().and_then(|o| o.remove("status"))
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
