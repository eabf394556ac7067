//! The types that mean something to the server itself: namespaces and CustomResourceDefinitions.

use lifeboat_object::{GroupResource, ObjectKey};

/// The key of a namespace.
pub(crate) fn namespace_key(name: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::new("", "namespaces"), None, name)
}

/// Whether the object of this key is a namespace.
pub(crate) fn is_namespace(key: &ObjectKey) -> bool {
    key.resource.group.is_empty() && key.resource.resource == "namespaces"
}

/// Whether the object of this key is a CustomResourceDefinition.
pub(crate) fn is_definition(key: &ObjectKey) -> bool {
    key.resource.group == "apiextensions.k8s.io" && key.resource.resource == "customresourcedefinitions"
}
