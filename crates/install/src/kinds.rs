//! The types of the objects that a removal deletes.

use lifeboat_api::{GROUP, Resource};
use lifeboat_object::ApiResource;

pub(crate) fn custom<T: Resource>() -> ApiResource {
    ApiResource::new(GROUP, T::VERSION, T::PLURAL, T::KIND)
}

pub(crate) fn deployments() -> ApiResource {
    ApiResource::new("apps", "v1", "deployments", "Deployment")
}

pub(crate) fn daemon_sets() -> ApiResource {
    ApiResource::new("apps", "v1", "daemonsets", "DaemonSet")
}

pub(crate) fn definitions() -> ApiResource {
    let kind = "CustomResourceDefinition";
    cluster_wide(ApiResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions", kind))
}

pub(crate) fn rbac(kind: &str) -> ApiResource {
    cluster_wide(ApiResource::new("rbac.authorization.k8s.io", "v1", format!("{}s", kind.to_lowercase()), kind))
}

fn cluster_wide(resource: ApiResource) -> ApiResource {
    ApiResource { namespaced: false, ..resource }
}
