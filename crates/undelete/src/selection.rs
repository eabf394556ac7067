//! Selection of objects of a backup by their names, as filters of a restore. Pure.

use anyhow::{Result, bail};
use lifeboat_api::{ExistingResourcePolicy, ExistingResourcePolicyOverride, LabelSelector};
use lifeboat_api::{LabelSelectorRequirement, RestoreSpec};
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_select::RulesText;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Objects of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selection {
    /// Objects that the user wants.
    wanted: BTreeSet<ObjectKey>,
    /// Objects that others need, and that come along.
    along: BTreeSet<ObjectKey>,
}

/// Names by type.
type NamesByType<'a> = BTreeMap<&'a GroupResource, Vec<String>>;

impl Selection {
    pub(super) fn of(wanted: BTreeSet<ObjectKey>) -> Self {
        Self { wanted, along: BTreeSet::new() }
    }

    /// Adds objects that others need; false when it has them all.
    pub(super) fn add<'a>(&mut self, needed: impl IntoIterator<Item = &'a ObjectKey>) -> bool {
        let before = self.along.len();
        self.along.extend(needed.into_iter().filter(|key| !self.wanted.contains(key)).cloned());
        self.along.len() > before
    }

    /// Number of objects that the user wants.
    pub(super) fn count(&self) -> usize {
        self.wanted.len()
    }

    /// Returns true if the user wants this one.
    pub(super) fn wants(&self, key: &ObjectKey) -> bool {
        self.wanted.contains(key)
    }

    /// Returns true if this one is needed by others.
    pub(super) fn comes_along(&self, key: &ObjectKey) -> bool {
        self.along.contains(key)
    }

    /// Returns true if this one is needed by others and treated like the objects that the user wants, because it is of
    /// the type of one of them: a policy knows types, and no names.
    pub(super) fn is_treated_as_wanted(&self, key: &ObjectKey) -> bool {
        self.comes_along(key) && self.wanted.iter().any(|wanted| wanted.resource == key.resource)
    }

    /// Limits a restore to these objects, together with [`Selection::policies`]. Wanted objects that exist are treated
    /// by `policy`, and additional ones stay as they are, unless [`Selection::is_treated_as_wanted`].
    pub(super) fn apply(&self, policy: &ExistingResourcePolicy, spec: &mut RestoreSpec) {
        spec.included_namespaces = vec!["*".to_owned()];
        // No object has labels that fit. The filters of the policies come before it, for the objects that they are about.
        let requirement = |operator: &str| LabelSelectorRequirement {
            key: "lifeboat.io/none".to_owned(),
            operator: operator.to_owned(),
            ..LabelSelectorRequirement::default()
        };
        let match_expressions = vec![requirement("Exists"), requirement("DoesNotExist")];
        spec.label_selector = Some(LabelSelector { match_expressions, ..LabelSelector::default() });
        spec.existing_resource_policy = ExistingResourcePolicy::None;
        if *policy != ExistingResourcePolicy::None {
            let types: BTreeSet<String> = self.wanted.iter().map(|key| key.resource.to_string()).collect();
            spec.existing_resource_policy_overrides = vec![ExistingResourcePolicyOverride {
                policy: policy.clone(),
                included_resources: types.into_iter().collect(),
                ..ExistingResourcePolicyOverride::default()
            }];
        }
    }

    /// The filter policies that let these objects in and no others of their namespaces and types.
    ///
    /// # Errors
    /// When there are more than a document of policies holds.
    pub(super) fn policies(&self) -> Result<RulesText> {
        let mut places: BTreeMap<Option<&str>, NamesByType<'_>> = BTreeMap::new();
        for key in self.wanted.iter().chain(&self.along) {
            let names = places.entry(key.namespace.as_deref()).or_default();
            names.entry(&key.resource).or_default().push(only(&key.name));
        }
        let filters = |names: &NamesByType<'_>| -> Value {
            names.iter().map(|(resource, names)| json!({"kinds": [resource.to_string()], "names": names})).collect()
        };
        let mut document = json!({"version": "v1"});
        if let Some(names) = places.remove(&None) {
            document["clusterScopedFilterPolicy"] = json!({"resourceFilters": filters(&names)});
        }
        let policy = |(namespace, names): (&Option<&str>, &NamesByType<'_>)| -> Value {
            json!({"namespaces": [namespace], "resourceFilters": filters(names)})
        };
        if !places.is_empty() {
            document["namespacedFilterPolicies"] = places.iter().map(policy).collect();
        }
        let text = document.to_string();
        if text.len() > RulesText::MOST_BYTES {
            bail!(
                "these are {} objects, more than can be chosen one by one: restore their namespaces instead",
                self.wanted.len() + self.along.len()
            );
        }
        Ok(RulesText { source: "the choice of objects".to_owned(), text })
    }
}

/// The glob that this name alone matches.
fn only(name: &str) -> String {
    let mut glob = String::with_capacity(name.len());
    for c in name.chars() {
        if "*?[]{}\\".contains(c) {
            glob.push('\\');
        }
        glob.push(c);
    }
    glob
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::{ApiResource, Catalog};
    use lifeboat_select::{PolicyUse, ResourcePolicies, RestoreFilter, RestoredFacts};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn key(resource: &str, namespace: Option<&str>, name: &str) -> ObjectKey {
        ObjectKey::new(resource.parse().unwrap(), namespace, name)
    }

    fn catalog() -> Catalog {
        let scoped = |group: &str, resource: &str, kind: &str, namespaced: bool| {
            Arc::new(ApiResource { namespaced, ..ApiResource::new(group, "v1", resource, kind) })
        };
        let types = vec![
            scoped("", "configmaps", "ConfigMap", true),
            scoped("", "secrets", "Secret", true),
            scoped("", "namespaces", "Namespace", false),
            scoped("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", false),
            scoped("storage.k8s.io", "storageclasses", "StorageClass", false),
        ];
        Catalog::new(types, vec![])
    }

    /// Returns true if a restore of this selection takes an object.
    fn takes(selection: &Selection, object: &ObjectKey) -> bool {
        let mut spec = RestoreSpec::default();
        selection.apply(&ExistingResourcePolicy::Update, &mut spec);
        assert_eq!(RestoreFilter::validate(&spec), [""; 0]);
        let policies = ResourcePolicies::parse(&selection.policies().unwrap().text, PolicyUse::Restore).unwrap();
        let known = ["shop", "other"].map(str::to_owned).into();
        let filter = RestoreFilter::new(&spec, Some(&policies), &catalog(), &known).unwrap();
        assert_eq!(filter.warnings().iter().filter(|text| !text.contains("serves no kind")).count(), 0);
        let is_namespace = object.resource.is_namespaces();
        let namespace = if is_namespace { Some(object.name.as_str()) } else { object.namespace.as_deref() };
        let (labels, kind) = (BTreeMap::new(), None);
        let (resource, name) = (&object.resource, &*object.name);
        filter.includes_item(RestoredFacts { resource, kind, namespace, name, labels: Some(&labels) }).is_ok()
    }

    #[test]
    fn the_objects_are_taken_and_no_others() {
        let roles = "clusterroles.rbac.authorization.k8s.io";
        let all = [
            key("configmaps", Some("shop"), "a"),
            key("configmaps", Some("shop"), "b"),
            key("configmaps", Some("other"), "a"),
            key("secrets", Some("shop"), "a"),
            key("namespaces", None, "shop"),
            key("namespaces", None, "other"),
            key(roles, None, "a"),
            key(roles, None, "b"),
            key("storageclasses.storage.k8s.io", None, "a"),
            // The cluster does not serve it, or not yet.
            key("widgets.example.com", Some("shop"), "a"),
            key("widgets.example.com", Some("shop"), "b"),
        ];
        for chosen in [&all[..1], &all[2..4], &all[4..5], &all[6..7], &all[3..7], &all[8..10]] {
            let selection = Selection::of(chosen.iter().cloned().collect());
            let taken: Vec<&ObjectKey> = all.iter().filter(|object| takes(&selection, object)).collect();
            assert_eq!(taken, chosen.iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_comes_along_stays_as_it_is() {
        let claim = key("persistentvolumeclaims", Some("shop"), "data");
        let mut selection = Selection::of([key("pods", Some("shop"), "web")].into());
        assert!(selection.add([&claim, &key("pods", Some("shop"), "web")]) && !selection.add([&claim]));
        assert!(selection.comes_along(&claim) && !selection.wants(&claim) && !selection.is_treated_as_wanted(&claim));
        let mut spec = RestoreSpec::default();
        selection.apply(&ExistingResourcePolicy::Update, &mut spec);
        assert_eq!(spec.existing_resource_policy, ExistingResourcePolicy::None);
        let of: Vec<_> = spec.existing_resource_policy_overrides.iter().map(|one| &one.included_resources).collect();
        assert_eq!(of, [&["pods"]]);
        assert!(takes(&selection, &claim));
    }

    #[test]
    fn what_comes_along_is_treated_as_what_is_wanted_of_its_type() {
        let claim = |name: &str| key("persistentvolumeclaims", Some("shop"), name);
        let mut selection = Selection::of([key("pods", Some("shop"), "web"), claim("owned")].into());
        selection.add([&claim("data")]);
        let treated = |name: &str| selection.is_treated_as_wanted(&claim(name));
        assert!(treated("data") && !treated("owned") && !treated("other"));
    }

    #[test]
    fn more_than_a_document_holds_are_refused() {
        let many = (0..5_000).map(|n| key("configmaps", Some("shop"), &format!("{n:0>250}")));
        let told = Selection::of(many.collect()).policies().unwrap_err().to_string();
        assert_eq!(
            told,
            "these are 5000 objects, more than can be chosen one by one: restore their namespaces instead"
        );
    }

    proptest! {
        #[test]
        fn a_name_is_no_glob(name in "[a-c*?\\[\\]{}\\\\!,:-]{1,6}", other in "[a-c*:,]{1,6}") {
            let role = |name: &str| key("clusterroles.rbac.authorization.k8s.io", None, name);
            let selection = Selection::of([role(&name)].into());
            prop_assert!(takes(&selection, &role(&name)));
            prop_assert_eq!(takes(&selection, &role(&other)), name == other);
        }
    }
}
