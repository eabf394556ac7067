//! The few types the actions ask for by themselves: always served, so that discovery is not needed to read them.

use lifeboat_object::{ApiResource, GroupResource, ObjectKey};
use std::sync::Arc;

pub(super) fn config_maps() -> Arc<ApiResource> {
    resource("", "configmaps", "ConfigMap", true)
}

pub(super) fn service_accounts() -> Arc<ApiResource> {
    resource("", "serviceaccounts", "ServiceAccount", true)
}

pub(super) fn storage_classes() -> Arc<ApiResource> {
    resource("storage.k8s.io", "storageclasses", "StorageClass", false)
}

fn resource(group: &str, resource: &str, kind: &str, namespaced: bool) -> Arc<ApiResource> {
    let verbs = vec!["get".to_owned(), "list".to_owned()];
    Arc::new(ApiResource { namespaced, verbs, ..ApiResource::new(group, "v1", resource, kind) })
}

/// The key of a persistent volume claim.
pub(crate) fn claim(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::new("", "persistentvolumeclaims"), Some(namespace), name)
}

/// The key of a pod.
pub(crate) fn pod(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::new("", "pods"), Some(namespace), name)
}

/// The key of a persistent volume.
pub(crate) fn volume(name: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::new("", "persistentvolumes"), None, name)
}

pub(super) fn priority_class(name: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::new("scheduling.k8s.io", "priorityclasses"), None, name)
}
