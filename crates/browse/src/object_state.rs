//! The state of an object that was read from an archive without index, as the local cache keeps it
//! (docs/formats/index.md), so that a history need not read the archive again. Pure.

use crate::change::decisive;
use crate::value::object_value;
use lifeboat_object::{GroupResource, labels};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Bytes of an object that is kept as it is, at most.
const LARGEST: usize = 256 << 10;

/// The known state of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ObjectState {
    /// All of it.
    Whole(Value),
    /// A summary in its place.
    Summary(Summary),
}

/// Replaces an object that is not kept itself: a Secret, or a large one. It can prove that two states do not differ,
/// but not that they differ, nor where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) uid: String,
    pub(crate) labels: BTreeMap<String, String>,
    /// Of what decides whether the object differs.
    digest: String,
}

#[derive(Serialize, Deserialize)]
struct CachedState<'a> {
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    object: Option<&'a RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    summary: Option<Summary>,
}

impl ObjectState {
    /// Encodes the state of an object for the cache.
    pub(crate) fn encode(resource: &GroupResource, body: &[u8]) -> Vec<u8> {
        // Nothing of a Secret is written that gives its values away.
        let may_be_kept = !resource.is_secrets() && body.len() <= LARGEST;
        let object = may_be_kept.then(|| serde_json::from_slice::<&RawValue>(body).ok()).flatten();
        let summary = object.is_none().then(|| Summary::of(object_value(body)));
        serde_json::to_vec(&CachedState { object, summary }).unwrap_or_default()
    }

    /// Decodes a state from the cache; `None` when it cannot be read.
    pub(crate) fn decode(kept: &[u8]) -> Option<Self> {
        let CachedState { object, summary } = serde_json::from_slice(kept).ok()?;
        let whole = object.map(|object| Self::Whole(object_value(object.get().as_bytes())));
        whole.or_else(|| summary.map(Self::Summary))
    }
}

impl Summary {
    pub(crate) fn of(object: Value) -> Self {
        let (uid, labels) = (uid(&object).to_owned(), labels(&object));
        Self { uid, labels, digest: hex::encode(Sha256::digest(decisive(object).to_string())) }
    }

    /// Returns true if the two states are known to differ in nothing but their UIDs. When it returns false, they may
    /// differ or not.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

pub(crate) fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::field_differences;
    use serde_json::json;

    fn object(kind: &str, uid: &str, revision: u64, value: &str) -> Value {
        json!({"apiVersion": "v1", "kind": kind, "data": {"x": value},
            "metadata": {"name": "a", "uid": uid, "resourceVersion": revision.to_string(), "labels": {"app": "web"}}})
    }

    fn kept(resource: &str, object: &Value) -> ObjectState {
        ObjectState::decode(&ObjectState::encode(&GroupResource::new("", resource), object.to_string().as_bytes()))
            .unwrap()
    }

    #[test]
    fn an_object_is_kept_as_it_is_unless_it_is_a_secret_or_large() {
        let small = object("ConfigMap", "u", 1, "value");
        assert_eq!(kept("configmaps", &small), ObjectState::Whole(small.clone()));
        for (resource, object) in [
            ("secrets", object("Secret", "u", 1, "value")),
            ("configmaps", object("ConfigMap", "u", 1, &"value".repeat(LARGEST))),
        ] {
            let text = String::from_utf8(ObjectState::encode(
                &GroupResource::new("", resource),
                object.to_string().as_bytes(),
            ));
            assert!(!text.unwrap().contains("value"));
            let expected = Summary {
                uid: "u".to_owned(),
                labels: BTreeMap::from([("app".to_owned(), "web".to_owned())]),
                digest: Summary::of(object.clone()).digest,
            };
            assert_eq!(kept(resource, &object), ObjectState::Summary(expected));
        }
    }

    #[test]
    fn what_cannot_be_a_text_of_json_is_told_by_its_summary() {
        let odd = b"{\"metadata\":{\"name\":\"a\"},\"x\":\"\xff\"}";
        let found = ObjectState::decode(&ObjectState::encode(&GroupResource::new("", "configmaps"), odd));
        assert_eq!(found, Some(ObjectState::Summary(Summary::of(object_value(odd)))));
        // Deeper than values may be nested.
        let deep = format!(r#"{{"metadata":{{"name":"a"}},"x":{}1{}}}"#, "[".repeat(5_000), "]".repeat(5_000));
        let found = ObjectState::decode(&ObjectState::encode(&GroupResource::new("", "configmaps"), deep.as_bytes()));
        assert_eq!(found, Some(ObjectState::Whole(object_value(deep.as_bytes()))));
    }

    #[test]
    fn what_is_no_kept_object_is_none() {
        for odd in [&b""[..], b"{}", b"[]", b"{\"summary\":{}}", b"{\"object\":"] {
            assert_eq!(ObjectState::decode(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn summaries_are_the_same_only_where_nothing_differs() {
        let first = object("Secret", "u", 1, "1");
        let mut deleted = object("Secret", "u", 1, "1");
        deleted["metadata"]["deletionTimestamp"] = "2026-11-26T00:00:00Z".into();
        for (other, expected) in [
            (object("Secret", "u", 2, "1"), true),
            (object("Secret", "other", 1, "1"), true),
            (object("Secret", "u", 1, "2"), false),
            (deleted, false),
        ] {
            assert_eq!(Summary::of(first.clone()).is_as(&Summary::of(other.clone())), expected, "{other}");
            assert_eq!(field_differences(first.clone(), other.clone()).is_empty(), expected, "{other}");
        }
    }
}
