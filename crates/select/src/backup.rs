//! The filters of a backup: they decide which objects it includes.

use crate::glob::Globs;
use crate::includes::IncludesExcludes;
use crate::kept_out::is_kept_out;
use crate::namespace::{NamespaceFacts, NamespaceFilter};
use crate::policy::{AskedType, FilterPolicies, ResourcePolicies};
use crate::selector::{Selector, SelectorError, matches_any};
use crate::types::{Resolver, SNAPSHOT_CONTENTS, SNAPSHOTS, unscoped_lists};
use lifeboat_api::BackupSpec;
use lifeboat_object::{ApiResource, Catalog, GroupResource};
use std::collections::{BTreeMap, BTreeSet};

/// The filters of one backup, resolved against one cluster.
///
/// The caller runs the spec through [`BackupFilter::validate`] and [`BackupFilter::auto_exclude`] first, in this order.
#[derive(Clone, Debug)]
pub struct BackupFilter {
    namespaces: NamespaceFilter,
    types: TypeFilters,
    /// Selectors of which an object must match at least one; empty when the backup has no selectors.
    selectors: Vec<Selector>,
    /// Filter policies in place of the selectors, for some types and namespaces.
    policies: FilterPolicies,
    ordered: BTreeMap<String, Vec<String>>,
    unresolved: Vec<String>,
    wrong_scope: Vec<String>,
    warnings: Vec<String>,
}

/// The facts about an object that a filter reads.
#[derive(Clone, Copy, Debug)]
pub struct ObjectFacts<'a> {
    /// Its type.
    pub resource: &'a ApiResource,
    /// Its namespace; none or empty for cluster-scoped ones.
    pub namespace: Option<&'a str>,
    /// Its name; `None` when it is not known yet, so that no name is excluded.
    pub name: Option<&'a str>,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
}

/// The two families of type filters, of which a backup uses one (velero: pkg/util/collections/includes_excludes.go).
#[derive(Clone, Debug)]
enum TypeFilters {
    /// A single pair of lists for both scopes.
    Old { lists: IncludesExcludes, cluster: Option<bool> },
    /// A pair of lists for each scope.
    Scoped {
        namespaced: IncludesExcludes,
        cluster: IncludesExcludes,
        /// The user restricted neither namespaces nor types.
        unfiltered: bool,
    },
}

impl BackupFilter {
    /// The reason for which these policies cannot be used by a backup that has these lists of types
    /// (velero: internal/resourcepolicies).
    #[must_use]
    pub fn conflict(spec: &BackupSpec, policies: &ResourcePolicies) -> Option<String> {
        let with = match (policies.lists().is_some(), policies.has_filters()) {
            (true, _) => "include-exclude policies",
            (false, true) => "namespace-scoped or fine-grained global filter policies",
            (false, false) => return None,
        };
        uses_old_family(spec).then(|| {
            format!(
                "include-resources, exclude-resources and include-cluster-resources are old filter parameters.\n\
                 They cannot be used with {with}."
            )
        })
    }

    /// Resolves the filters of a validated spec, and of its policies, against the types and namespaces of a cluster.
    ///
    /// # Errors
    /// [`SelectorError::Requirement`]; [`SelectorError::Ambiguous`].
    pub fn new(
        spec: &BackupSpec,
        policies: Option<&ResourcePolicies>,
        catalog: &Catalog,
        existing: &[NamespaceFacts],
    ) -> Result<Self, SelectorError> {
        let namespaces = NamespaceFilter::resolve(&spec.included_namespaces, &spec.excluded_namespaces, existing);
        let selectors = if spec.or_label_selectors.is_empty() {
            spec.label_selector.iter().map(Selector::compile).collect::<Result<_, _>>()?
        } else {
            spec.or_label_selectors.iter().map(Selector::compile).collect::<Result<_, _>>()?
        };
        let mut resolver = Resolver::new(catalog);
        let types = if uses_old_family(spec) {
            let lists = unscoped_lists(&mut resolver, &spec.included_resources, &spec.excluded_resources);
            TypeFilters::Old { lists, cluster: spec.include_cluster_resources }
        } else {
            scoped_types(spec, policies, &mut resolver, &namespaces)
        };
        let ordered = spec.ordered_resources.iter().map(|(kind, names)| {
            let names = names.split(',').map(str::trim).filter(|n| !n.is_empty()).map(str::to_owned).collect();
            (kind.clone(), names)
        });
        let policies = ResourcePolicies::filters(policies, catalog)?;
        let mut filter = Self {
            namespaces,
            types,
            selectors,
            policies,
            ordered: ordered.filter(|(_, names): &(_, Vec<_>)| !names.is_empty()).collect(),
            unresolved: resolver.unresolved,
            wrong_scope: resolver.wrong_scope,
            warnings: Vec::new(),
        };
        filter.warnings = filter.policies.warnings().to_vec();
        let named: BTreeSet<&GroupResource> = filter.policies.types().collect();
        for resource in named.into_iter().filter_map(|resource| catalog.find(resource)) {
            if let Err(why) = filter.collects(resource) {
                let text = format!("a filter policy names {}, which is not saved: {why}", resource.group_resource());
                filter.warnings.push(text);
            }
        }
        Ok(filter)
    }

    /// The namespaces of the backup.
    #[must_use]
    pub fn namespaces(&self) -> &NamespaceFilter {
        &self.namespaces
    }

    /// Checks that all objects of a type that discovery found are listed
    /// (velero: pkg/util/collections/includes_excludes.go).
    ///
    /// # Errors
    /// The reason why not, for the plan.
    pub fn collects(&self, resource: &ApiResource) -> Result<(), &'static str> {
        let id = resource.group_resource();
        let name = id.to_string();
        match &self.types {
            // compat: this leaves Namespace objects out too; restores make bare ones.
            TypeFilters::Old { cluster: Some(false), .. } if !resource.namespaced => {
                Err("cluster-scoped, and includeClusterResources is false")
            }
            TypeFilters::Old { cluster: None, .. }
                if !resource.namespaced && !id.is_namespaces() && !self.namespaces.includes_everything() =>
            {
                Err("cluster-scoped, and the backup is restricted to some namespaces")
            }
            TypeFilters::Old { lists, .. } if lists.excludes(&name) => Err("excluded by excludedResources"),
            TypeFilters::Old { lists, .. } if !lists.includes(&name) => Err("not in includedResources"),
            TypeFilters::Scoped { namespaced, .. } if resource.namespaced => {
                if namespaced.excludes(&name) {
                    Err("excluded by excludedNamespaceScopedResources")
                } else if !namespaced.includes(&name) {
                    Err("not in includedNamespaceScopedResources")
                } else {
                    Ok(())
                }
            }
            TypeFilters::Scoped { cluster, .. } if cluster.excludes(&name) => {
                Err("excluded by excludedClusterScopedResources")
            }
            TypeFilters::Scoped { cluster, unfiltered, .. }
                if !unfiltered && !cluster.names(&name) && !id.is_namespaces() =>
            {
                Err("cluster-scoped, not in includedClusterScopedResources, and the backup has filters")
            }
            TypeFilters::Old { .. } | TypeFilters::Scoped { .. } => Ok(()),
        }
    }

    /// Returns true if an object of this type stays out even when an action or another object asks for it
    /// (velero: pkg/util/collections/includes_excludes.go). A type that discovery does not know stays out too; there is
    /// no [`ApiResource`] of it to ask with.
    #[must_use]
    pub fn excludes_additional(&self, resource: &ApiResource) -> bool {
        let name = resource.group_resource().to_string();
        match &self.types {
            TypeFilters::Old { lists, cluster } => {
                lists.excludes(&name)
                    || (!resource.namespaced
                        && match cluster {
                            Some(wanted) => !wanted,
                            None => !lists.includes(&name),
                        })
            }
            TypeFilters::Scoped { namespaced, .. } if resource.namespaced => namespaced.excludes(&name),
            TypeFilters::Scoped { cluster, .. } => cluster.excludes(&name),
        }
    }

    /// The label selectors to list a type with, one list for each; `""` selects everything. An object can come in several of
    /// the lists. `place` is a namespace, or `None` for the whole cluster. None at all when the policy of the namespace leaves
    /// the type out. What a list brings goes through [`Self::includes_listed`].
    #[must_use]
    pub fn queries(&self, resource: &ApiResource, place: Option<&str>) -> Vec<String> {
        let queries = |selectors: &[Selector]| match selectors {
            [] => vec![String::new()],
            some => some.iter().map(Selector::to_query).collect(),
        };
        let id = resource.group_resource();
        let asked = AskedType::of(resource, &id);
        let of_policy = match place {
            _ if !resource.namespaced => self.policies.of_cluster(asked).map(Some),
            Some(namespace) => self.policies.of_namespace(namespace, asked),
            // Namespaces may have different ones.
            None if self.policies.has_namespaced() => return queries(&[]),
            None => None,
        };
        match of_policy {
            None => queries(&self.selectors),
            Some(Some(filter)) => queries(&filter.selectors),
            Some(None) => Vec::new(),
        }
    }

    /// Returns true if the selectors of the backup, which filter policies may replace, let in objects with these
    /// labels.
    pub(crate) fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        matches_any(&self.selectors, labels)
    }

    /// Returns true if the lists of a type bring whatever there is of it in the namespaces of the backup, but for
    /// single names.
    #[must_use]
    pub fn lists_all_of(&self, resource: &ApiResource) -> bool {
        let has_policy = if resource.namespaced {
            self.policies.has_namespaced()
        } else {
            let id = resource.group_resource();
            self.policies.of_cluster(AskedType::of(resource, &id)).is_some()
        };
        self.selectors.is_empty() && !has_policy && self.collects(resource).is_ok()
    }

    /// Returns true if lists may leave out namespaced objects of a type that is collected.
    #[must_use]
    pub fn selects_namespaced(&self) -> bool {
        !self.selectors.is_empty() || self.policies.has_namespaced()
    }

    /// Checks that an object from a list is one that was asked for: the whole cluster may have been listed at once
    /// though its namespaces have different policies. An object that was not asked for can still come as a related or
    /// additional object.
    ///
    /// # Errors
    /// The reason why not.
    pub fn includes_listed(&self, object: ObjectFacts<'_>) -> Result<(), &'static str> {
        let Some(namespace) = object.namespace.filter(|_| self.policies.has_namespaced()) else { return Ok(()) };
        let id = object.resource.group_resource();
        match self.policies.of_namespace(namespace, AskedType::of(object.resource, &id)) {
            Some(None) => Err("the filter policy of its namespace leaves its type out"),
            Some(Some(filter)) if !filter.selects(object.labels) => {
                Err("its labels do not match the filter policy of its namespace")
            }
            None if !matches_any(&self.selectors, object.labels) => Err("its labels do not match the selector"),
            Some(Some(_)) | None => Ok(()),
        }
    }

    /// Checks that an object goes into the backup, be it listed, related or additional
    /// (velero: pkg/backup/item_backupper.go). Label selectors do not count: they apply to lists only.
    ///
    /// # Errors
    /// The reason why not.
    pub fn includes_item(&self, object: ObjectFacts<'_>, deleting: bool) -> Result<(), &'static str> {
        let ObjectFacts { resource, namespace, name, labels } = object;
        if is_kept_out(labels) {
            return Err("labelled velero.io/exclude-from-backup=true");
        }
        match namespace.filter(|n| !n.is_empty()) {
            Some(namespace) => {
                if !self.namespaces.includes(namespace) {
                    return Err("its namespace is not included");
                }
                self.collects(resource)?;
            }
            None if !resource.group_resource().is_namespaces() && self.excludes_additional(resource) => {
                return Err("its type is excluded");
            }
            None => {}
        }
        if name.is_some_and(|name| !self.has_name(resource, namespace, name)) {
            return Err("its name is not in the filter policy");
        }
        if deleting { Err("it is being deleted") } else { Ok(()) }
    }

    /// Returns true if the policies let an object of this name in.
    fn has_name(&self, resource: &ApiResource, namespace: Option<&str>, name: &str) -> bool {
        if self.policies.is_empty() {
            return true;
        }
        let id = resource.group_resource();
        let asked = AskedType::of(resource, &id);
        let filter = match namespace.filter(|n| !n.is_empty()) {
            // A type that the policy leaves out passes, so that what actions ask for comes along.
            Some(namespace) => self.policies.of_namespace(namespace, asked).flatten(),
            None => self.policies.of_cluster(asked),
        };
        filter.is_none_or(|filter| filter.has_name(name))
    }

    /// Returns true if the Namespace object itself goes into the backup, provided that its type is collected
    /// (velero: pkg/backup/item_collector.go). `has_collected_objects` says that a collected object lives in it.
    #[must_use]
    pub fn tracks_namespace(&self, facts: &NamespaceFacts, has_collected_objects: bool) -> bool {
        let included = self.namespaces.includes(&facts.name);
        if has_collected_objects && included {
            return true;
        }
        // compat: a namespace that the selector matches is saved even when the lists leave it out.
        let selected = self.selectors.iter().any(|s| s.matches(&facts.labels));
        let by_name = included && (self.selectors.is_empty() || !self.namespaces.includes_everything());
        facts.active && (selected || by_name)
    }

    /// The objects of this type that the user wants first, in this order: `namespace/name` or `name`
    /// (velero: pkg/backup/item_collector.go). `None` when the order does not matter.
    #[must_use]
    pub fn ordered(&self, resource: &ApiResource) -> Option<&[String]> {
        // compat: the key is the plural without its group, so equal plurals share an order.
        self.ordered.get(&resource.resource).map(Vec::as_slice)
    }

    /// Names of types that are neither globs nor known to discovery. The user should be told: nothing will match them.
    #[must_use]
    pub fn unresolved(&self) -> &[String] {
        &self.unresolved
    }

    /// Warnings for the user about parts of the policies that have no effect.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Names of types in a list for the other scope. The user should be told: they are dropped, which can leave the list
    /// empty.
    #[must_use]
    pub fn wrong_scope(&self) -> &[String] {
        &self.wrong_scope
    }
}

fn scoped_types(
    spec: &BackupSpec,
    policies: Option<&ResourcePolicies>,
    resolver: &mut Resolver<'_>,
    namespaces: &NamespaceFilter,
) -> TypeFilters {
    let mut namespaced_includes = resolver.scoped(&spec.included_namespace_scoped_resources, true);
    let mut namespaced_excludes = resolver.scoped(&spec.excluded_namespace_scoped_resources, true);
    let mut cluster_includes = resolver.scoped(&spec.included_cluster_scoped_resources, false);
    let mut cluster_excludes = resolver.scoped(&spec.excluded_cluster_scoped_resources, false);
    if let Some([included, excluded, in_cluster, not_in_cluster]) = policies.and_then(ResourcePolicies::lists) {
        let (included, excluded) = (resolver.scoped(included, true), resolver.scoped(excluded, true));
        add_lists(&mut namespaced_includes, &mut namespaced_excludes, included, excluded);
        let (included, excluded) = (resolver.scoped(in_cluster, false), resolver.scoped(not_in_cluster, false));
        add_lists(&mut cluster_includes, &mut cluster_excludes, included, excluded);
    }
    // In Velero the automatic excludes count as filters, so that no backup is ever unfiltered and cluster-scoped types
    // stay out of all of them. The documentation promises them, and so do we.
    let unfiltered = namespaces.includes_everything()
        && namespaced_includes.iter().all(|i| i == "*")
        && namespaced_excludes.iter().all(|e| e == SNAPSHOTS)
        && cluster_includes.is_empty()
        && cluster_excludes.iter().all(|e| e == SNAPSHOT_CONTENTS);
    TypeFilters::Scoped {
        namespaced: IncludesExcludes::new(&namespaced_includes, &namespaced_excludes),
        cluster: IncludesExcludes::new(&cluster_includes, &cluster_excludes),
        unfiltered,
    }
}

/// Adds the lists of a policy to those of the spec, which win (velero: pkg/util/collections/includes_excludes.go).
fn add_lists(includes: &mut Vec<String>, excludes: &mut Vec<String>, included: Vec<String>, excluded: Vec<String>) {
    let matches = |list: &[String], name: &str| list.iter().any(|one| one == "*") || Globs::new(list).matches(name);
    for name in excluded {
        if !matches(includes, &name) && !matches(excludes, &name) {
            excludes.push(name);
        }
    }
    for name in included {
        if !matches(includes, &name) && !matches(excludes, &name) {
            includes.push(name);
        }
    }
}

/// Returns true if a backup uses the lists that are for both scopes.
pub(crate) fn uses_old_family(spec: &BackupSpec) -> bool {
    !spec.included_resources.is_empty()
        || !spec.excluded_resources.is_empty()
        || spec.include_cluster_resources.is_some()
}

#[cfg(test)]
mod tests;
