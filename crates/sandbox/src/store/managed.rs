//! Makes the `managedFields` of a created object: which fields its creator owns.

use serde_json::{Map, Value, json};

/// Fields of the metadata that no client owns.
const SERVERS_METADATA: [&str; 9] = [
    "name",
    "namespace",
    "generateName",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "resourceVersion",
    "managedFields",
];

/// Maps of the built-in types, which are owned as a whole besides key by key. Without schemas this is a list of names.
const MAPS: [&str; 8] =
    ["labels", "annotations", "data", "binaryData", "stringData", "matchLabels", "nodeSelector", "parameters"];

/// The one entry of an object made by `manager`.
pub(crate) fn of_create(object: &Value, manager: &str, now: &str, is_custom: bool) -> Value {
    let mut fields = Map::new();
    for (key, value) in object.as_object().into_iter().flatten() {
        match key.as_str() {
            "apiVersion" | "kind" | "status" => {}
            "metadata" => {
                let metadata = metadata_fields(value);
                if !metadata.is_empty() {
                    fields.insert("f:metadata".to_owned(), metadata.into());
                }
            }
            key => {
                fields.insert(format!("f:{key}"), tree(value, is_custom || MAPS.contains(&key), is_custom));
            }
        }
    }
    json!([{
        "manager": manager, "operation": "Update", "apiVersion": object["apiVersion"], "time": now,
        "fieldsType": "FieldsV1", "fieldsV1": fields,
    }])
}

/// The manager's name: what the client says, or the first word of its user agent.
pub(crate) fn manager(asked: &str, user_agent: &str) -> String {
    let name = if asked.is_empty() { user_agent.split('/').next().unwrap_or_default() } else { asked };
    let name: String = name.chars().take(128).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

fn metadata_fields(metadata: &Value) -> Map<String, Value> {
    let mut fields = Map::new();
    for (key, value) in metadata.as_object().into_iter().flatten() {
        if SERVERS_METADATA.contains(&key.as_str()) {
            continue;
        }
        let tree = match (key.as_str(), value) {
            ("ownerReferences", Value::Array(owners)) => {
                set(owners.iter().map(|owner| format!("k:{}", json!({"uid": owner["uid"]}))))
            }
            ("finalizers", Value::Array(names)) => set(names.iter().map(|name| format!("v:{name}"))),
            _ => tree(value, MAPS.contains(&key.as_str()), false),
        };
        fields.insert(format!("f:{key}"), tree);
    }
    fields
}

fn set(members: impl Iterator<Item = String>) -> Value {
    let mut fields = Map::new();
    fields.insert(".".to_owned(), json!({}));
    fields.extend(members.map(|m| (m, json!({}))));
    fields.into()
}

/// `is_map` adds the field itself. All maps of custom resources are such.
fn tree(value: &Value, is_map: bool, is_custom: bool) -> Value {
    let Value::Object(map) = value else { return json!({}) };
    let mut fields = Map::new();
    if is_map && !map.is_empty() {
        fields.insert(".".to_owned(), json!({}));
    }
    for (key, value) in map {
        fields.insert(format!("f:{key}"), tree(value, is_custom || MAPS.contains(&key.as_str()), is_custom));
    }
    fields.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_config_map() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}, "immutable": true,
            "metadata": {"name": "x", "uid": "u", "labels": {"app": "web"}, "finalizers": ["e.com/x"],
                         "ownerReferences": [{"uid": "o", "name": "n"}]}});
        assert_eq!(
            of_create(&object, "me", "t", false),
            json!([{"manager": "me", "operation": "Update", "apiVersion": "v1", "time": "t", "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:data": {".": {}, "f:a": {}},
                "f:immutable": {},
                "f:metadata": {
                    "f:labels": {".": {}, "f:app": {}},
                    "f:finalizers": {".": {}, "v:\"e.com/x\"": {}},
                    "f:ownerReferences": {".": {}, "k:{\"uid\":\"o\"}": {}},
                },
            }}])
        );
    }

    #[test]
    fn fields_of_a_custom_resource() {
        let object = json!({"apiVersion": "e.com/v1", "kind": "W", "metadata": {"name": "x"},
                            "spec": {"size": 1, "list": [1], "deep": {"a": {}}}, "status": {"x": 1}});
        assert_eq!(
            of_create(&object, "me", "t", true)[0]["fieldsV1"],
            json!({"f:spec": {".": {}, "f:size": {}, "f:list": {}, "f:deep": {".": {}, "f:a": {}}}})
        );
    }

    #[test]
    fn managers() {
        assert_eq!(manager("me", "kubectl/v1"), "me");
        assert_eq!(manager("", "kubectl/v1.34 (linux)"), "kubectl");
        assert_eq!(manager("", ""), "unknown");
        assert_eq!(manager(&"x".repeat(200), "").len(), 128);
    }
}
