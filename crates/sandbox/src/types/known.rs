//! Types and verbs that the server treats specially: namespaces, CustomResourceDefinitions, access reviews, and verbs
//! that only read.

use lifeboat_object::{ApiResource, GroupResource, ObjectKey};

/// The verbs that change nothing.
pub(crate) const READING: [&str; 3] = ["get", "list", "watch"];

/// The key of a namespace.
pub(crate) fn namespace_key(name: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::namespaces(), None, name)
}

/// Returns true if this is the key of a namespace.
pub(crate) fn is_namespace(key: &ObjectKey) -> bool {
    key.resource.is_namespaces()
}

/// The key of the CustomResourceDefinition of a type.
pub(crate) fn definition_key(resource: &str, group: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::definitions(), None, format!("{resource}.{group}"))
}

/// Returns true if this is the key of a CustomResourceDefinition.
pub(crate) fn is_definition(key: &ObjectKey) -> bool {
    key.resource == GroupResource::definitions()
}

/// Returns true for types of reviews, whose objects are answered and not stored.
pub(crate) fn is_review(resource: &ApiResource) -> bool {
    matches!(
        (resource.group.as_str(), resource.resource.as_str()),
        ("authorization.k8s.io", _) | ("authentication.k8s.io", "selfsubjectreviews")
    )
}
