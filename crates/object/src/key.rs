//! Names an object.

use crate::GroupResource;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt;

/// Names one object in a cluster or an archive, version left out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Its type.
    pub resource: GroupResource,
    /// Its namespace; `None` for cluster-scoped objects.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl ObjectKey {
    /// A key from its parts.
    pub fn new(resource: GroupResource, namespace: Option<&str>, name: impl Into<String>) -> Self {
        Self { resource, namespace: namespace.map(str::to_owned), name: name.into() }
    }

    /// The object as all our JSON names it: `type`, `name`, and `namespace` where it is in one.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut out = json!({"type": self.resource.to_string(), "name": self.name});
        if let Some(namespace) = &self.namespace {
            out["namespace"] = namespace.as_str().into();
        }
        out
    }

    /// 16 bytes that stand for the key in large sets: the first half of a SHA-256, so that no two keys of a cluster or
    /// of a hostile archive share one.
    #[must_use]
    pub fn digest(&self) -> [u8; 16] {
        digest(&self.resource.group, &self.resource.resource, self.namespace.as_deref(), &self.name)
    }
}

/// [`ObjectKey::digest`], from parts.
pub(crate) fn digest(group: &str, resource: &str, namespace: Option<&str>, name: &str) -> [u8; 16] {
    let mut hasher = Sha256::new();
    for part in [group, resource, namespace.unwrap_or(""), name] {
        hasher.update(part.as_bytes());
        // No part holds a zero byte.
        hasher.update([0]);
    }
    let mut out = [0; 16];
    out.copy_from_slice(&hasher.finalize()[..16]);
    out
}

/// `deployments.apps/shop/web`, or `nodes/n1` for cluster-scoped objects: how Velero names items in messages.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{}/{}/{}", self.resource, namespace, self.name),
            None => write!(f, "{}/{}", self.resource, self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_named_where_there_is_one() {
        let deployment = ObjectKey::new(GroupResource::new("apps", "deployments"), Some("shop"), "web");
        assert_eq!(deployment.to_json(), json!({"type": "deployments.apps", "namespace": "shop", "name": "web"}));
        let node = ObjectKey::new(GroupResource::new("", "nodes"), None, "n1");
        assert_eq!(node.to_json(), json!({"type": "nodes", "name": "n1"}));
    }
}
