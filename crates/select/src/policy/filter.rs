//! The filters of objects as they are written, checked: which objects of which types are saved or restored. Types are
//! not resolved yet.

use super::document::{DocumentClusterPolicy, DocumentFilter, DocumentNamespacePolicy, StrictSelector};
use crate::glob::{is_glob, validate_wildcards};
use crate::selector::Selector;
use lifeboat_api::LabelSelector;
use serde_saphyr::Spanned;
use std::collections::BTreeMap;

/// The filters of cluster-scoped objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterFilters(pub(crate) Vec<KindFilter>);

/// The filters of objects in some namespaces.
#[derive(Clone, Debug)]
pub(crate) struct NamespaceFilters {
    /// Names and globs.
    pub(crate) namespaces: Vec<String>,
    pub(crate) filters: Vec<KindFilter>,
}

/// A filter for the objects of some kinds.
#[derive(Clone, Debug)]
pub(crate) struct KindFilter {
    /// Kinds as they are written; empty for all types that no other filter names.
    pub(crate) kinds: Vec<String>,
    /// Selectors of which at least one must match; empty for all.
    pub(crate) selectors: Vec<Selector>,
    pub(crate) names: Vec<String>,
    pub(crate) excluded_names: Vec<String>,
}

impl ClusterFilters {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn checked(policy: Option<Spanned<DocumentClusterPolicy>>, problems: &mut Vec<String>) -> Self {
        const POLICY: &str = "clusterScopedFilterPolicy";
        let Some(policy) = policy else { return Self::default() };
        let line = line(&policy);
        let written = policy.value.resource_filters;
        if written.is_empty() {
            problems.push(format!(
                "{POLICY}: resourceFilters cannot be empty; remove the policy block entirely if it is not needed{line}"
            ));
        }
        let mut filters = Vec::new();
        for (number, filter) in written.into_iter().enumerate() {
            let (at, line) = (format!("{POLICY}.resourceFilters[{number}]"), self::line(&filter));
            let filter = checked(filter.value, &at, &line, problems);
            if filter.kinds.is_empty() {
                problems.push(format!("{at}: kinds must be specified (catch-all is not supported){line}"));
            }
            filters.push(filter);
        }
        tell_doubled(POLICY, &filters, &line, problems);
        Self(filters)
    }
}

impl NamespaceFilters {
    pub(super) fn checked(policies: Vec<Spanned<DocumentNamespacePolicy>>, problems: &mut Vec<String>) -> Vec<Self> {
        let mut out = Vec::new();
        // By pattern, the policies that have it, and where the last of them is.
        let mut met: BTreeMap<String, (Vec<String>, String)> = BTreeMap::new();
        for (number, policy) in policies.into_iter().enumerate() {
            let (at, line) = (format!("namespacedFilterPolicies[{number}]"), line(&policy));
            let DocumentNamespacePolicy { namespaces, resource_filters } = policy.value;
            if namespaces.is_empty() {
                problems.push(format!("{at}: at least one namespace must be specified{line}"));
            }
            if resource_filters.is_empty() {
                problems.push(format!("{at}: at least one resourceFilter must be specified{line}"));
            }
            for (place, pattern) in namespaces.iter().enumerate() {
                if let Err(why) = validate_wildcards(pattern) {
                    problems.push(format!("{at}.namespaces[{place}]: {why}{line}"));
                }
                let (policies, last) = met.entry(pattern.clone()).or_default();
                policies.push(number.to_string());
                last.clone_from(&line);
            }
            let mut filters: Vec<KindFilter> = Vec::new();
            for (place, filter) in resource_filters.into_iter().enumerate() {
                let (at, line) = (format!("{at}.resourceFilters[{place}]"), self::line(&filter));
                let filter = checked(filter.value, &at, &line, problems);
                if filter.kinds.is_empty() && !(filter.names.is_empty() && filter.excluded_names.is_empty()) {
                    let why = "names or excludedNames cannot be specified for catch-all filters";
                    problems.push(format!("{at}: {why}{line}"));
                }
                filters.push(filter);
            }
            if filters.iter().filter(|filter| filter.kinds.is_empty()).count() > 1 {
                problems.push(format!("{at}: only one catch-all resource filter is allowed{line}"));
            }
            tell_doubled(&at, &filters, &line, problems);
            out.push(Self { namespaces, filters });
        }
        let doubled = met.into_iter().filter(|(_, (policies, _))| policies.len() > 1);
        problems.extend(doubled.map(|(pattern, (policies, line))| {
            let policies = policies.join(" ");
            format!(
                "namespacedFilterPolicies: duplicate namespace pattern '{pattern}' found in policies [{policies}]{line}"
            )
        }));
        out
    }
}

fn checked(filter: DocumentFilter, at: &str, line: &str, problems: &mut Vec<String>) -> KindFilter {
    let DocumentFilter { mut kinds, label_selector, or_label_selectors, names, excluded_names } = filter;
    if kinds == ["*"] {
        kinds.clear();
    } else if kinds.iter().any(|kind| kind == "*" || kind.is_empty()) {
        problems.push(format!("{at}: kinds must be '*' alone, or names of kinds{line}"));
    }
    // An empty selector counts as absent.
    let label_selector = label_selector.filter(|selector| *selector != LabelSelector::default());
    if label_selector.is_some() && !or_label_selectors.is_empty() {
        problems.push(format!("{at}: labelSelector and orLabelSelectors cannot co-exist{line}"));
    }
    let mut selectors = Vec::new();
    let mut compile = |selector: &LabelSelector, place: String| match Selector::compile(selector) {
        Ok(selector) => selectors.push(selector),
        Err(why) => problems.push(format!("{place}: invalid label selector: {why}{line}")),
    };
    if let Some(selector) = &label_selector {
        compile(selector, at.to_owned());
    }
    for (place, StrictSelector(selector)) in or_label_selectors.iter().enumerate() {
        compile(selector, format!("{at}.orLabelSelectors[{place}]"));
    }
    for (list, patterns) in [("names", &names), ("excludedNames", &excluded_names)] {
        for (place, pattern) in patterns.iter().enumerate().filter(|(_, pattern)| !is_glob(pattern)) {
            let why = "a character class is not closed, or empty";
            problems.push(format!("{at}.{list}[{place}]: invalid glob pattern {pattern:?}: {why}{line}"));
        }
    }
    KindFilter { kinds, selectors, names, excluded_names }
}

/// Tells of kinds that two filters of a policy name.
fn tell_doubled(at: &str, filters: &[KindFilter], line: &str, problems: &mut Vec<String>) {
    let mut met: BTreeMap<String, usize> = BTreeMap::new();
    for (number, filter) in filters.iter().enumerate() {
        for kind in &filter.kinds {
            if let Some(before) = met.insert(kind.to_lowercase(), number) {
                problems.push(format!(
                    "{at}: kind {kind:?} appears in both resourceFilters[{before}] and resourceFilters[{number}]{line}"
                ));
            }
        }
    }
}

/// The line at which a part of the document begins, for people.
pub(super) fn line<T>(part: &Spanned<T>) -> String {
    format!(" (line {})", part.referenced.line())
}
