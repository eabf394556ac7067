//! All API resources of a cluster, as one fresh discovery found them.

use crate::words::named;
use crate::{ApiResource, GroupResource};
use std::sync::Arc;

/// The API resources of a cluster in the order of its discovery: groups as the server lists them with the removed
/// group `extensions` last, inside a group the preferred version first.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    resources: Vec<Arc<ApiResource>>,
    /// Group-versions that could not be discovered, and why; nothing is known of their types.
    pub failures: Vec<DiscoveryFailure>,
}

/// A group-version that could not be discovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryFailure {
    /// `group/version`.
    pub group_version: String,
    /// The reason of the failure.
    pub message: String,
}

impl Catalog {
    /// A catalog of these resources, in this order.
    #[must_use]
    pub fn new(resources: Vec<Arc<ApiResource>>, failures: Vec<DiscoveryFailure>) -> Self {
        Self { resources, failures }
    }

    /// Every version of every resource.
    pub fn all(&self) -> impl Iterator<Item = &Arc<ApiResource>> {
        self.resources.iter()
    }

    /// The preferred version of every resource.
    pub fn preferred(&self) -> impl Iterator<Item = &Arc<ApiResource>> {
        self.resources.iter().filter(|r| r.preferred)
    }

    /// The preferred version of a group-resource.
    #[must_use]
    pub fn find(&self, resource: &GroupResource) -> Option<&Arc<ApiResource>> {
        self.preferred().find(|r| r.resource == resource.resource && r.group == resource.group)
    }

    /// The given version of a group-resource.
    #[must_use]
    pub fn find_version(&self, resource: &GroupResource, version: &str) -> Option<&Arc<ApiResource>> {
        self.resources
            .iter()
            .find(|r| r.version == version && r.resource == resource.resource && r.group == resource.group)
    }

    /// The resource that serves objects of this `apiVersion` and `kind`.
    #[must_use]
    pub fn find_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<ApiResource>> {
        self.resources.iter().find(|r| r.kind == kind && r.api_version() == api_version)
    }

    /// Resolves what a person wrote in a filter, as Velero does: `resource` or `resource.group`, where the resource is
    /// a plural, singular or short name and the group may be cut (`deploy.apps`, `widgets.example`), case ignored.
    /// An exact plural wins over other names; among equals the order of discovery decides. Unlike
    /// [`types_named`](crate::types_named) it takes no version, which no filter of Velero has.
    #[must_use]
    pub fn resolve(&self, text: &str) -> Option<&Arc<ApiResource>> {
        let text = text.to_lowercase();
        let (name, group) = text.split_once('.').unwrap_or((&text, ""));
        named(name, group, &self.preferred().collect()).into_iter().next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(group: &str, resource: &str, kind: &str, short: &[&str]) -> Arc<ApiResource> {
        Arc::new(ApiResource {
            short_names: short.iter().map(|s| (*s).to_owned()).collect(),
            ..ApiResource::new(group, "v1", resource, kind)
        })
    }

    #[test]
    fn resolves_what_people_write() {
        let catalog = Catalog::new(
            vec![
                resource("", "pods", "Pod", &["po"]),
                resource("", "events", "Event", &["ev"]),
                resource("apps", "deployments", "Deployment", &["deploy"]),
                resource("events.k8s.io", "events", "Event", &["ev"]),
                resource("example.com", "widgets", "Widget", &["wd"]),
            ],
            vec![],
        );
        for (text, expected) in [
            ("pods", Some("pods")),
            ("Pod", Some("pods")),
            ("po", Some("pods")),
            ("deploy", Some("deployments.apps")),
            ("deployments.apps", Some("deployments.apps")),
            ("Deployment.apps", Some("deployments.apps")),
            ("events", Some("events")),
            ("events.events.k8s.io", Some("events.events.k8s.io")),
            ("ev.events", Some("events.events.k8s.io")),
            ("wd.example", Some("widgets.example.com")),
            ("widgets.other.com", None),
            ("*.example.com", None),
            ("", None),
        ] {
            assert_eq!(catalog.resolve(text).map(|r| r.group_resource().to_string()).as_deref(), expected, "{text}");
        }
    }
}
