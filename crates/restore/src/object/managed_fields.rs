//! The managers of the fields of a restored object. Pure.
//!
//! The API server drops `managedFields` of a create, but takes one owner from `?fieldManager=`. An object with only
//! `Update` managers gets the one back that owns most; one with an `Apply` manager needs a second write, or the next
//! server-side apply of that manager would conflict with a stranger.

use serde_json::Value;

/// Manager of the create, and the managers that are written back, for the fields of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldManagers {
    /// The manager to create with; empty for our own.
    pub(crate) field_manager: String,
    /// True when the managers must be written back after the create.
    pub(crate) second_write: bool,
}

impl FieldManagers {
    /// Decides from `metadata.managedFields` of the object in the backup.
    pub(crate) fn of(managed_fields: &Value) -> Self {
        let Some(entries) = managed_fields.as_array() else { return Self::default() };
        let text = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
        let second_write = entries.iter().any(|e| text(e, "operation") == "Apply");
        // Entries of subresources own parts that a create does not write.
        let main = entries.iter().filter(|e| text(e, "operation") == "Update" && text(e, "subresource").is_empty());
        let most = main.max_by_key(|e| e.get("fieldsV1").map_or(0, count));
        // A field manager has at most 128 bytes, all printable.
        let valid = |name: &String| name.len() <= 128 && name.chars().all(|c| !c.is_control());
        let field_manager = most.map(|e| text(e, "manager")).filter(valid).unwrap_or_default();
        Self { field_manager, second_write }
    }
}

fn count(value: &Value) -> usize {
    value.as_object().map_or(0, |map| map.len() + map.values().map(count).sum::<usize>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_manager_that_owns_most_creates() {
        let small = json!({"manager": "a", "operation": "Update", "fieldsV1": {"f:data": {"f:x": {}}}});
        let large = json!({"manager": "b", "operation": "Update", "fieldsV1": {"f:data": {"f:y": {}, "f:z": {}}}});
        let status = json!({"manager": "c", "operation": "Update", "subresource": "status", "fieldsV1": {"f:s": {"f:1": {}, "f:2": {}, "f:3": {}}}});
        let apply = json!({"manager": "d", "operation": "Apply", "fieldsV1": {"f:data": {"f:w": {}}}});
        let managers = |name: &str, second_write| FieldManagers { field_manager: name.to_owned(), second_write };
        assert_eq!(FieldManagers::of(&json!([small, large, status])), managers("b", false));
        assert_eq!(FieldManagers::of(&json!([small, apply])), managers("a", true));
        assert_eq!(FieldManagers::of(&json!([apply])), managers("", true));
        assert_eq!(FieldManagers::of(&Value::Null), managers("", false));
        assert_eq!(
            FieldManagers::of(&json!([{"manager": "x".repeat(200), "operation": "Update"}])),
            managers("", false)
        );
    }
}
