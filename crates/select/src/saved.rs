//! The types of a cluster that a backup can save at all, before any filter.

use lifeboat_object::ApiResource;

/// The verbs that a type must have: an object that cannot be created again is no use in a backup.
const VERBS: [&str; 4] = ["list", "create", "get", "delete"];

/// Types that two groups serve; only the first one met is saved (velero: pkg/backup/item_collector.go).
const COHABITING: [(&str, [&str; 2]); 5] = [
    ("deployments", ["extensions", "apps"]),
    ("daemonsets", ["extensions", "apps"]),
    ("replicasets", ["extensions", "apps"]),
    ("networkpolicies", ["extensions", "networking.k8s.io"]),
    ("events", ["", "events.k8s.io"]),
];

/// Returns true if the API server lists, gets, creates and deletes objects of this type.
#[must_use]
pub fn can_be_saved(resource: &ApiResource) -> bool {
    VERBS.iter().all(|verb| resource.can(verb))
}

/// The name that both types have, when two groups serve the same objects and this type is one of the two.
#[must_use]
pub fn cohabiting_name(resource: &ApiResource) -> Option<&'static str> {
    let is_it = |(name, groups): &&(&'static str, [&str; 2])| {
        *name == resource.resource && groups.contains(&resource.group.as_str())
    };
    COHABITING.iter().find(is_it).map(|(name, _)| *name)
}
