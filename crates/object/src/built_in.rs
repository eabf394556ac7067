//! The API groups that are built into Kubernetes. Pure.

/// The groups of Kubernetes itself, beside the one without a name. Many that end in `.k8s.io` are none of them: the Gateway API and
/// volume snapshots, for instance, are custom resources.
const BUILT_IN_GROUPS: [&str; 22] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "extensions",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];

/// Returns true if the types of a group are built into Kubernetes. Of other groups it is not known what their
/// controllers do, nor how their lists are merged.
#[must_use]
pub fn is_built_in(group: &str) -> bool {
    group.is_empty() || BUILT_IN_GROUPS.contains(&group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_built_in_by_its_whole_name() {
        for (group, expected) in [
            ("", true),
            ("apps", true),
            ("networking.k8s.io", true),
            ("gateway.networking.k8s.io", false),
            ("snapshot.storage.k8s.io", false),
            ("example.com", false),
        ] {
            assert_eq!(is_built_in(group), expected, "{group}");
        }
    }
}
