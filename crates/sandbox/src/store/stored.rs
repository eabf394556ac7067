//! The stored form of an object.

use bytes::Bytes;
use lifeboat_object::ObjectKey;
use serde_json::Value;
use std::collections::BTreeMap;

/// An object as it is stored: its JSON, and the fields that the server needs without parsing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// The key of the object.
    pub key: ObjectKey,
    /// The revision that wrote it, also in the body as `metadata.resourceVersion`.
    pub revision: u64,
    /// `metadata.uid`.
    pub uid: String,
    /// The version it was written in.
    pub api_version: String,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.ownerReferences`.
    pub owners: Vec<Owner>,
    /// Set when `metadata.deletionTimestamp` is set.
    pub is_deleting: bool,
    /// The whole object, with `apiVersion` and `kind`.
    pub body: Bytes,
}

/// An owner that an object names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// `uid`.
    pub uid: String,
}

impl StoredObject {
    /// Reads what the server needs from `object` and keeps its JSON with `revision` as its resource version.
    #[must_use]
    pub fn new(key: ObjectKey, revision: u64, object: &Value) -> Self {
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let labels = metadata["labels"].as_object().into_iter().flatten();
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let mut stamped = object.clone();
        // What a dry run would have made has no revision.
        if revision > 0
            && let Some(metadata) = stamped.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.insert("resourceVersion".to_owned(), revision.to_string().into());
        }
        Self {
            revision,
            uid: text(&metadata["uid"]),
            api_version: text(&object["apiVersion"]),
            labels: labels.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect(),
            owners: owners
                .map(|o| Owner { api_version: text(&o["apiVersion"]), kind: text(&o["kind"]), uid: text(&o["uid"]) })
                .collect(),
            is_deleting: metadata["deletionTimestamp"].is_string(),
            body: Bytes::from(stamped.to_string()),
            key,
        }
    }

    /// The object parsed.
    #[must_use]
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}
