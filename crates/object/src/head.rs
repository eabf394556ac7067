//! The few fields that every stage asks for, read without building the object.

use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The fields that are parsed of every object: enough for filters, ordering and joins. Anything else stays in the
/// bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// `apiVersion`, when present.
    pub api_version: Option<String>,
    /// `kind`, when present.
    pub kind: Option<String>,
    /// `metadata.name`; never empty.
    pub name: String,
    /// `metadata.namespace`, when present and not empty.
    pub namespace: Option<String>,
    /// `metadata.uid`; empty when absent.
    pub uid: String,
    /// `metadata.resourceVersion`; empty when absent.
    pub resource_version: String,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// Set when `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// The `uid` of each owner reference.
    pub owner_uids: Vec<String>,
}

/// Reasons for which bytes are not an object.
#[derive(Debug, thiserror::Error)]
pub enum HeadError {
    /// Not JSON, or a field of the head has the wrong type.
    #[error("not a Kubernetes object")]
    Json(#[from] serde_json::Error),
    /// `metadata.name` is absent or empty.
    #[error("the object has no metadata.name")]
    NoName,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawObject<'a> {
    #[serde(borrow, default)]
    api_version: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    metadata: RawMeta<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMeta<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    namespace: Option<Cow<'a, str>>,
    #[serde(default)]
    uid: Option<String>,
    #[serde(default)]
    resource_version: Option<String>,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(borrow, default)]
    deletion_timestamp: Option<Cow<'a, str>>,
    #[serde(default)]
    owner_references: Option<Vec<RawOwner>>,
}

#[derive(Deserialize)]
struct RawOwner {
    #[serde(default)]
    uid: String,
}

impl Head {
    /// Reads the head of a JSON object; every other field is skipped, not built.
    ///
    /// # Errors
    /// [`HeadError`] when the bytes are not JSON, a head field has the wrong type, or there is no name.
    pub fn parse(body: &[u8]) -> Result<Self, HeadError> {
        let raw: RawObject<'_> = serde_json::from_slice(body)?;
        let name = raw.metadata.name.unwrap_or_default().into_owned();
        if name.is_empty() {
            return Err(HeadError::NoName);
        }
        Ok(Self {
            api_version: raw.api_version.map(Cow::into_owned),
            kind: raw.kind.map(Cow::into_owned),
            name,
            namespace: raw.metadata.namespace.filter(|n| !n.is_empty()).map(Cow::into_owned),
            uid: raw.metadata.uid.unwrap_or_default(),
            resource_version: raw.metadata.resource_version.unwrap_or_default(),
            labels: raw.metadata.labels.unwrap_or_default(),
            deleting: raw.metadata.deletion_timestamp.is_some(),
            owner_uids: raw.metadata.owner_references.unwrap_or_default().into_iter().map(|o| o.uid).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_head_field_and_skips_the_rest() {
        let body =
            br#"{"spec":{"deep":[[[{"metadata":{"name":"no"}}]]]},"kind":"ConfigMap","apiVersion":"v1","metadata":{
            "labels":{"a":"\u00e9"},"name":"n","namespace":"s","uid":"u","resourceVersion":"7",
            "ownerReferences":[{"uid":"o1","name":"x"},{"uid":"o2"}],"deletionTimestamp":"2026-01-01T00:00:00Z"}}"#;
        assert_eq!(
            Head::parse(body).unwrap(),
            Head {
                api_version: Some("v1".into()),
                kind: Some("ConfigMap".into()),
                name: "n".into(),
                namespace: Some("s".into()),
                uid: "u".into(),
                resource_version: "7".into(),
                labels: BTreeMap::from([("a".to_owned(), "é".to_owned())]),
                deleting: true,
                owner_uids: vec!["o1".into(), "o2".into()],
            }
        );
    }

    #[test]
    fn null_fields_are_absent_fields() {
        let body = br#"{"metadata":{"name":"n","namespace":"","labels":null,"ownerReferences":null,"deletionTimestamp":null}}"#;
        assert_eq!(Head::parse(body).unwrap(), Head { name: "n".into(), ..Head::default() });
    }

    #[test]
    fn refuses_what_is_no_object() {
        assert!(matches!(Head::parse(b"[]"), Err(HeadError::Json(_))));
        assert!(matches!(Head::parse(br#"{"metadata":{"uid":"u"}}"#), Err(HeadError::NoName)));
        assert!(matches!(Head::parse(br#"{"metadata":{"name":"a"}"#), Err(HeadError::Json(_))));
    }
}
