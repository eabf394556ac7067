//! What a restore includes.

use crate::glob::{Globs, has_wildcard, validate_wildcards};
use crate::includes::{IncludesExcludes, validate_lists};
use crate::namespace::expand;
use crate::policy::{Asked, FilterPolicies, ResourcePolicies};
use crate::selector::{Selector, SelectorError};
use crate::types::{Resolver, is_namespaces, unscoped_lists};
use lifeboat_api::RestoreSpec;
use lifeboat_object::{Catalog, GroupResource};
use std::collections::{BTreeMap, BTreeSet};

/// The filters of one restore, resolved against the cluster it goes to and the backup it reads.
#[derive(Clone, Debug)]
pub struct RestoreFilter {
    types: IncludesExcludes,
    status: Option<IncludesExcludes>,
    namespaces: IncludesExcludes,
    /// The namespace patterns leave no name to include: the emptied list does not mean "all".
    no_namespace: bool,
    cluster: Option<bool>,
    /// An object must match it, when there is one.
    selector: Option<Selector>,
    /// An object must match one of them, when there are any.
    or_selectors: Vec<Selector>,
    /// In place of these, for some types and namespaces.
    policies: FilterPolicies,
    warnings: Vec<String>,
}

/// What a filter asks of an object of the backup.
#[derive(Clone, Copy, Debug)]
pub struct RestoredFacts<'a> {
    /// Its type.
    pub resource: &'a GroupResource,
    /// Its kind, where that is known: policies may name kinds that the cluster does not serve yet.
    pub kind: Option<&'a str>,
    /// Its namespace in the backup; that of a Namespace is its own name.
    pub namespace: Option<&'a str>,
    /// Its name.
    pub name: &'a str,
    /// Its labels; `None` when they are not known yet, so that no selector keeps the object out.
    pub labels: Option<&'a BTreeMap<String, String>>,
}

impl RestoreFilter {
    /// Everything that is wrong with the filters of a restore, in Velero's words (restore.md 1.3 rows 3 to 5).
    #[must_use]
    pub fn validate(spec: &RestoreSpec) -> Vec<String> {
        let mut problems = Vec::new();
        for (what, found) in [
            ("resource", validate_lists(&spec.included_resources, &spec.excluded_resources)),
            ("namespace", validate_lists(&spec.included_namespaces, &spec.excluded_namespaces)),
        ] {
            problems.extend(found.iter().map(|problem| format!("Invalid included/excluded {what} lists: {problem}")));
        }
        if spec.label_selector.is_some() && !spec.or_label_selectors.is_empty() {
            problems.push(
                "encountered labelSelector as well as orLabelSelectors in restore spec, only one can be specified"
                    .to_owned(),
            );
        }
        // Velero finds this out when the restore runs, and then does nothing. Telling it before is better.
        for selector in spec.label_selector.iter().chain(&spec.or_label_selectors) {
            if let Err(problem) = Selector::compile(selector) {
                problems.push(format!("invalid label selector: {problem}"));
            }
        }
        problems
    }

    /// Resolves the filters of a validated spec. Namespace patterns are expanded against the namespaces that hold
    /// objects in the backup (restore.md 2.3).
    ///
    /// # Errors
    /// [`SelectorError::Requirement`] for a selector, [`SelectorError::Wildcard`] for a namespace pattern,
    /// [`SelectorError::Ambiguous`] for filters of one type in a policy.
    pub fn new(
        spec: &RestoreSpec,
        policies: Option<&ResourcePolicies>,
        catalog: &Catalog,
        namespaces_in_backup: &BTreeSet<String>,
    ) -> Result<Self, SelectorError> {
        let mut warnings = Vec::new();
        let known = namespaces_in_backup.iter().map(String::as_str);
        let expanded = expand(&spec.included_namespaces, &spec.excluded_namespaces, known.clone());
        if expanded.is_some() {
            for name in spec.included_namespaces.iter().chain(&spec.excluded_namespaces) {
                validate_wildcards(name).map_err(SelectorError::Wildcard)?;
            }
            for pattern in spec.included_namespaces.iter().filter(|p| has_wildcard(p)) {
                let glob = Globs::new(std::slice::from_ref(pattern));
                if !known.clone().any(|name| glob.matches(name)) {
                    warnings.push(format!("no namespace in the backup matches the included pattern {pattern:?}"));
                }
            }
        }
        // Velero takes the emptied list for "all" and restores the whole backup (restore.md 9.1).
        let no_namespace = expanded.as_ref().is_some_and(Vec::is_empty);
        if no_namespace {
            warnings.push("includedNamespaces match no namespace in the backup: nothing is restored to any".to_owned());
        }

        let mut resolver = Resolver::new(catalog);
        let types = unscoped_lists(&mut resolver, &spec.included_resources, &spec.excluded_resources);
        // A full name may well be of a type whose definition this restore brings along; a short one matches nothing.
        let unknown = |name: &&String| !name.contains('.') && spec.included_resources.contains(name);
        warnings.extend(resolver.unresolved.iter().filter(unknown).map(|name| {
            format!("the included resource {name:?} is not known to the cluster: write it with its group to restore it")
        }));
        let status = spec
            .restore_status
            .as_ref()
            .map(|status| unscoped_lists(&mut resolver, &status.included_resources, &status.excluded_resources));

        let policies = ResourcePolicies::filters(policies, catalog)?;
        warnings.extend(policies.warnings().iter().cloned());
        warnings.extend(policies.types().filter(|resource| types.excludes(&resource.to_string())).map(|resource| {
            format!("a filter policy names {resource}, which excludedResources leave out: its filter has no effect")
        }));
        Ok(Self {
            types,
            status,
            policies,
            namespaces: IncludesExcludes::new(
                expanded.as_ref().unwrap_or(&spec.included_namespaces),
                &spec.excluded_namespaces,
            ),
            no_namespace,
            cluster: spec.include_cluster_resources,
            selector: spec.label_selector.as_ref().map(Selector::compile).transpose()?,
            or_selectors: spec.or_label_selectors.iter().map(Selector::compile).collect::<Result<_, _>>()?,
            warnings,
        })
    }

    /// Whether a type is restored (restore.md 2.6 step 1).
    #[must_use]
    pub fn includes_resource(&self, resource: &GroupResource) -> bool {
        is_must_have(resource) || self.types.includes(&resource.to_string())
    }

    /// Whether a namespace of the backup is in scope.
    #[must_use]
    pub fn includes_namespace(&self, name: &str) -> bool {
        !self.no_namespace && self.namespaces.includes(name)
    }

    /// Whether an object of the backup is restored (restore.md 2.6 steps 1, 2 and 5). `namespace` is the one in the
    /// backup, before any mapping, and absent for cluster-scoped objects; for an object of type `namespaces` it is the
    /// object's name.
    ///
    /// # Errors
    /// Why not.
    pub fn includes_item(&self, object: RestoredFacts<'_>) -> Result<(), &'static str> {
        let RestoredFacts { resource, namespace, .. } = object;
        if !self.includes_resource(resource) {
            return Err("its type is not included");
        }
        let is_namespace = is_namespaces(resource);
        if namespace.is_none() || is_namespace {
            match self.cluster {
                Some(false) => return Err("cluster-scoped, and includeClusterResources is false"),
                None if !self.includes_all_namespaces() => {
                    return Err("cluster-scoped, and the restore is restricted to some namespaces");
                }
                Some(true) | None => {}
            }
        }
        if is_must_have(resource) {
            return Ok(());
        }
        // Velero makes every namespace of the backup when includeClusterResources is true, even excluded ones
        // (restore.md 9.2).
        let in_scope = match namespace {
            Some(name) => self.includes_namespace(name),
            None => !is_namespace || self.includes_all_namespaces(),
        };
        if !in_scope {
            return Err("its namespace is not included");
        }
        self.selects(object, is_namespace)
    }

    /// Whether the filter of a policy, or else the selectors of the spec, let an object in (restore.md 2.6 steps 3 to 5).
    fn selects(&self, object: RestoredFacts<'_>, is_namespace: bool) -> Result<(), &'static str> {
        let RestoredFacts { resource, kind, namespace, name, labels } = object;
        let asked = Asked { resource, kind };
        let of_policy = match namespace.filter(|_| !is_namespace) {
            Some(namespace) => self.policies.of_namespace(namespace, asked),
            None => self.policies.of_cluster(asked).map(Some),
        };
        let selected = |selects: &dyn Fn(&BTreeMap<String, String>) -> bool| labels.is_none_or(selects);
        match of_policy {
            Some(None) => Err("the filter policy of its namespace leaves its type out"),
            Some(Some(filter)) if !filter.has_name(name) => Err("its name is not in the filter policy"),
            Some(Some(filter)) if !selected(&|labels| filter.selects(labels)) => {
                Err("its labels do not match the filter policy")
            }
            Some(Some(_)) => Ok(()),
            None if !selected(&|labels| {
                self.selector.as_ref().is_none_or(|s| s.matches(labels))
                    && (self.or_selectors.is_empty() || self.or_selectors.iter().any(|s| s.matches(labels)))
            }) =>
            {
                Err("its labels do not match the selector")
            }
            None => Ok(()),
        }
    }

    /// Whether an object is restored that an action or another object asks for (restore.md 2.8 step 1). Selectors do not
    /// count, and cluster-scoped objects come along even when only some namespaces are restored. `namespace` is
    /// meant as in [`RestoreFilter::includes_item`].
    #[must_use]
    pub fn includes_additional(&self, resource: &GroupResource, namespace: Option<&str>) -> bool {
        let cluster_scoped = namespace.is_none() || is_namespaces(resource);
        self.includes_resource(resource)
            && !(cluster_scoped && self.cluster == Some(false))
            && (is_must_have(resource) || namespace.is_none_or(|n| self.includes_namespace(n)))
    }

    /// Whether objects of a type get their status back, unless an object's annotation says otherwise.
    #[must_use]
    pub fn restores_status(&self, resource: &GroupResource) -> bool {
        self.status.as_ref().is_some_and(|lists| lists.includes(&resource.to_string()))
    }

    /// Warnings for the user: patterns and names that match nothing.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn includes_all_namespaces(&self) -> bool {
        !self.no_namespace && self.namespaces.includes_everything()
    }
}

/// Types that a restore of volume data cannot do without; lists and selectors do not apply to them (restore.md 2.1).
fn is_must_have(resource: &GroupResource) -> bool {
    resource.group == lifeboat_api::GROUP && resource.resource == "datauploads"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{list, parse_selector, types::test_catalog};
    use lifeboat_api::{LabelSelector, LabelSelectorRequirement, RestoreStatusSpec};

    const BACKUP: [&str; 4] = ["app1", "app2", "dev", "velero"];

    fn try_filter(change: impl FnOnce(&mut RestoreSpec)) -> Result<RestoreFilter, SelectorError> {
        let mut spec = RestoreSpec::default();
        change(&mut spec);
        RestoreFilter::new(&spec, None, &test_catalog(), &BACKUP.map(str::to_owned).into())
    }

    fn filter(change: impl FnOnce(&mut RestoreSpec)) -> RestoreFilter {
        try_filter(change).unwrap()
    }

    fn id(text: &str) -> GroupResource {
        text.parse().unwrap()
    }

    fn includes(
        filter: &RestoreFilter,
        resource: &str,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), &'static str> {
        let resource = &id(resource);
        filter.includes_item(RestoredFacts { resource, kind: None, namespace, name: "a", labels: Some(labels) })
    }

    fn item(filter: &RestoreFilter, resource: &str, namespace: Option<&str>) -> Result<(), &'static str> {
        includes(filter, resource, namespace, &BTreeMap::new())
    }

    const TYPE: Result<(), &str> = Err("its type is not included");
    const NAMESPACE: Result<(), &str> = Err("its namespace is not included");
    const NO_CLUSTER: Result<(), &str> = Err("cluster-scoped, and includeClusterResources is false");
    const RESTRICTED: Result<(), &str> = Err("cluster-scoped, and the restore is restricted to some namespaces");
    const LABELS: Result<(), &str> = Err("its labels do not match the selector");

    #[test]
    fn problems_are_reported_in_velero_words() {
        let requirement = LabelSelectorRequirement { key: "a".into(), operator: "Like".into(), values: vec![] };
        let spec = RestoreSpec {
            included_resources: list(&["*", "pods"]),
            excluded_resources: list(&["nodes", "pods"]),
            included_namespaces: list(&["a", "No_DNS"]),
            excluded_namespaces: list(&["*"]),
            label_selector: Some(LabelSelector::default()),
            or_label_selectors: vec![LabelSelector { match_expressions: vec![requirement], ..Default::default() }],
            ..RestoreSpec::default()
        };
        assert_eq!(
            RestoreFilter::validate(&spec),
            [
                "Invalid included/excluded resource lists: includes list must either contain '*' only, or a non-empty list of items",
                "Invalid included/excluded resource lists: excludes list cannot contain an item in the includes list: pods",
                "Invalid included/excluded namespace lists: excludes list cannot contain '*'",
                "encountered labelSelector as well as orLabelSelectors in restore spec, only one can be specified",
                "invalid label selector: \"Like\" is not a valid label selector operator",
            ]
        );
        assert_eq!(RestoreFilter::validate(&RestoreSpec::default()), Vec::<String>::new());
    }

    #[test]
    fn step_1_types() {
        for (includes, excludes, expected) in [
            (&[][..], &[][..], [true, true, true, true]),
            (&["*"], &[], [true, true, true, true]),
            (&["po", "Deployment"], &[], [true, true, false, true]),
            (&[], &["pods", "datauploads.velero.io"], [false, true, true, true]),
            // `*` excludes nothing, globs match what discovery does not know.
            (&["*.example.com"], &["*"], [false, false, true, true]),
            (&["*s"], &["*.apps"], [true, false, false, true]),
            // A malformed glob ends the search.
            (&["[", "pods"], &[], [false, false, false, true]),
        ] {
            let filter = filter(|spec| {
                spec.included_resources = list(includes);
                spec.excluded_resources = list(excludes);
            });
            let types = ["pods", "deployments.apps", "unknown.example.com", "datauploads.velero.io"];
            assert_eq!(types.map(|t| filter.includes_resource(&id(t))), expected, "{includes:?} {excludes:?}");
            for (resource, expected) in types.into_iter().zip(expected) {
                assert_eq!(item(&filter, resource, Some("app1")), if expected { Ok(()) } else { TYPE }, "{resource}");
            }
        }
    }

    #[test]
    fn step_2_namespaces_and_cluster_scope() {
        // A pod of app1, a DataUpload of velero, a PersistentVolume, and the Namespaces app1 and dev.
        for (includes, excludes, cluster, expected) in [
            (&[][..], &[][..], None, [Ok(()), Ok(()), Ok(()), Ok(()), Ok(())]),
            (&["*"], &[], None, [Ok(()), Ok(()), Ok(()), Ok(()), Ok(())]),
            (&[], &[], Some(true), [Ok(()), Ok(()), Ok(()), Ok(()), Ok(())]),
            (&[], &[], Some(false), [Ok(()), Ok(()), NO_CLUSTER, NO_CLUSTER, NO_CLUSTER]),
            (&["app1"], &[], None, [Ok(()), Ok(()), RESTRICTED, RESTRICTED, RESTRICTED]),
            (&["dev"], &[], None, [NAMESPACE, Ok(()), RESTRICTED, RESTRICTED, RESTRICTED]),
            (&["*"], &["dev"], None, [Ok(()), Ok(()), RESTRICTED, RESTRICTED, RESTRICTED]),
            (&["app1"], &[], Some(true), [Ok(()), Ok(()), Ok(()), Ok(()), NAMESPACE]),
            (&["*"], &["app1"], Some(true), [NAMESPACE, Ok(()), Ok(()), NAMESPACE, Ok(())]),
            (&["app1"], &[], Some(false), [Ok(()), Ok(()), NO_CLUSTER, NO_CLUSTER, NO_CLUSTER]),
            (&["*"], &["app*"], Some(true), [NAMESPACE, Ok(()), Ok(()), NAMESPACE, Ok(())]),
            (&["app?"], &["app2"], Some(true), [Ok(()), Ok(()), Ok(()), Ok(()), NAMESPACE]),
            (&["x*"], &[], None, [NAMESPACE, Ok(()), RESTRICTED, RESTRICTED, RESTRICTED]),
            (&["x*"], &[], Some(true), [NAMESPACE, Ok(()), Ok(()), NAMESPACE, NAMESPACE]),
        ] {
            let filter = filter(|spec| {
                spec.included_namespaces = list(includes);
                spec.excluded_namespaces = list(excludes);
                spec.include_cluster_resources = cluster;
            });
            let items = [
                ("pods", Some("app1")),
                ("datauploads.velero.io", Some("velero")),
                ("persistentvolumes", None),
                ("namespaces", Some("app1")),
                ("namespaces", Some("dev")),
            ];
            assert_eq!(
                items.map(|(resource, namespace)| item(&filter, resource, namespace)),
                expected,
                "{includes:?} {excludes:?} {cluster:?}"
            );
        }
        let unnamed = filter(|spec| {
            spec.included_namespaces = list(&["app1"]);
            spec.include_cluster_resources = Some(true);
        });
        assert_eq!(item(&unnamed, "namespaces", None), NAMESPACE);
    }

    #[test]
    fn step_5_selectors() {
        let select = |text: &str| parse_selector(text).unwrap();
        let gold = BTreeMap::from([("tier".to_owned(), "gold".to_owned())]);
        let none = BTreeMap::new();
        for (selector, or_selectors, labels, expected) in [
            (None, vec![], &none, Ok(())),
            (Some("tier=gold"), vec![], &gold, Ok(())),
            (Some("tier=gold"), vec![], &none, LABELS),
            (None, vec!["a", "tier"], &gold, Ok(())),
            (None, vec!["a", "tier"], &none, LABELS),
            (Some("tier=gold"), vec!["a"], &gold, LABELS),
            (Some(""), vec![], &none, Ok(())),
        ] {
            let filter = filter(|spec| {
                spec.label_selector = selector.map(select);
                spec.or_label_selectors = or_selectors.iter().copied().map(select).collect();
            });
            let case = format!("{selector:?} {or_selectors:?} {labels:?}");
            for (resource, namespace) in [("pods", Some("app1")), ("persistentvolumes", None)] {
                assert_eq!(includes(&filter, resource, namespace, labels), expected, "{case}");
            }
            assert_eq!(includes(&filter, "datauploads.velero.io", Some("velero"), labels), Ok(()), "{case}");
            assert!(filter.includes_additional(&id("pods"), Some("app1")), "{case}");
        }
    }

    #[test]
    fn additional_items_pass_fewer_checks() {
        // Is it let in: a pod of app1, one of dev, a DataUpload of velero, a PersistentVolume, a StorageClass, Namespace dev?
        for (cluster, expected) in [
            (None, [true, false, true, true, false, false]),
            (Some(true), [true, false, true, true, false, false]),
            (Some(false), [true, false, true, false, false, false]),
        ] {
            let filter = filter(|spec| {
                spec.included_namespaces = list(&["app1"]);
                spec.excluded_resources = list(&["sc"]);
                spec.include_cluster_resources = cluster;
            });
            let items = [
                ("pods", Some("app1")),
                ("pods", Some("dev")),
                ("datauploads.velero.io", Some("velero")),
                ("persistentvolumes", None),
                ("storageclasses.storage.k8s.io", None),
                ("namespaces", Some("dev")),
            ];
            assert_eq!(items.map(|(r, n)| filter.includes_additional(&id(r), n)), expected, "{cluster:?}");
        }
    }

    #[test]
    fn what_matches_nothing_is_said() {
        for (namespaces, types, expected) in [
            (&["app*", "gone"][..], &["pods", "w*"][..], &[][..]),
            (&["app*", "x*"], &[], &["no namespace in the backup matches the included pattern \"x*\""]),
            (
                &["x*"],
                &[],
                &[
                    "no namespace in the backup matches the included pattern \"x*\"",
                    "includedNamespaces match no namespace in the backup: nothing is restored to any",
                ],
            ),
            (
                &[],
                &["foos", "foos.new.example.com"],
                &["the included resource \"foos\" is not known to the cluster: write it with its group to restore it"],
            ),
        ] {
            let filter = filter(|spec| {
                spec.included_namespaces = list(namespaces);
                spec.included_resources = list(types);
                spec.excluded_resources = list(&["nodes"]);
            });
            assert_eq!(filter.warnings(), expected, "{namespaces:?} {types:?}");
        }
    }

    #[test]
    fn malformed_patterns_stop_the_restore() {
        let wildcard = |text: &str| Some(SelectorError::Wildcard(text.to_owned()));
        const UNCLOSED: &str = "wildcard pattern contains unclosed bracket '['";
        for (includes, excludes, expected) in [
            (&["a[", "b"][..], &[][..], wildcard(UNCLOSED)),
            (&["a"], &["b["], wildcard(UNCLOSED)),
            (&["a*", "{b}"], &[], wildcard("wildcard pattern contains unsupported characters: |, (, ), !, {, }, ,")),
            (&["a**"], &[], wildcard("wildcard pattern contains consecutive asterisks (only single * allowed)")),
            // Nothing is expanded, so nothing is looked at.
            (&["*"], &["b["], None),
            (&["{b}"], &[], None),
        ] {
            let made = try_filter(|spec| {
                spec.included_namespaces = list(includes);
                spec.excluded_namespaces = list(excludes);
            });
            assert_eq!(made.err(), expected, "{includes:?} {excludes:?}");
        }
        assert_eq!(
            SelectorError::Wildcard(UNCLOSED.to_owned()).to_string(),
            format!("error expanding wildcard patterns in namespace includes/excludes: {UNCLOSED}")
        );
        let requirement = LabelSelectorRequirement { key: "a b".into(), operator: "Exists".into(), values: vec![] };
        let broken = LabelSelector { match_expressions: vec![requirement], ..Default::default() };
        assert!(try_filter(|spec| spec.label_selector = Some(broken.clone())).is_err());
        assert!(try_filter(|spec| spec.or_label_selectors = vec![broken]).is_err());
    }

    #[test]
    fn status_is_restored_for_what_was_asked() {
        for (status, expected) in [
            (None, [false, false]),
            (Some((&[][..], &[][..])), [true, true]),
            (Some((&["*"], &["po"])), [false, true]),
            (Some((&["po"], &[])), [true, false]),
        ] {
            let filter = filter(|spec| {
                spec.restore_status = status.map(|(includes, excludes)| RestoreStatusSpec {
                    included_resources: list(includes),
                    excluded_resources: list(excludes),
                });
            });
            assert_eq!(["pods", "widgets.example.com"].map(|t| filter.restores_status(&id(t))), expected, "{status:?}");
        }
    }
}
