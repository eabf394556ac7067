//! Names of objects and the keys that they have among all types.

use lifeboat_api::NamespacedName;
use lifeboat_object::{GroupResource, ObjectKey};

/// The key of the claim of this name.
#[must_use]
pub fn claim_object_key(claim: &NamespacedName) -> ObjectKey {
    ObjectKey::new(GroupResource::new("", "persistentvolumeclaims"), Some(&claim.namespace), &claim.name)
}

/// The key of the pod of this name.
#[must_use]
pub fn pod_object_key(pod: &NamespacedName) -> ObjectKey {
    ObjectKey::new(GroupResource::new("", "pods"), Some(&pod.namespace), &pod.name)
}

/// The name of an object with its namespace; that is empty for an object of the cluster.
#[must_use]
pub fn name_of_object(key: &ObjectKey) -> NamespacedName {
    NamespacedName { namespace: key.namespace.clone().unwrap_or_default(), name: key.name.clone() }
}
