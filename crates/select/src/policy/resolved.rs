//! The filters of objects, resolved against the types of a cluster (velero: internal/resourcepolicies,
//! pkg/restore/restore.go).

use super::filter::{ClusterFilters, KindFilter, NamespaceFilters};
use crate::glob::Globs;
use crate::selector::{Selector, SelectorError, matches_any};
use lifeboat_object::{ApiResource, Catalog, GroupResource};
use std::collections::BTreeMap;

/// The filters of objects of a document of policies; empty where there is none.
#[derive(Clone, Debug, Default)]
pub(crate) struct FilterPolicies {
    cluster: Entries,
    namespaced: Vec<NamespacePolicy>,
    warnings: Vec<String>,
}

/// A filter for the objects of a type.
#[derive(Clone, Debug)]
pub(crate) struct ObjectFilter {
    /// Selectors of which an object must match at least one; empty for all.
    pub(crate) selectors: Vec<Selector>,
    names: Globs,
    excluded_names: Globs,
}

#[derive(Clone, Debug, Default)]
struct Entries {
    types: BTreeMap<GroupResource, ObjectFilter>,
    /// Filters for kinds that the cluster does not know, in lower case.
    unknown: BTreeMap<String, ObjectFilter>,
    /// The filter for all types that no other one is for.
    others: Option<ObjectFilter>,
}

#[derive(Clone, Debug)]
struct NamespacePolicy {
    names: Vec<String>,
    globs: Globs,
    entries: Entries,
}

/// A type, as it is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskedType<'a> {
    pub(crate) resource: &'a GroupResource,
    /// Its kind, where that is known: a kind that the cluster does not serve is found by it.
    pub(crate) kind: Option<&'a str>,
}

impl<'a> AskedType<'a> {
    /// The question about a type that the cluster serves; `id` is its group and resource.
    pub(crate) fn of(resource: &'a ApiResource, id: &'a GroupResource) -> Self {
        Self { resource: id, kind: Some(&resource.kind) }
    }
}

impl ObjectFilter {
    fn of(filter: &KindFilter) -> Self {
        Self {
            selectors: filter.selectors.clone(),
            names: Globs::new(&filter.names),
            excluded_names: Globs::new(&filter.excluded_names),
        }
    }

    /// Returns true if the filter selects objects of this name; exclusion wins.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        (self.names.is_empty() || self.names.matches(name)) && !self.excluded_names.matches(name)
    }

    /// Returns true if the filter selects objects with these labels.
    pub(crate) fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        matches_any(&self.selectors, labels)
    }
}

impl Entries {
    fn resolve(filters: &[KindFilter], scope: Scope<'_>, told: &mut Vec<String>) -> Result<Self, SelectorError> {
        let mut out = Self::default();
        for filter in filters {
            if filter.kinds.is_empty() {
                out.others = Some(ObjectFilter::of(filter));
            }
            for kind in &filter.kinds {
                match scope.catalog.resolve(kind) {
                    Some(found) if found.namespaced != scope.namespaced => {
                        let which = if found.namespaced { "namespaced" } else { "cluster-scoped" };
                        told.push(format!(
                            "{}: the kind {kind:?} is {which}: its filter matches nothing",
                            scope.policy
                        ));
                    }
                    Some(found) => {
                        let resource = found.group_resource();
                        if out.types.insert(resource.clone(), ObjectFilter::of(filter)).is_some() {
                            return Err(SelectorError::Ambiguous(resource.to_string()));
                        }
                    }
                    None => {
                        told.push(format!("{}: the cluster serves no kind {kind:?}", scope.policy));
                        out.unknown.insert(kind.to_lowercase(), ObjectFilter::of(filter));
                    }
                }
            }
        }
        Ok(out)
    }

    fn find(&self, asked: AskedType<'_>) -> Option<&ObjectFilter> {
        self.types.get(asked.resource).or_else(|| self.of_unknown(asked))
    }

    /// The filter of a type that the cluster did not serve, by its plural, with or without group, or its kind.
    fn of_unknown(&self, AskedType { resource, kind }: AskedType<'_>) -> Option<&ObjectFilter> {
        if self.unknown.is_empty() {
            return None;
        }
        let names = [Some(resource.to_string()), Some(resource.resource.clone()), kind.map(str::to_owned)];
        names.into_iter().flatten().find_map(|name| self.unknown.get(&name.to_lowercase()))
    }
}

#[derive(Clone, Copy)]
struct Scope<'a> {
    policy: &'a str,
    namespaced: bool,
    catalog: &'a Catalog,
}

impl FilterPolicies {
    /// Resolves the filters of a document.
    ///
    /// # Errors
    /// [`SelectorError::Ambiguous`]: two entries of a policy name one type.
    pub(super) fn resolve(
        cluster: &ClusterFilters,
        namespaces: &[NamespaceFilters],
        catalog: &Catalog,
    ) -> Result<Self, SelectorError> {
        let mut warnings = Vec::new();
        let scope = Scope { policy: "clusterScopedFilterPolicy", namespaced: false, catalog };
        let cluster = Entries::resolve(&cluster.0, scope, &mut warnings)?;
        let mut namespaced = Vec::new();
        for (number, policy) in namespaces.iter().enumerate() {
            let name = format!("namespacedFilterPolicies[{number}]");
            let entries =
                Entries::resolve(&policy.filters, Scope { policy: &name, namespaced: true, catalog }, &mut warnings)?;
            namespaced.push(NamespacePolicy {
                names: policy.namespaces.clone(),
                globs: Globs::new(&policy.namespaces),
                entries,
            });
        }
        Ok(Self { cluster, namespaced, warnings })
    }

    /// Warnings for the user: kinds that are not known, or of the other scope.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The types of the cluster that the filters name.
    pub(crate) fn types(&self) -> impl Iterator<Item = &GroupResource> {
        let all = std::iter::once(&self.cluster).chain(self.namespaced.iter().map(|policy| &policy.entries));
        all.flat_map(|entries| entries.types.keys())
    }

    /// Returns true if there are no filters at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.namespaced.is_empty() && self.cluster.types.is_empty() && self.cluster.unknown.is_empty()
    }

    /// Returns true if a namespace may have a policy.
    pub(crate) fn has_namespaced(&self) -> bool {
        !self.namespaced.is_empty()
    }

    /// The filter of cluster-scoped objects of a type; `None` when the filters of the spec hold for it.
    pub(crate) fn of_cluster(&self, asked: AskedType<'_>) -> Option<&ObjectFilter> {
        self.cluster.find(asked)
    }

    /// The filter of objects of a type in a namespace: `None` when the namespace has no policy and the filters of the
    /// spec hold, `Some(None)` when the policy of the namespace leaves the type out. A policy with the exact name takes
    /// precedence over policies whose globs match; of these the first one counts.
    pub(crate) fn of_namespace(&self, namespace: &str, asked: AskedType<'_>) -> Option<Option<&ObjectFilter>> {
        let named = self.namespaced.iter().find(|policy| policy.names.iter().any(|name| name == namespace));
        let policy = named.or_else(|| self.namespaced.iter().find(|policy| policy.globs.matches(namespace)))?;
        Some(policy.entries.find(asked).or(policy.entries.others.as_ref()))
    }
}
