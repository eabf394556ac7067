//! Objects in the form they are written in.

use bytes::Bytes;
use lifeboat_object::{ApiResource, Item, ObjectKey, RESTORABLE, Severity, Spliced, splice_type};
use lifeboat_operation::Journal;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// Message in the results about an object that failed.
pub(crate) const FAILED: &str = "Error backing up item";

/// An object in the form it is written in.
#[derive(Debug)]
pub(crate) struct ArchiveEntry {
    pub(crate) resource: Arc<ApiResource>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) body: Spliced,
}

impl ArchiveEntry {
    /// The bytes that the API server has sent.
    pub(crate) fn as_sent(item: Item) -> Self {
        let body = splice_type(&item);
        Self { resource: item.resource, namespace: item.head.namespace, name: item.head.name, body }
    }

    /// An object that was changed, with its type.
    pub(crate) fn changed(item: Item, object: Value) -> Self {
        let body = Bytes::from(typed(&item.resource, object).to_string()).into();
        Self { resource: item.resource, namespace: item.head.namespace, name: item.head.name, body }
    }
}

/// Objects to be written together, and their share of the memory budget, or of the reserve of a stage.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) entries: Vec<ArchiveEntry>,
    pub(crate) budget: Option<OwnedSemaphorePermit>,
}

/// Tells of an object that is saved though no restore can read it.
pub(crate) fn tell_too_deep(key: &ObjectKey, journal: &Journal) {
    let error = format!("it is saved, but it cannot be restored: it is nested deeper than {RESTORABLE} levels");
    journal.item(Severity::Error, key, FAILED, Some(&error));
}

/// An object as actions see it: with its type, which the elements of a list of the API server lack.
///
/// # Errors
/// When the body is no JSON.
pub(crate) fn whole(resource: &ApiResource, body: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice(body).map(|object| typed(resource, object))
}

fn typed(resource: &ApiResource, mut object: Value) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".to_owned(), resource.api_version().into());
        map.insert("kind".to_owned(), resource.kind.clone().into());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Numbers in every notation that JSON has, as text.
    fn number() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<i64>().prop_map(|n| n.to_string()),
            any::<u64>().prop_map(|n| n.to_string()),
            "-?[1-9][0-9]{18,60}",
            "-?(0|[1-9][0-9]{0,20})\\.[0-9]{1,30}",
            "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,20})?[eE][+-]?[0-9]{1,4}",
            Just("-0".to_owned()),
        ]
    }

    /// JSON as text, which says more of a number than a value does.
    fn json() -> impl Strategy<Value = String> {
        let text = any::<String>().prop_map(|text| Value::from(text).to_string());
        let leaf = prop_oneof![number(), text, Just("true".to_owned()), Just("null".to_owned())];
        leaf.prop_recursive(4, 32, 6, |inner| {
            let members = proptest::collection::btree_map("[a-zA-Z./]{1,8}", inner.clone(), 0..6);
            prop_oneof![
                proptest::collection::vec(inner, 0..6).prop_map(|items| format!("[{}]", items.join(", "))),
                members.prop_map(|members| {
                    let members: Vec<String> =
                        members.iter().map(|(key, value)| format!("\"{key}\" : {value}")).collect();
                    format!("{{ {} }}", members.join(","))
                }),
            ]
        })
    }

    /// Type fields that the head of an object may have.
    fn of_its_type() -> impl Strategy<Value = &'static str> {
        prop_oneof![
            Just(""),
            Just(r#""apiVersion":"v1","kind":"PersistentVolumeClaim","#),
            Just(r#""kind":"PersistentVolumeClaim","#),
            Just(r#""apiVersion":"","kind":"","#),
        ]
    }

    proptest! {
        #[test]
        fn both_lanes_give_the_same_json(of_its_type in of_its_type(), spec in json(), status in json()) {
            let body = format!(r#"{{{of_its_type}"metadata":{{"name":"a","namespace":"n"}},"spec":{spec},"status":{status}}}"#);
            let resource = ApiResource::persistent_volume_claims();
            let item = Item::parse(Arc::new(resource), body.into()).unwrap();
            let parsed: Value = serde_json::from_slice(&item.body).unwrap();
            let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
            // Numbers are compared as they are written.
            prop_assert_eq!(read(&splice_type(&item).to_bytes()), typed(&item.resource, parsed));
        }
    }
}
