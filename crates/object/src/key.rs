//! Which object.

use crate::GroupResource;
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
