//! Filters the namespaces of a backup.

use crate::glob::{Globs, has_wildcard};
use crate::includes::IncludesExcludes;
use crate::kept_out::is_kept_out;
use std::collections::{BTreeMap, BTreeSet};

/// The facts about a namespace of the cluster that the filter reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceFacts {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// True when its phase is `Active`.
    pub active: bool,
}

impl NamespaceFacts {
    /// A namespace of which nothing but the name is known.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), labels: BTreeMap::new(), active: true }
    }
}

/// The namespaces in which to list the objects of a namespaced type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceScope {
    /// All namespaces at once; objects of namespaces that are not included are dropped as they arrive.
    All,
    /// Each of these, sorted.
    Names(Vec<String>),
}

/// The namespaces of a backup (velero: pkg/util/collections/includes_excludes.go).
#[derive(Clone, Debug)]
pub struct NamespaceFilter {
    lists: IncludesExcludes,
    /// Patterns were given and leave no name to include: the emptied list does not mean "all".
    matched_nothing: bool,
    unrestricted: bool,
    scope: NamespaceScope,
    missing: Vec<String>,
}

impl NamespaceFilter {
    /// Resolves the lists of a backup against the namespaces of the cluster, whatever their phase. Namespaces labelled
    /// `velero.io/exclude-from-backup=true` are excluded.
    #[must_use]
    pub fn resolve(includes: &[String], excludes: &[String], existing: &[NamespaceFacts]) -> Self {
        let labelled: BTreeSet<&str> = existing.iter().filter(|n| n.is_labelled()).map(|n| n.name.as_str()).collect();
        let expanded = expand(includes, excludes, existing.iter().map(|n| n.name.as_str()));
        let matched_nothing = expanded.as_ref().is_some_and(Vec::is_empty);
        let includes = expanded.as_deref().unwrap_or(includes);

        let all_excludes: Vec<String> =
            excludes.iter().cloned().chain(labelled.iter().map(|n| (*n).to_owned())).collect();
        let mut filter = Self {
            lists: IncludesExcludes::new(includes, &all_excludes),
            matched_nothing,
            // In Velero one labelled namespace is a restriction too, and old-style backups then lose their
            // cluster-scoped types: an accident. The labelled names may already be in the stored
            // excludes (velero: pkg/controller/backup_controller.go); they do not count there either.
            unrestricted: !matched_nothing
                && IncludesExcludes::new(includes, &[]).includes_everything()
                && excludes.iter().all(|e| labelled.contains(e.as_str())),
            scope: NamespaceScope::All,
            missing: Vec::new(),
        };

        let known: BTreeSet<&str> = existing.iter().map(|n| n.name.as_str()).collect();
        let names: Vec<String> = known.iter().filter(|n| filter.includes(n)).map(|n| (*n).to_owned()).collect();
        // One list of a whole cluster beats many small ones once a good part of it is wanted.
        if !filter.unrestricted && names.len() * 5 <= known.len() {
            filter.scope = NamespaceScope::Names(names);
        }
        let wanted: BTreeSet<&String> = includes.iter().collect();
        filter.missing = wanted
            .into_iter()
            .filter(|n| !n.is_empty() && *n != "*" && !known.contains(n.as_str()) && filter.includes(n))
            .cloned()
            .collect();
        filter
    }

    /// Returns true if objects of this namespace are in scope.
    #[must_use]
    pub fn includes(&self, name: &str) -> bool {
        !self.matched_nothing && self.lists.includes(name)
    }

    /// Returns true if the user did not restrict the namespaces. Namespaces that are excluded by their label do not
    /// count.
    #[must_use]
    pub fn includes_everything(&self) -> bool {
        self.unrestricted
    }

    /// The namespaces in which to list namespaced types: all of them at once when all or more than a fifth are
    /// included.
    #[must_use]
    pub fn to_list(&self) -> NamespaceScope {
        self.scope.clone()
    }

    /// Names that are to be included but do not exist, sorted.
    #[must_use]
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Returns true if patterns were given, none matched and no plain name was given beside them.
    #[must_use]
    pub fn matched_nothing(&self) -> bool {
        self.matched_nothing
    }
}

impl NamespaceFacts {
    fn is_labelled(&self) -> bool {
        is_kept_out(&self.labels)
    }
}

/// The includes with their patterns replaced by the names they match, without repetitions; plain names stay, known or not.
/// `None` when there is nothing to expand: everything is included, or no list has a pattern.
///
/// Excludes need no expansion, they are matched as the globs they are.
pub(crate) fn expand<'a>(
    includes: &[String],
    excludes: &[String],
    known: impl Iterator<Item = &'a str> + Clone,
) -> Option<Vec<String>> {
    let patterns = includes.iter().chain(excludes).any(|p| has_wildcard(p));
    if includes.is_empty() || includes.iter().any(|i| i == "*") || !patterns {
        return None;
    }
    let (globs, plain): (Vec<String>, Vec<String>) = includes.iter().cloned().partition(|p| has_wildcard(p));
    let globs = Globs::new(&globs);
    let names: BTreeSet<String> =
        plain.into_iter().chain(known.filter(|n| globs.matches(n)).map(str::to_owned)).collect();
    Some(names.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list;
    use lifeboat_api::well_known::LABEL_EXCLUDE_FROM_BACKUP;

    fn namespace(name: &str) -> NamespaceFacts {
        NamespaceFacts { name: name.to_owned(), labels: BTreeMap::new(), active: true }
    }

    fn cluster(names: &[&str], labelled: &[&str]) -> Vec<NamespaceFacts> {
        let labels = BTreeMap::from([(LABEL_EXCLUDE_FROM_BACKUP.to_owned(), "true".to_owned())]);
        names
            .iter()
            .map(|n| namespace(n))
            .chain(labelled.iter().map(|n| NamespaceFacts { labels: labels.clone(), ..namespace(n) }))
            .collect()
    }

    /// Everything a filter says of a cluster: included names, unrestricted, missing, matched nothing.
    fn facts(includes: &[&str], excludes: &[&str], cluster: &[NamespaceFacts]) -> (String, bool, Vec<String>, bool) {
        let filter = NamespaceFilter::resolve(&list(includes), &list(excludes), cluster);
        let included: Vec<&str> = cluster.iter().map(|n| n.name.as_str()).filter(|n| filter.includes(n)).collect();
        (included.join(" "), filter.includes_everything(), filter.missing().to_vec(), filter.matched_nothing())
    }

    #[test]
    fn resolves_the_lists_of_a_backup() {
        let some = cluster(&["app1", "app2", "dev", "velero"], &["secret"]);
        let all = "app1 app2 dev velero";
        for (includes, excludes, expected) in [
            (&[][..], &[][..], (all, true, &[][..], false)),
            (&["*"], &[], (all, true, &[], false)),
            // The preparation of the request has put the labelled namespace into the stored list.
            (&["*"], &["secret"], (all, true, &[], false)),
            (&["*"], &["velero"], ("app1 app2 dev", false, &[], false)),
            (&["*"], &["app*"], ("dev velero", false, &[], false)),
            (&["app1"], &[], ("app1", false, &[], false)),
            (&["app1", "gone"], &[], ("app1", false, &["gone"], false)),
            (&["app*"], &[], ("app1 app2", false, &[], false)),
            (&["app?", "dev"], &["app2"], ("app1 dev", false, &[], false)),
            (&["app[13]"], &[], ("app1", false, &[], false)),
            (&["app1", "gone"], &["go*"], ("app1", false, &[], false)),
            (&["app1", "app2"], &["app*"], ("", false, &[], false)),
            (&["secret"], &[], ("", false, &[], false)),
            (&["prod-*"], &[], ("", false, &[], true)),
            (&["prod-*", "dev"], &[], ("dev", false, &[], false)),
            (&["prod-*", "gone"], &[], ("", false, &["gone"], false)),
            (&[""], &[], ("", false, &[], false)),
            // A glob that does not compile matches nothing.
            (&["app["], &[], ("", false, &[], true)),
        ] {
            let (included, everything, missing, nothing) = expected;
            assert_eq!(
                facts(includes, excludes, &some),
                (included.to_owned(), everything, list(missing), nothing),
                "{includes:?} {excludes:?}"
            );
        }
    }

    #[test]
    fn labelled_means_true() {
        let mut some = cluster(&["a"], &["b"]);
        some[1].labels.insert(LABEL_EXCLUDE_FROM_BACKUP.to_owned(), "false".to_owned());
        assert_eq!(facts(&[], &[], &some), ("a b".to_owned(), true, vec![], false));
    }

    #[test]
    fn a_namespace_made_meanwhile_is_included_only_without_patterns() {
        let some = cluster(&["app1"], &[]);
        for (includes, expected) in [(&["*"][..], true), (&["app*"], false), (&["app2"], true)] {
            assert_eq!(
                NamespaceFilter::resolve(&list(includes), &[], &some).includes("app2"),
                expected,
                "{includes:?}"
            );
        }
    }

    #[test]
    fn lists_everywhere_once_more_than_a_fifth_is_included() {
        let names: Vec<String> = (0..10).map(|n| format!("n{n}")).collect();
        let some = cluster(&names.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
        for (includes, excludes, expected) in [
            (&["*"][..], &[][..], NamespaceScope::All),
            (&["n3", "n1", "gone"], &[], NamespaceScope::Names(list(&["n1", "n3"]))),
            (&["n1", "n2", "n3"], &[], NamespaceScope::All),
            (&["*"], &["n1"], NamespaceScope::All),
            (&["*"], &["n[1-9]"], NamespaceScope::Names(list(&["n0"]))),
            (&["x*"], &[], NamespaceScope::Names(vec![])),
        ] {
            assert_eq!(
                NamespaceFilter::resolve(&list(includes), &list(excludes), &some).to_list(),
                expected,
                "{includes:?} {excludes:?}"
            );
        }
        let nothing = NamespaceFilter::resolve(&[], &[], &[]);
        assert_eq!((nothing.to_list(), nothing.includes("new")), (NamespaceScope::All, true));
        assert_eq!(NamespaceFilter::resolve(&list(&["a"]), &[], &[]).to_list(), NamespaceScope::Names(vec![]));
    }
}
