//! The filters of a restore: they decide which objects it includes.

use crate::glob::{Globs, has_wildcard, validate_wildcards};
use crate::includes::{IncludesExcludes, validate_lists};
use crate::namespace::expand;
use crate::policy::{AskedType, FilterPolicies, ResourcePolicies};
use crate::selector::{Selector, SelectorError, matches_any};
use crate::types::{Resolver, unscoped_lists};
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
    /// Filter policies in place of the selectors, for some types and namespaces.
    policies: FilterPolicies,
    warnings: Vec<String>,
}

/// The facts about an object of the backup that a filter reads.
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
    /// Its labels; `None` when they are not known yet, so that no selector keeps the object out but one that lets nothing in.
    pub labels: Option<&'a BTreeMap<String, String>>,
}

impl RestoreFilter {
    /// Everything that is wrong with the filters of a restore, in Velero's words
    /// (velero: pkg/controller/restore_controller.go).
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
    /// objects in the backup (velero: pkg/util/wildcard).
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
        // Velero takes the emptied list for "all" and restores the whole backup.
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
        warnings.extend(policies.types().filter_map(|resource| {
            let name = resource.to_string();
            let why = match (types.excludes(&name), types.includes(&name)) {
                (true, _) => "which excludedResources leave out",
                (false, false) => "which is not in includedResources",
                (false, true) => return None,
            };
            Some(format!("a filter policy names {resource}, {why}: its filter has no effect"))
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

    /// Returns true if a type is restored.
    #[must_use]
    pub(crate) fn includes_resource(&self, resource: &GroupResource) -> bool {
        is_must_have(resource) || self.types.includes(&resource.to_string())
    }

    /// Returns true if a namespace of the backup is in scope.
    #[must_use]
    pub(crate) fn includes_namespace(&self, name: &str) -> bool {
        !self.no_namespace && self.namespaces.includes(name)
    }

    /// Checks that an object of the backup is restored. `namespace` is the one in the backup, before any mapping, and
    /// absent for cluster-scoped objects; for an object of type `namespaces` it is the object's name.
    ///
    /// # Errors
    /// The reason why not.
    pub fn includes_item(&self, object: RestoredFacts<'_>) -> Result<(), &'static str> {
        let RestoredFacts { resource, namespace, .. } = object;
        if !self.includes_resource(resource) {
            return Err("its type is not included");
        }
        let is_namespace = resource.is_namespaces();
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
        // Velero makes every namespace of the backup when includeClusterResources is true, even excluded ones.
        let in_scope = match namespace {
            Some(name) => self.includes_namespace(name),
            None => !is_namespace || self.includes_all_namespaces(),
        };
        if !in_scope {
            return Err("its namespace is not included");
        }
        self.selects(object, is_namespace)
    }

    /// Checks that the filter of a policy, or else the selectors of the spec, let an object in.
    fn selects(&self, object: RestoredFacts<'_>, is_namespace: bool) -> Result<(), &'static str> {
        let RestoredFacts { resource, kind, namespace, name, labels } = object;
        let asked = AskedType { resource, kind };
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
            None if !self.may_match(labels) => Err("its labels do not match the selector"),
            None => Ok(()),
        }
    }

    /// Returns true if the selectors of the spec let labels in, or, as long as these are not known, any labels.
    fn may_match(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        match labels {
            Some(labels) => {
                self.selector.as_ref().is_none_or(|s| s.matches(labels)) && matches_any(&self.or_selectors, labels)
            }
            None => !self.selector.as_ref().is_some_and(Selector::is_nothing),
        }
    }

    /// Returns true if an object is restored that an action or another object asks for.
    /// Selectors do not count, and cluster-scoped objects come along even when only some namespaces are restored.
    /// `namespace` has the same meaning as in [`RestoreFilter::includes_item`].
    #[must_use]
    pub fn includes_additional(&self, resource: &GroupResource, namespace: Option<&str>) -> bool {
        let cluster_scoped = namespace.is_none() || resource.is_namespaces();
        self.includes_resource(resource)
            && !(cluster_scoped && self.cluster == Some(false))
            && (is_must_have(resource) || namespace.is_none_or(|n| self.includes_namespace(n)))
    }

    /// Returns true if objects of a type get their status back, unless an object's annotation says otherwise.
    #[must_use]
    pub fn restores_status(&self, resource: &GroupResource) -> bool {
        self.status.as_ref().is_some_and(|lists| lists.includes(&resource.to_string()))
    }

    /// Returns true if the restore says of a type that its objects do not get their status back.
    #[must_use]
    pub fn leaves_status_out(&self, resource: &GroupResource) -> bool {
        self.status.as_ref().is_some_and(|lists| lists.excludes(&resource.to_string()))
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

/// Types that a restore of volume data cannot do without; lists and selectors do not apply to them.
fn is_must_have(resource: &GroupResource) -> bool {
    resource.group == lifeboat_api::GROUP && resource.resource == "datauploads"
}

#[cfg(test)]
mod tests;
