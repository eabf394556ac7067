//! Choice of the policy for each object that exists already, from the policies of a restore. Pure.

use lifeboat_api::{ExistingResourcePolicy, RestoreSpec};
use lifeboat_object::{ApiResource, Catalog, GroupResource, is_built_in, labels};
use lifeboat_select::{ObjectScope, ScopeText, Selector, SelectorError, validate_lists};
use serde_json::Value;
use std::collections::BTreeSet;

/// Types whose objects are never deleted to be made anew: they hold others, or data.
const NEVER_RECREATED: [(&str, &str); 8] = [
    ("", "namespaces"),
    ("", "persistentvolumes"),
    ("", "persistentvolumeclaims"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("snapshot.storage.k8s.io", "volumesnapshots"),
    ("snapshot.storage.k8s.io", "volumesnapshotcontents"),
    ("groupsnapshot.storage.k8s.io", "volumegroupsnapshots"),
    ("groupsnapshot.storage.k8s.io", "volumegroupsnapshotcontents"),
];

/// The policies of a restore for objects that exist already, resolved against what a cluster serves.
#[derive(Clone, Debug)]
pub(crate) struct ExistingPolicies {
    overrides: Vec<Override>,
    otherwise: ExistingResourcePolicy,
    /// Types whose objects the user allows to be recreated, whatever is deleted with them.
    allowed: BTreeSet<GroupResource>,
}

#[derive(Clone, Debug)]
struct Override {
    scope: ObjectScope,
    selector: Selector,
    policy: ExistingResourcePolicy,
}

impl ExistingPolicies {
    /// Resolves the policies of a restore. Types that the cluster does not serve are never met.
    ///
    /// # Errors
    /// When a label selector cannot be read.
    pub(crate) fn new(spec: &RestoreSpec, catalog: &Catalog) -> Result<Self, SelectorError> {
        let mut overrides = Vec::new();
        for entry in &spec.existing_resource_policy_overrides {
            let scope = ScopeText {
                included_resources: &entry.included_resources,
                excluded_resources: &entry.excluded_resources,
                included_namespaces: &entry.included_namespaces,
                ..ScopeText::default()
            };
            let selector = entry.label_selector.as_ref().map(Selector::compile).transpose()?;
            overrides.push(Override {
                scope: ObjectScope::resolve(scope, catalog)?,
                selector: selector.unwrap_or_default(),
                policy: entry.policy.clone(),
            });
        }
        let allowed = spec.allow_recreate.iter().filter_map(|name| catalog.resolve(name));
        Ok(Self {
            overrides,
            otherwise: spec.existing_resource_policy.clone(),
            allowed: allowed.map(|resource| resource.group_resource()).collect(),
        })
    }

    /// Returns the errors in the policies of a restore.
    pub(crate) fn validate(spec: &RestoreSpec) -> Vec<String> {
        let mut problems = Vec::new();
        if let ExistingResourcePolicy::Other(word) = &spec.existing_resource_policy {
            problems.push(format!("Invalid ExistingResourcePolicy: {word}"));
        }
        for (number, entry) in spec.existing_resource_policy_overrides.iter().enumerate() {
            let mut problem =
                |text: String| problems.push(format!("existingResourcePolicyOverrides[{number}]: {text}"));
            match &entry.policy {
                ExistingResourcePolicy::Unset => problem("policy is required: none, update or recreate".to_owned()),
                ExistingResourcePolicy::Exact => {
                    problem("exact is a policy for all objects: it must be none, update or recreate".to_owned());
                }
                ExistingResourcePolicy::Other(word) => {
                    problem(format!("{word:?} is no policy: it must be none, update or recreate"));
                }
                _ => {}
            }
            validate_lists(&entry.included_resources, &entry.excluded_resources).into_iter().for_each(&mut problem);
            validate_lists(&entry.included_namespaces, &[]).into_iter().for_each(&mut problem);
            if let Some(Err(e)) = entry.label_selector.as_ref().map(Selector::compile) {
                problem(format!("invalid label selector: {e}"));
            }
        }
        for name in &spec.allow_recreate {
            if name == "*" || name.is_empty() {
                problems.push(format!("allowRecreate: {name:?} is no type: name each one"));
            } else if NEVER_RECREATED.iter().any(|(group, resource)| is_name_of(name, group, resource)) {
                problems.push(format!("allowRecreate: {name} are never deleted to be made anew"));
            }
        }
        problems
    }

    /// Names of types in the policies that neither the cluster nor the backup knows: nothing is ever done because of them.
    pub(crate) fn unknown(spec: &RestoreSpec, catalog: &Catalog, in_backup: &BTreeSet<&GroupResource>) -> Vec<String> {
        let overrides = spec.existing_resource_policy_overrides.iter();
        let names = overrides.flat_map(|entry| entry.included_resources.iter().chain(&entry.excluded_resources));
        let is_known = |name: &str| {
            name == "*"
                || catalog.resolve(name).is_some()
                || in_backup.iter().any(|known| is_name_of(name, &known.group, &known.resource))
        };
        let unknown: BTreeSet<&String> = names.chain(&spec.allow_recreate).filter(|name| !is_known(name)).collect();
        unknown.into_iter().cloned().collect()
    }

    /// Returns the policy for an object that exists already, chosen by its state in the backup.
    pub(crate) fn of(&self, resource: &GroupResource, from_backup: &Value) -> &ExistingResourcePolicy {
        let namespace = from_backup["metadata"]["namespace"].as_str();
        let fits = |one: &&Override| {
            one.scope.covers(resource, namespace)
                && (one.selector.is_everything() || one.selector.matches(&labels(from_backup)))
        };
        self.overrides.iter().find(fits).map_or(&self.otherwise, |one| &one.policy)
    }

    /// Returns the reason why this object of the cluster must not be deleted and made anew; `None` when it may.
    pub(crate) fn refusal(&self, resource: &ApiResource, in_cluster: &Value) -> Option<String> {
        let of = resource.group_resource();
        if is_never_removed(&of) {
            return Some(format!("{of} are never deleted to be made anew"));
        }
        if self.allowed.contains(&of) {
            return None;
        }
        let finalizers: Vec<&str> =
            in_cluster["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let why = if !is_built_in(&of.group) {
            "it is a custom resource, and what its controller does when it is deleted is not known".to_owned()
        } else if !finalizers.is_empty() {
            format!("it has the finalizer {}, and what goes with it is not known", finalizers.join(", "))
        } else if deletes_its_claims(&of, in_cluster) {
            "it would delete its claims, by its persistentVolumeClaimRetentionPolicy".to_owned()
        } else {
            return None;
        };
        Some(format!("{why}; allowRecreate: [{of}] (--allow-recreate) lets it be deleted all the same"))
    }
}

/// Returns true if objects of a type are never removed, neither to make them anew nor because the backup lacks them.
pub(crate) fn is_never_removed(resource: &GroupResource) -> bool {
    NEVER_RECREATED.contains(&(&*resource.group, &*resource.resource))
}

fn is_name_of(name: &str, group: &str, resource: &str) -> bool {
    let name = name.to_lowercase();
    name == resource || name.strip_prefix(resource).and_then(|rest| rest.strip_prefix('.')) == Some(group)
}

fn deletes_its_claims(resource: &GroupResource, in_cluster: &Value) -> bool {
    resource.group == "apps"
        && resource.resource == "statefulsets"
        && in_cluster["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Delete"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;

    fn resource(group: &str, resource: &str, kind: &str) -> ApiResource {
        ApiResource::new(group, "v1", resource, kind)
    }

    fn catalog() -> Catalog {
        let types = [
            resource("", "secrets", "Secret"),
            resource("", "namespaces", "Namespace"),
            resource("apps", "statefulsets", "StatefulSet"),
            resource("example.com", "widgets", "Widget"),
        ];
        Catalog::new(types.into_iter().map(Arc::new).collect(), Vec::new())
    }

    fn spec(spec: Value) -> RestoreSpec {
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn the_first_override_that_matches_an_object_counts() {
        let spec = spec(json!({"existingResourcePolicy": "update", "existingResourcePolicyOverrides": [
            {"policy": "none", "includedResources": ["secrets"], "labelSelector": {"matchLabels": {"kept": "yes"}}},
            {"policy": "recreate", "includedResources": ["secret", "widgets.example.com"], "includedNamespaces": ["shop-*"]},
            {"policy": "none", "excludedResources": ["statefulsets"], "includedNamespaces": ["*"]},
        ]}));
        let policies = ExistingPolicies::new(&spec, &catalog()).unwrap();
        for (group, resource, namespace, labels, expected) in [
            ("", "secrets", Some("shop-1"), json!({"kept": "yes"}), "none"),
            ("", "secrets", Some("shop-1"), json!({"kept": "no"}), "recreate"),
            ("", "secrets", Some("other"), json!(null), "none"),
            ("example.com", "widgets", Some("shop-2"), json!({}), "recreate"),
            ("example.com", "widgets", None, json!({}), "none"),
            ("apps", "statefulsets", Some("shop-1"), json!({}), "update"),
            ("", "namespaces", None, json!({}), "none"),
        ] {
            let object = json!({"metadata": {"namespace": namespace, "labels": labels}});
            let policy = policies.of(&GroupResource::new(group, resource), &object);
            assert_eq!(String::from(policy.clone()), expected, "{resource} {object}");
        }
    }

    #[test]
    fn what_would_take_more_with_it_is_made_anew_only_when_that_is_allowed() {
        let object = |finalizers: Value, when: &str| json!({"metadata": {"finalizers": finalizers}, "spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": when}}});
        let bare = object(json!([]), "Retain");
        let refused = |allowed: &[&str], group: &str, name: &str, object: &Value| {
            let spec = spec(json!({"allowRecreate": allowed}));
            ExistingPolicies::new(&spec, &catalog()).unwrap().refusal(&resource(group, name, "X"), object)
        };
        for (group, name) in NEVER_RECREATED {
            let of = GroupResource::new(group, name);
            let all = ["namespaces", "statefulsets", "secrets"];
            assert_eq!(refused(&all, group, name, &bare), Some(format!("{of} are never deleted to be made anew")));
        }
        let advice = |of: &str| format!("allowRecreate: [{of}] (--allow-recreate) lets it be deleted all the same");
        for (group, name, object, why) in [
            ("", "secrets", bare.clone(), None),
            ("apps", "statefulsets", bare.clone(), None),
            ("storage.k8s.io", "storageclasses", bare.clone(), None),
            (
                "example.com",
                "widgets",
                bare,
                Some("it is a custom resource, and what its controller does when it is deleted is not known; "),
            ),
            (
                "",
                "secrets",
                object(json!(["a", "b"]), ""),
                Some("it has the finalizer a, b, and what goes with it is not known; "),
            ),
            (
                "apps",
                "statefulsets",
                object(Value::Null, "Delete"),
                Some("it would delete its claims, by its persistentVolumeClaimRetentionPolicy; "),
            ),
        ] {
            let of = GroupResource::new(group, name).to_string();
            assert_eq!(refused(&[], group, name, &object), why.map(|why| format!("{why}{}", advice(&of))), "{of}");
            assert_eq!(refused(&["secrets", "statefulsets", "widgets", "x"], group, name, &object), None, "{of}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_at_once() {
        let spec = spec(json!({
            "existingResourcePolicy": "replace",
            "existingResourcePolicyOverrides": [
                {"policy": ""},
                {"policy": "exact", "includedResources": ["*", "pods"]},
                {"policy": "none", "excludedResources": ["*"], "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            ],
            "allowRecreate": ["*", "PersistentVolumes", "volumesnapshots.snapshot.storage.k8s.io", "widgets"],
        }));
        assert_eq!(
            ExistingPolicies::validate(&spec),
            [
                "Invalid ExistingResourcePolicy: replace",
                "existingResourcePolicyOverrides[0]: policy is required: none, update or recreate",
                "existingResourcePolicyOverrides[1]: exact is a policy for all objects: it must be none, update or recreate",
                "existingResourcePolicyOverrides[1]: includes list must either contain '*' only, or a non-empty list of items",
                "existingResourcePolicyOverrides[2]: excludes list cannot contain '*'",
                "existingResourcePolicyOverrides[2]: invalid label selector: \"Near\" is not a valid label selector operator",
                "allowRecreate: \"*\" is no type: name each one",
                "allowRecreate: PersistentVolumes are never deleted to be made anew",
                "allowRecreate: volumesnapshots.snapshot.storage.k8s.io are never deleted to be made anew",
            ]
        );
        let gadgets = GroupResource::new("new.example.com", "gadgets");
        let in_backup = BTreeSet::from([&gadgets]);
        let spec = self::spec(json!({
            "existingResourcePolicyOverrides": [{"policy": "none", "includedResources": ["secrets", "screts", "*"]}],
            "allowRecreate": ["gadgets.new.example.com", "gadgets", "ws"],
        }));
        assert_eq!(ExistingPolicies::unknown(&spec, &catalog(), &in_backup), ["screts", "ws"]);
    }
}
