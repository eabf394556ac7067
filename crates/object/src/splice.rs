//! Puts `apiVersion` and `kind` into the bytes of an object that came without them.

use crate::Item;
use bytes::Bytes;

/// The JSON of an object in two pieces, so that putting something in front copies nothing.
#[derive(Clone, Debug)]
pub struct Spliced {
    front: Bytes,
    rest: Bytes,
}

impl Spliced {
    /// The pieces, one after the other.
    #[must_use]
    pub fn pieces(&self) -> [&[u8]; 2] {
        [&self.front, &self.rest]
    }

    /// Bytes of both.
    #[must_use]
    pub fn len(&self) -> usize {
        self.front.len() + self.rest.len()
    }

    /// Returns true if there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// In one piece.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        if self.front.is_empty() { self.rest.clone() } else { self.pieces().concat().into() }
    }
}

impl From<Bytes> for Spliced {
    fn from(rest: Bytes) -> Self {
        Self { front: Bytes::new(), rest }
    }
}

/// The bytes of the object with `apiVersion` and `kind` present.
///
/// Elements of a typed list carry neither; they are spliced in at the front from the type the object was listed
/// under. Bytes that have both are returned as they are. Nothing else is changed.
#[must_use]
pub fn splice_type(item: &Item) -> Spliced {
    let has_version = item.head.api_version.as_deref().is_some_and(|v| !v.is_empty());
    let has_kind = item.head.kind.as_deref().is_some_and(|k| !k.is_empty());
    if has_version && has_kind {
        return item.body.clone().into();
    }
    let Some(open) = item.body.iter().position(|b| *b == b'{') else { return item.body.clone().into() };
    // A key that is present but empty would come twice, and readers keep the last one: drop to the slow way.
    if item.head.api_version.is_some() || item.head.kind.is_some() {
        return rebuild(item).into();
    }
    // An object with a head has at least `metadata`, so a comma always follows.
    let front = format!(r#"{{"apiVersion":"{}","kind":"{}","#, item.resource.api_version(), item.resource.kind);
    Spliced { front: front.into(), rest: item.body.slice(open + 1..) }
}

fn rebuild(item: &Item) -> Bytes {
    let Ok(mut value) = serde_json::from_slice::<serde_json::Value>(&item.body) else { return item.body.clone() };
    value["apiVersion"] = item.resource.api_version().into();
    value["kind"] = item.resource.kind.clone().into();
    value.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApiResource;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn item(body: &'static str) -> Item {
        let resource = ApiResource::new("apps", "v1", "deployments", "Deployment");
        Item::parse(Arc::new(resource), Bytes::from_static(body.as_bytes())).unwrap()
    }

    #[test]
    fn completes_the_type_whatever_is_missing() {
        let whole = json!({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"x":1}});
        for body in [
            r#"{"metadata":{"name":"a"},"spec":{"x":1}}"#,
            r#"  {"metadata":{"name":"a"},"spec":{"x":1}}"#,
            r#"{"kind":"","apiVersion":"","metadata":{"name":"a"},"spec":{"x":1}}"#,
            r#"{"kind":"Deployment","metadata":{"name":"a"},"spec":{"x":1}}"#,
            r#"{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"a"},"spec":{"x":1}}"#,
        ] {
            assert_eq!(serde_json::from_slice::<Value>(&splice_type(&item(body)).to_bytes()).unwrap(), whole, "{body}");
        }
    }
}
