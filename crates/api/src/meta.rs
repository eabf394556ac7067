//! Metadata of our own resources.

use crate::{NamespacedName, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The metadata of a `velero.io` object. Fields that we never touch travel in `other`, so that writing an object
/// back loses nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectMeta {
    /// Name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Start of the name that the API server makes up.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub generate_name: String,
    /// Namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// UID.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Resource version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Version of all but the metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// When the object was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// When its deletion was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Time>,
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "crate::meta::null_default")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "crate::meta::null_default")]
    pub annotations: BTreeMap<String, String>,
    /// The objects that own it.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub owner_references: Vec<OwnerReference>,
    /// Names that must be removed before the API server removes the object.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_default")]
    pub finalizers: Vec<String>,
    /// The managers of its fields.
    #[serde(default, skip_serializing_if = "ManagedFields::is_empty")]
    pub managed_fields: ManagedFields,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

impl ObjectMeta {
    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> NamespacedName {
        NamespacedName { namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// The finalizers without this one.
    #[must_use]
    pub fn finalizers_without(&self, finalizer: &str) -> Vec<&str> {
        self.finalizers.iter().map(String::as_str).filter(|other| *other != finalizer).collect()
    }

    /// Tells whether an annotation says `true`: a switch that is on.
    #[must_use]
    pub fn says_true(&self, annotation: &str) -> bool {
        self.annotations.get(annotation).is_some_and(|value| value.trim() == "true")
    }
}

/// The managers of the fields of an object, as the API server notes them. They are half of most objects and nothing here
/// reads them, so they stay text.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ManagedFields(Option<Box<RawValue>>);

impl ManagedFields {
    /// Returns true if none are noted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl PartialEq for ManagedFields {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_deref().map(RawValue::get) == other.0.as_deref().map(RawValue::get)
    }
}

/// An owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// True when this is the owner that manages the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// True when the owner stays until the object is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// Reads an explicit `null` like an absent field: the schema marks most lists and maps nullable.
pub(crate) fn null_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn metadata_loses_nothing() {
        let value = json!({
            "name": "nightly-1",
            "generateName": "nightly-",
            "namespace": "velero",
            "uid": "59f3d1b7",
            "resourceVersion": "798",
            "generation": 7,
            "creationTimestamp": "2026-11-21T07:33:54Z",
            "deletionTimestamp": "2026-11-21T08:33:54Z",
            "deletionGracePeriodSeconds": 0,
            "labels": {"a": "b"},
            "annotations": {"c": "d"},
            "ownerReferences": [{
                "apiVersion": "velero.io/v1", "kind": "Schedule", "name": "nightly", "uid": "cedd4227",
                "controller": true, "blockOwnerDeletion": false,
            }],
            "finalizers": ["restores.velero.io/external-resources-finalizer"],
            "managedFields": [{"manager": "velero", "fieldsV1": {"f:spec": {}}}],
        });
        let meta: ObjectMeta = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(&meta).unwrap(), value);
        assert_eq!(serde_json::from_str::<Value>(&serde_json::to_string(&meta).unwrap()).unwrap(), value);
        assert_eq!(serde_json::from_str::<ObjectMeta>(&value.to_string()).unwrap(), meta);
        assert_eq!(meta.other.keys().collect::<Vec<_>>(), ["deletionGracePeriodSeconds"]);
        assert_ne!(ObjectMeta { managed_fields: ManagedFields::default(), ..meta.clone() }, meta);
    }

    #[test]
    fn nulls_of_a_client_are_absent_fields() {
        let meta: ObjectMeta = serde_json::from_value(json!({
            "name": "x", "creationTimestamp": null, "labels": null, "annotations": null, "ownerReferences": null,
            "finalizers": null, "managedFields": null,
        }))
        .unwrap();
        assert_eq!(meta, ObjectMeta { name: "x".to_owned(), ..ObjectMeta::default() });
    }
}
