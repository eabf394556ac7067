//! What a backup includes.

use crate::includes::IncludesExcludes;
use crate::namespace::{NamespaceFacts, NamespaceFilter};
use crate::selector::{Selector, SelectorError};
use crate::types::{Resolver, SNAPSHOT_CONTENTS, SNAPSHOTS, is_namespaces, unscoped_lists};
use lifeboat_api::BackupSpec;
use lifeboat_api::well_known::LABEL_EXCLUDE_FROM_BACKUP;
use lifeboat_object::{ApiResource, Catalog};
use std::collections::BTreeMap;

/// The filters of one backup, resolved against one cluster.
///
/// The caller runs the spec through [`BackupFilter::validate`] and [`BackupFilter::auto_exclude`] first, in this order.
#[derive(Clone, Debug)]
pub struct BackupFilter {
    namespaces: NamespaceFilter,
    types: Types,
    /// One of these must match an object; empty when the backup has no selectors.
    selectors: Vec<Selector>,
    ordered: BTreeMap<String, Vec<String>>,
    unresolved: Vec<String>,
    wrong_scope: Vec<String>,
}

/// The two families of type filters, of which a backup uses one (backup.md 1.7).
#[derive(Clone, Debug)]
enum Types {
    /// One pair of lists for both scopes.
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
    /// Resolves the filters of a validated spec against the types and namespaces of a cluster.
    ///
    /// # Errors
    /// [`SelectorError::Requirement`].
    pub fn new(spec: &BackupSpec, catalog: &Catalog, existing: &[NamespaceFacts]) -> Result<Self, SelectorError> {
        let namespaces = NamespaceFilter::resolve(&spec.included_namespaces, &spec.excluded_namespaces, existing);
        let selectors = if spec.or_label_selectors.is_empty() {
            spec.label_selector.iter().map(Selector::compile).collect::<Result<_, _>>()?
        } else {
            spec.or_label_selectors.iter().map(Selector::compile).collect::<Result<_, _>>()?
        };
        let mut resolver = Resolver::new(catalog);
        let types = if uses_old_family(spec) {
            let lists = unscoped_lists(&mut resolver, &spec.included_resources, &spec.excluded_resources);
            Types::Old { lists, cluster: spec.include_cluster_resources }
        } else {
            scoped_types(spec, &mut resolver, &namespaces)
        };
        let ordered = spec.ordered_resources.iter().map(|(kind, names)| {
            let names = names.split(',').map(str::trim).filter(|n| !n.is_empty()).map(str::to_owned).collect();
            (kind.clone(), names)
        });
        Ok(Self {
            namespaces,
            types,
            selectors,
            ordered: ordered.filter(|(_, names): &(_, Vec<_>)| !names.is_empty()).collect(),
            unresolved: resolver.unresolved,
            wrong_scope: resolver.wrong_scope,
        })
    }

    /// The namespaces of the backup.
    #[must_use]
    pub fn namespaces(&self) -> &NamespaceFilter {
        &self.namespaces
    }

    /// Whether all objects of a type that discovery found are listed (backup.md 1.7, "collect this type?").
    ///
    /// # Errors
    /// Why not, for the plan.
    pub fn collects(&self, resource: &ApiResource) -> Result<(), &'static str> {
        let id = resource.group_resource();
        let name = id.to_string();
        match &self.types {
            // compat: this leaves Namespace objects out too (backup.md 7.11); restores make bare ones.
            Types::Old { cluster: Some(false), .. } if !resource.namespaced => {
                Err("cluster-scoped, and includeClusterResources is false")
            }
            Types::Old { cluster: None, .. }
                if !resource.namespaced && !is_namespaces(&id) && !self.namespaces.includes_everything() =>
            {
                Err("cluster-scoped, and the backup is restricted to some namespaces")
            }
            Types::Old { lists, .. } if lists.excludes(&name) => Err("excluded by excludedResources"),
            Types::Old { lists, .. } if !lists.includes(&name) => Err("not in includedResources"),
            Types::Scoped { namespaced, .. } if resource.namespaced => {
                if namespaced.excludes(&name) {
                    Err("excluded by excludedNamespaceScopedResources")
                } else if !namespaced.includes(&name) {
                    Err("not in includedNamespaceScopedResources")
                } else {
                    Ok(())
                }
            }
            Types::Scoped { cluster, .. } if cluster.excludes(&name) => {
                Err("excluded by excludedClusterScopedResources")
            }
            Types::Scoped { cluster, unfiltered, .. }
                if !unfiltered && !cluster.names(&name) && !is_namespaces(&id) =>
            {
                Err("cluster-scoped, not in includedClusterScopedResources, and the backup has filters")
            }
            Types::Old { .. } | Types::Scoped { .. } => Ok(()),
        }
    }

    /// Whether an object of this type stays out even when an action or another object asks for it (backup.md 1.7,
    /// "exclude as additional item?"). A type that discovery does not know stays out too; there is no [`ApiResource`]
    /// of it to ask with.
    #[must_use]
    pub fn excludes_additional(&self, resource: &ApiResource) -> bool {
        let name = resource.group_resource().to_string();
        match &self.types {
            Types::Old { lists, cluster } => {
                lists.excludes(&name)
                    || (!resource.namespaced
                        && match cluster {
                            Some(wanted) => !wanted,
                            None => !lists.includes(&name),
                        })
            }
            Types::Scoped { namespaced, .. } if resource.namespaced => namespaced.excludes(&name),
            Types::Scoped { cluster, .. } => cluster.excludes(&name),
        }
    }

    /// The label selectors to list every type with, one list for each; `""` selects everything. An object can come in
    /// several of the lists.
    #[must_use]
    pub fn queries(&self) -> Vec<String> {
        if self.selectors.is_empty() {
            return vec![String::new()];
        }
        self.selectors.iter().map(Selector::to_query).collect()
    }

    /// Whether an object goes into the backup, be it listed, related or additional (backup.md 1.12). Label selectors do not
    /// count: they apply to lists only.
    ///
    /// # Errors
    /// Why not.
    pub fn includes_item(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
        deleting: bool,
    ) -> Result<(), &'static str> {
        if labels.get(LABEL_EXCLUDE_FROM_BACKUP).is_some_and(|v| v == "true") {
            return Err("labelled velero.io/exclude-from-backup=true");
        }
        match namespace.filter(|n| !n.is_empty()) {
            Some(namespace) => {
                if !self.namespaces.includes(namespace) {
                    return Err("its namespace is not included");
                }
                self.collects(resource)?;
            }
            None if !is_namespaces(&resource.group_resource()) && self.excludes_additional(resource) => {
                return Err("its type is excluded");
            }
            None => {}
        }
        if deleting { Err("it is being deleted") } else { Ok(()) }
    }

    /// Whether the Namespace object itself goes into the backup, provided that its type is collected (backup.md 1.10).
    /// `has_collected_objects` says that a collected object lives in it.
    #[must_use]
    pub fn tracks_namespace(&self, facts: &NamespaceFacts, has_collected_objects: bool) -> bool {
        let included = self.namespaces.includes(&facts.name);
        if has_collected_objects && included {
            return true;
        }
        // compat: a namespace that the selector matches is saved even when the lists leave it out (backup.md 7.10).
        let selected = self.selectors.iter().any(|s| s.matches(&facts.labels));
        let by_name = included && (self.selectors.is_empty() || !self.namespaces.includes_everything());
        facts.active && (selected || by_name)
    }

    /// The objects of this type that the user wants first, in this order: `namespace/name` or `name` (backup.md 1.9 step
    /// 10). `None` when the order does not matter.
    #[must_use]
    pub fn ordered(&self, resource: &ApiResource) -> Option<&[String]> {
        // compat: the key is the plural without its group, so equal plurals share an order (backup.md 7.30).
        self.ordered.get(&resource.resource).map(Vec::as_slice)
    }

    /// Names of types that are neither globs nor known to discovery. The user should be told: nothing will match them.
    #[must_use]
    pub fn unresolved(&self) -> &[String] {
        &self.unresolved
    }

    /// Names of types in a list for the other scope. The user should be told: they are dropped, which can leave the list
    /// empty.
    #[must_use]
    pub fn wrong_scope(&self) -> &[String] {
        &self.wrong_scope
    }
}

fn scoped_types(spec: &BackupSpec, resolver: &mut Resolver<'_>, namespaces: &NamespaceFilter) -> Types {
    let namespaced_includes = resolver.scoped(&spec.included_namespace_scoped_resources, true);
    let namespaced_excludes = resolver.scoped(&spec.excluded_namespace_scoped_resources, true);
    let cluster_includes = resolver.scoped(&spec.included_cluster_scoped_resources, false);
    let cluster_excludes = resolver.scoped(&spec.excluded_cluster_scoped_resources, false);
    // In Velero the automatic excludes count as filters, so that no backup is ever unfiltered and cluster-scoped types
    // stay out of all of them (backup.md 7.1). The documentation promises them, and so do we.
    let unfiltered = namespaces.includes_everything()
        && namespaced_includes.iter().all(|i| i == "*")
        && namespaced_excludes.iter().all(|e| e == SNAPSHOTS)
        && cluster_includes.is_empty()
        && cluster_excludes.iter().all(|e| e == SNAPSHOT_CONTENTS);
    Types::Scoped {
        namespaced: IncludesExcludes::new(&namespaced_includes, &namespaced_excludes),
        cluster: IncludesExcludes::new(&cluster_includes, &cluster_excludes),
        unfiltered,
    }
}

/// Whether a backup uses the lists that are for both scopes.
pub(crate) fn uses_old_family(spec: &BackupSpec) -> bool {
    !spec.included_resources.is_empty()
        || !spec.excluded_resources.is_empty()
        || spec.include_cluster_resources.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{list, namespace::NamespaceScope, types::test_catalog};
    use lifeboat_api::LabelSelector;

    fn namespace(name: &str, labels: &[(&str, &str)], active: bool) -> NamespaceFacts {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        NamespaceFacts { name: name.to_owned(), labels, active }
    }

    fn cluster() -> Vec<NamespaceFacts> {
        ["app1", "app2", "default", "kube-system", "velero"].map(|n| namespace(n, &[], true)).to_vec()
    }

    /// A filter as the server makes it: checked, snapshots excluded, all namespaces spelled out.
    fn filter(change: impl FnOnce(&mut BackupSpec)) -> BackupFilter {
        let mut spec = BackupSpec::default();
        change(&mut spec);
        assert_eq!(BackupFilter::validate(&spec), Vec::<String>::new());
        BackupFilter::auto_exclude(&mut spec);
        if spec.included_namespaces.is_empty() {
            spec.included_namespaces = list(&["*"]);
        }
        BackupFilter::new(&spec, &test_catalog(), &cluster()).unwrap()
    }

    /// The types that are collected, in the order of the catalog.
    fn collected(filter: &BackupFilter) -> String {
        let catalog = test_catalog();
        catalog.all().filter(|r| filter.collects(r).is_ok()).map(|r| r.resource.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// The types that stay out even as additional items, beside those of snapshots, which always do.
    fn barred(filter: &BackupFilter) -> String {
        let catalog = test_catalog();
        let (snapshots, others): (Vec<_>, Vec<_>) = catalog
            .all()
            .filter(|r| filter.excludes_additional(r))
            .map(|r| r.resource.as_str())
            .partition(|r| r.starts_with("volumesnapshot"));
        assert_eq!(snapshots, ["volumesnapshots", "volumesnapshotcontents"]);
        others.join(" ")
    }

    fn selector(text: &str) -> LabelSelector {
        crate::parse_selector(text).unwrap()
    }

    const ALL: &str = "pods configmaps namespaces persistentvolumes deployments storageclasses widgets gadgets";
    const NAMESPACED: &str = "pods configmaps deployments widgets";

    #[test]
    fn old_lists_decide_for_both_scopes() {
        for (includes, excludes, wanted, namespaces, expected, expected_barred) in [
            (&[][..], &[][..], Some(true), &[][..], ALL, ""),
            // Restricted namespaces do not matter once the user asks for cluster-scoped types.
            (&[], &[], Some(true), &["app1"], ALL, ""),
            (&["po", "Widget"], &[], Some(true), &[], "pods widgets", ""),
            // --include-cluster-resources=false, Namespace objects among them.
            (&[], &[], Some(false), &[], NAMESPACED, "namespaces persistentvolumes storageclasses gadgets"),
            (
                &["*"],
                &["pods"],
                None,
                &[],
                "configmaps namespaces persistentvolumes deployments storageclasses widgets gadgets",
                "pods",
            ),
            (&[], &["pods"], None, &["app*"], "configmaps namespaces deployments widgets", "pods"),
            (&["pods"], &[], None, &["app1"], "pods", "namespaces persistentvolumes storageclasses gadgets"),
            (&["pods", "pv", "ns"], &[], None, &["app1"], "pods namespaces", "storageclasses gadgets"),
            (&["pods", "pv"], &[], None, &[], "pods persistentvolumes", "namespaces storageclasses gadgets"),
            (&["*.example.com"], &[], None, &[], "widgets gadgets", "namespaces persistentvolumes storageclasses"),
        ] {
            let filter = filter(|spec| {
                spec.included_resources = list(includes);
                spec.excluded_resources = list(excludes);
                spec.include_cluster_resources = wanted;
                spec.included_namespaces = list(namespaces);
            });
            let case = format!("{includes:?} {excludes:?} {wanted:?} {namespaces:?}");
            assert_eq!(collected(&filter), expected, "{case}");
            assert_eq!(barred(&filter), expected_barred, "{case}");
        }
    }

    #[test]
    fn scoped_lists_decide_for_their_scope() {
        // Namespaced includes and excludes, cluster-scoped includes and excludes, namespaces.
        type Lists = [&'static [&'static str]; 5];
        let cases: [(Lists, &str, &str); 14] = [
            // A backup without filters has everything (design 7), also with only the excludes that are automatic.
            ([&[], &[], &[], &[], &[]], ALL, ""),
            ([&["*"], &["volumesnapshots"], &[], &[], &["*"]], ALL, ""),
            // --include-namespaces app1: cluster-scoped types only as additional items.
            ([&[], &[], &[], &[], &["app1"]], "pods configmaps namespaces deployments widgets", ""),
            ([&["pods"], &[], &[], &[], &[]], "pods namespaces", ""),
            ([&[], &["po"], &[], &[], &[]], "configmaps namespaces deployments widgets", "pods"),
            ([&[], &["*"], &[], &[], &[]], "namespaces", "pods configmaps deployments widgets"),
            ([&[], &["*.example.com"], &[], &[], &[]], "pods configmaps namespaces deployments", "widgets"),
            ([&[], &[], &["*"], &[], &["app1"]], ALL, ""),
            ([&[], &[], &["sc"], &[], &[]], "pods configmaps namespaces deployments storageclasses widgets", ""),
            (
                [&[], &[], &["sc", "*.example.com"], &["gadgets"], &["app1"]],
                "pods configmaps namespaces deployments storageclasses widgets",
                "gadgets",
            ),
            ([&[], &[], &[], &["*"], &[]], NAMESPACED, "namespaces persistentvolumes storageclasses gadgets"),
            ([&[], &[], &[], &["ns"], &[]], NAMESPACED, "namespaces"),
            // Entries of the other scope are dropped.
            ([&["sc"], &["pv"], &[], &["pods"], &[]], ALL, ""),
            ([&["sc", "pods"], &[], &["pods", "sc"], &[], &[]], "pods namespaces storageclasses", ""),
        ];
        for (lists, expected, expected_barred) in cases {
            let filter = filter(|spec| {
                spec.included_namespace_scoped_resources = list(lists[0]);
                spec.excluded_namespace_scoped_resources = list(lists[1]);
                spec.included_cluster_scoped_resources = list(lists[2]);
                spec.excluded_cluster_scoped_resources = list(lists[3]);
                spec.included_namespaces = list(lists[4]);
            });
            assert_eq!(collected(&filter), expected, "{lists:?}");
            assert_eq!(barred(&filter), expected_barred, "{lists:?}");
        }
    }

    #[test]
    fn golden_scoped_backup() {
        let filter = filter(|spec| {
            spec.included_cluster_scoped_resources = list(&["storageclasses", "gadgets.example.com"]);
            spec.included_namespace_scoped_resources = list(&["configmaps", "secrets", "persistentvolumeclaims"]);
            spec.excluded_namespaces = list(&["velero", "kube-system"]);
        });
        assert_eq!(collected(&filter), "configmaps namespaces storageclasses gadgets");
        assert_eq!(filter.unresolved(), ["secrets", "persistentvolumeclaims"]);
        assert_eq!(filter.namespaces().to_list(), NamespaceScope::All);
        assert_eq!(["app1", "velero", "kube-system"].map(|n| filter.namespaces().includes(n)), [true, false, false]);
    }

    #[test]
    fn a_labelled_namespace_is_no_restriction() {
        let mut existing = cluster();
        existing[4].labels.insert(LABEL_EXCLUDE_FROM_BACKUP.to_owned(), "true".to_owned());
        for spec in [
            BackupSpec { excluded_namespaces: list(&["velero"]), ..BackupSpec::default() },
            BackupSpec { excluded_resources: list(&["pods"]), ..BackupSpec::default() },
        ] {
            let filter = BackupFilter::new(&spec, &test_catalog(), &existing).unwrap();
            let pv = test_catalog().resolve("pv").unwrap().clone();
            assert_eq!((filter.collects(&pv), filter.namespaces().includes("velero")), (Ok(()), false));
        }
    }

    #[test]
    fn the_plan_hears_why() {
        let catalog = test_catalog();
        let old = filter(|spec| {
            spec.included_resources = list(&["pods", "pv", "widgets"]);
            spec.excluded_resources = list(&["widgets.*"]);
            spec.included_namespaces = list(&["app1"]);
        });
        let no_cluster = filter(|spec| spec.include_cluster_resources = Some(false));
        let scoped = filter(|spec| {
            spec.included_namespace_scoped_resources = list(&["pods"]);
            spec.excluded_namespace_scoped_resources = list(&["widgets"]);
            spec.excluded_cluster_scoped_resources = list(&["sc"]);
        });
        for (filter, name, expected) in [
            (&old, "widgets", "excluded by excludedResources"),
            (&old, "configmaps", "not in includedResources"),
            (&old, "pv", "cluster-scoped, and the backup is restricted to some namespaces"),
            (&no_cluster, "pv", "cluster-scoped, and includeClusterResources is false"),
            (&scoped, "widgets", "excluded by excludedNamespaceScopedResources"),
            (&scoped, "configmaps", "not in includedNamespaceScopedResources"),
            (&scoped, "sc", "excluded by excludedClusterScopedResources"),
            (&scoped, "pv", "cluster-scoped, not in includedClusterScopedResources, and the backup has filters"),
        ] {
            assert_eq!(filter.collects(catalog.resolve(name).unwrap()), Err(expected), "{name}");
        }
    }

    #[test]
    fn items_are_checked_one_by_one() {
        let catalog = test_catalog();
        let scoped = filter(|spec| {
            spec.included_namespaces = list(&["app1"]);
            spec.excluded_namespace_scoped_resources = list(&["configmaps"]);
            spec.excluded_cluster_scoped_resources = list(&["sc", "ns"]);
            spec.label_selector = Some(selector("tier=gold"));
        });
        let excluded = BTreeMap::from([(LABEL_EXCLUDE_FROM_BACKUP.to_owned(), "true".to_owned())]);
        let kept = BTreeMap::from([(LABEL_EXCLUDE_FROM_BACKUP.to_owned(), "false".to_owned())]);
        for (name, namespace, labels, deleting, expected) in [
            ("pods", Some("app1"), &kept, false, Ok(())),
            ("pods", Some("app1"), &excluded, true, Err("labelled velero.io/exclude-from-backup=true")),
            ("pods", Some("app2"), &kept, false, Err("its namespace is not included")),
            ("configmaps", Some("app1"), &kept, false, Err("excluded by excludedNamespaceScopedResources")),
            ("pods", Some("app1"), &kept, true, Err("it is being deleted")),
            // Not collected, but welcome as an additional item.
            ("pv", None, &kept, false, Ok(())),
            ("pv", None, &kept, true, Err("it is being deleted")),
            ("sc", None, &kept, false, Err("its type is excluded")),
            ("ns", None, &kept, false, Ok(())),
            ("ns", Some(""), &excluded, false, Err("labelled velero.io/exclude-from-backup=true")),
        ] {
            let resource = catalog.resolve(name).unwrap();
            assert_eq!(
                scoped.includes_item(resource, namespace, labels, deleting),
                expected,
                "{name} {namespace:?} {labels:?} {deleting}"
            );
        }
    }

    #[test]
    fn namespace_objects_are_tracked() {
        let gold = namespace("app1", &[("tier", "gold")], true);
        let plain = namespace("app1", &[], true);
        let other_gold = namespace("app2", &[("tier", "gold")], true);
        let other = namespace("app2", &[], true);
        let gold_ending = namespace("app1", &[("tier", "gold")], false);
        let (a, b) = (vec![selector("tier=gold")], vec![selector("tier=lead"), selector("tier=gold")]);
        // Selectors, whether the namespaces are restricted to app1, the namespace, with collected objects: tracked?
        for (rule, selectors, restricted, facts, objects, expected) in [
            ("a", &a, false, &gold, false, true),
            ("a", &a, true, &other_gold, false, true),
            ("a: not Active", &a, false, &gold_ending, false, false),
            ("b", &b, false, &gold, false, true),
            ("b", &b, true, &other_gold, false, true),
            ("c", &vec![], false, &plain, false, true),
            ("c", &vec![], true, &plain, false, true),
            ("c", &vec![], true, &other, false, false),
            ("c: not Active", &vec![], false, &gold_ending, false, false),
            ("c: selector and all namespaces", &a, false, &plain, false, false),
            ("c: selectors and all namespaces", &b, false, &plain, false, false),
            ("c: selector and some namespaces", &a, true, &plain, false, true),
            ("d", &a, false, &plain, true, true),
            ("d: not Active", &a, true, &gold_ending, true, true),
            ("d: not included", &a, true, &other, true, false),
        ] {
            let filter = filter(|spec| {
                match selectors.as_slice() {
                    [one] => spec.label_selector = Some(one.clone()),
                    several => spec.or_label_selectors = several.to_vec(),
                }
                if restricted {
                    spec.included_namespaces = list(&["app1"]);
                }
            });
            assert_eq!(filter.tracks_namespace(facts, objects), expected, "{rule} {restricted} {facts:?}");
        }
    }

    #[test]
    fn every_selector_is_a_query() {
        let golden = filter(|spec| spec.label_selector = Some(selector("tier=gold")));
        let several = filter(|spec| spec.or_label_selectors = vec![selector("b=1,a!=2"), selector("c")]);
        assert_eq!(filter(|_| {}).queries(), [""]);
        assert_eq!(filter(|spec| spec.label_selector = Some(selector(""))).queries(), [""]);
        assert_eq!(golden.queries(), ["tier=gold"]);
        assert_eq!(several.queries(), ["a!=2,b=1", "c"]);
        // A selector is no type filter: cluster-scoped types are listed with it.
        assert_eq!(collected(&golden), collected(&filter(|_| {})));
        let match_labels = [("a b".to_owned(), String::new())].into();
        let broken = LabelSelector { match_labels, ..LabelSelector::default() };
        let broken = BackupSpec { label_selector: Some(broken), ..BackupSpec::default() };
        assert!(BackupFilter::new(&broken, &test_catalog(), &[]).is_err());
    }

    #[test]
    fn orders_are_parsed() {
        let catalog = test_catalog();
        let filter = filter(|spec| {
            spec.ordered_resources =
                [("pods", " app1/b, app1/a,,c "), ("persistentvolumes", "pv2,pv1"), ("widgets", " ,")]
                    .map(|(kind, names)| (kind.to_owned(), names.to_owned()))
                    .into();
        });
        for (name, expected) in [
            ("pods", Some(list(&["app1/b", "app1/a", "c"]))),
            ("pv", Some(list(&["pv2", "pv1"]))),
            ("widgets", None),
            ("configmaps", None),
        ] {
            assert_eq!(filter.ordered(catalog.resolve(name).unwrap()), expected.as_deref(), "{name}");
        }
    }

    #[test]
    fn names_that_will_not_match_are_reported() {
        let scoped = filter(|spec| {
            spec.included_namespace_scoped_resources = list(&["pods", "pod5", "x.*", "sc"]);
            spec.excluded_cluster_scoped_resources = list(&["po", "gadget", "gadgetz.example.com"]);
        });
        assert_eq!(scoped.unresolved(), ["pod5", "gadgetz.example.com"]);
        assert_eq!(scoped.wrong_scope(), ["sc", "po"]);
        let old = BackupSpec { excluded_resources: list(&[SNAPSHOTS, "pod5"]), ..BackupSpec::default() };
        let old = BackupFilter::new(&old, &Catalog::default(), &[]).unwrap();
        assert_eq!((old.unresolved(), old.wrong_scope()), (&list(&["pod5"])[..], &[][..]));
    }
}
