//! The names in `orderedResources`.

use lifeboat_object::{ApiResource, ObjectKey};

/// The object that a name in `orderedResources` stands for: `namespace/name`, or `name`.
pub(crate) fn ordered_key(resource: &ApiResource, name: &str) -> ObjectKey {
    let (namespace, name) = match name.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, name),
    };
    ObjectKey::new(resource.group_resource(), namespace, name)
}
