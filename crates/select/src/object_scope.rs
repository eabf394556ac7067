//! The scope of an action (velero: pkg/plugin/framework/action_resolver.go), or of an override of the policy for
//! existing resources: a set of objects.

use crate::{Globs, Selector, SelectorError, parse_selector};
use lifeboat_object::{Catalog, GroupResource};
use std::collections::{BTreeMap, BTreeSet};

/// A scope as it is stated. Empty lists do not restrict.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScopeText<'a> {
    /// Types by any name that discovery resolves; `*` for all.
    pub included_resources: &'a [String],
    /// Types to leave out.
    pub excluded_resources: &'a [String],
    /// Namespaces, with wildcards.
    pub included_namespaces: &'a [String],
    /// Namespaces to leave out.
    pub excluded_namespaces: &'a [String],
    /// A label selector in kubectl's syntax.
    pub label_selector: &'a str,
}

/// A scope, resolved against what a cluster serves.
#[derive(Clone, Debug)]
pub struct ObjectScope {
    every_type: bool,
    included: BTreeSet<GroupResource>,
    excluded: BTreeSet<GroupResource>,
    every_namespace: bool,
    namespaces: Globs,
    excluded_namespaces: Globs,
    selector: Selector,
}

impl ObjectScope {
    /// Resolves a scope. Types that the cluster does not serve are never met.
    ///
    /// # Errors
    /// When the label selector cannot be read.
    pub fn resolve(text: ScopeText<'_>, catalog: &Catalog) -> Result<Self, SelectorError> {
        let resolve = |names: &[String]| -> BTreeSet<GroupResource> {
            names.iter().filter_map(|name| catalog.resolve(name)).map(|found| found.group_resource()).collect()
        };
        let is_all = |names: &[String]| names.is_empty() || names.iter().any(|name| name == "*");
        Ok(Self {
            every_type: is_all(text.included_resources),
            included: resolve(text.included_resources),
            excluded: resolve(text.excluded_resources),
            every_namespace: text.excluded_namespaces.is_empty()
                && matches!(text.included_namespaces, [] | [_])
                && is_all(text.included_namespaces),
            namespaces: Globs::new(text.included_namespaces),
            excluded_namespaces: Globs::new(text.excluded_namespaces),
            selector: match text.label_selector {
                "" => Selector::default(),
                selector => Selector::compile(&parse_selector(selector)?)?,
            },
        })
    }

    /// Returns true if objects of this type are in the scope in any place.
    #[must_use]
    pub fn covers_type(&self, resource: &GroupResource) -> bool {
        (self.every_type || self.included.contains(resource)) && !self.excluded.contains(resource)
    }

    /// Returns true if objects of this type are in the scope here, whatever their labels. A scope that is limited to
    /// namespaces has no cluster-scoped objects.
    #[must_use]
    pub fn covers(&self, resource: &GroupResource, namespace: Option<&str>) -> bool {
        self.covers_type(resource)
            && match namespace {
                Some(namespace) => {
                    (self.namespaces.is_empty() || self.namespaces.matches(namespace))
                        && !self.excluded_namespaces.matches(namespace)
                }
                None => self.every_namespace,
            }
    }

    /// Returns true if an object with these labels is in the scope, when its type and place are.
    #[must_use]
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.selector.matches(labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list;
    use lifeboat_object::ApiResource;
    use std::sync::Arc;

    #[test]
    fn a_scope_is_of_types_and_places() {
        let catalog = Catalog::new(
            vec![
                Arc::new(ApiResource::new("", "v1", "pods", "Pod")),
                Arc::new(ApiResource::new("apps", "v1", "deployments", "Deployment")),
            ],
            Vec::new(),
        );
        let (pods, deployments) = (GroupResource::new("", "pods"), GroupResource::new("apps", "deployments"));
        // Types included and left out, namespaces included and left out; a pod in shop, one in other, a deployment in
        // shop, and a pod without namespace.
        for (types, namespaces, expected) in [
            ((&[][..], &[][..]), (&[][..], &[][..]), [true, true, true, true]),
            ((&["*"], &["pods"]), (&[], &[]), [false, false, true, false]),
            ((&["deployments.apps"], &[]), (&["*"], &[]), [false, false, true, false]),
            ((&["pods", "unheard"], &[]), (&["*"], &[]), [true, true, false, true]),
            ((&["pods"], &[]), (&["sh*"], &[]), [true, false, false, false]),
            ((&["pods"], &[]), (&["*", "shop"], &[]), [true, true, false, false]),
            ((&["pods"], &[]), (&[], &["oth*"]), [true, false, false, false]),
            ((&["unheard"], &[]), (&[], &[]), [false, false, false, false]),
        ] {
            let [included, excluded] = [types.0, types.1].map(list);
            let [included_namespaces, excluded_namespaces] = [namespaces.0, namespaces.1].map(list);
            let text = ScopeText {
                included_resources: &included,
                excluded_resources: &excluded,
                included_namespaces: &included_namespaces,
                excluded_namespaces: &excluded_namespaces,
                label_selector: "",
            };
            let scope = ObjectScope::resolve(text, &catalog).unwrap();
            let found = [(&pods, Some("shop")), (&pods, Some("other")), (&deployments, Some("shop")), (&pods, None)]
                .map(|(resource, namespace)| scope.covers(resource, namespace));
            assert_eq!(found, expected, "{types:?} {namespaces:?}");
        }
    }

    #[test]
    fn a_scope_has_a_selector() {
        let catalog = Catalog::new(Vec::new(), Vec::new());
        let text = ScopeText { label_selector: "tier in (a,b),!old", ..ScopeText::default() };
        let scope = ObjectScope::resolve(text, &catalog).unwrap();
        let labels = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        assert!(scope.selects(&labels(&[("tier", "a")])));
        assert!(!scope.selects(&labels(&[("tier", "a"), ("old", "")])));
        assert!(!scope.selects(&labels(&[])));
        let text = ScopeText { label_selector: "a in", ..text };
        assert!(ObjectScope::resolve(text, &catalog).is_err());
    }
}
