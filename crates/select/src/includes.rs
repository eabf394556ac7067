//! Include and exclude lists: their matches, and the pairs of lists that make sense.

use crate::glob::{Globs, validate_wildcards};
use crate::selector::{is_dns_subdomain, is_dns_word};
use std::collections::BTreeSet;

const INCLUDES_ALL_AND_MORE: &str = "includes list must either contain '*' only, or a non-empty list of items";

/// A list of globs to include and one to exclude (velero: pkg/util/collections/includes_excludes.go).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IncludesExcludes {
    includes: Globs,
    excludes: Globs,
    everything_included: bool,
    unrestricted: bool,
}

impl IncludesExcludes {
    /// Compiles the lists.
    #[must_use]
    pub fn new(includes: &[String], excludes: &[String]) -> Self {
        let all = includes.is_empty() || includes.iter().any(|i| i == "*");
        Self {
            includes: Globs::new(includes),
            excludes: Globs::new(excludes),
            everything_included: all,
            unrestricted: excludes.is_empty() && all && includes.iter().all(|i| i == "*"),
        }
    }

    /// Returns true if `s` is in: no exclude matches it, and the includes are empty, contain `*` or one of them matches
    /// it.
    #[must_use]
    pub fn includes(&self, s: &str) -> bool {
        !self.excludes(s) && (self.everything_included || self.includes.matches(s))
    }

    /// Returns true if the lists leave nothing out: no exclude, and no include but `*`.
    #[must_use]
    pub fn includes_everything(&self) -> bool {
        self.unrestricted
    }

    pub(crate) fn excludes(&self, s: &str) -> bool {
        self.excludes.matches(s)
    }

    /// Returns true if `s` is named by an include, `*` among them; an empty list names nothing.
    pub(crate) fn names(&self, s: &str) -> bool {
        !self.includes.is_empty() && self.includes(s)
    }
}

/// The problems of a pair of lists: both scopes in one list, or namespaces of a restore
/// (velero: pkg/util/collections/includes_excludes.go).
#[must_use]
pub fn validate_lists(includes: &[String], excludes: &[String]) -> Vec<String> {
    let (includes, excludes) = (sorted(includes), sorted(excludes));
    let mut problems = Vec::new();
    if includes.len() > 1 && includes.contains("*") {
        problems.push(INCLUDES_ALL_AND_MORE.to_owned());
    }
    if excludes.contains("*") {
        problems.push("excludes list cannot contain '*'".to_owned());
    }
    problems.extend(overlap(&includes, &excludes));
    problems
}

/// The problems of a pair of lists of one scope (velero: pkg/util/collections/includes_excludes.go).
#[must_use]
pub(crate) fn validate_scoped_lists(includes: &[String], excludes: &[String]) -> Vec<String> {
    let (includes, excludes) = (sorted(includes), sorted(excludes));
    let mut problems = Vec::new();
    if includes.len() > 1 && includes.contains("*") {
        problems.push(INCLUDES_ALL_AND_MORE.to_owned());
    }
    if excludes.len() > 1 && excludes.contains("*") {
        problems.push("excludes list must either contain '*' only, or a non-empty list of items".to_owned());
    }
    if !includes.is_empty() && excludes.contains("*") {
        problems.push("when exclude is '*', include cannot have value".to_owned());
    }
    problems.extend(overlap(&includes, &excludes));
    problems
}

/// The problems of the namespace lists of a backup: the lists, then each name and pattern
/// (velero: pkg/util/collections/includes_excludes.go).
#[must_use]
pub(crate) fn validate_namespace_lists(includes: &[String], excludes: &[String]) -> Vec<String> {
    let mut problems = validate_lists(includes, excludes);
    for name in sorted(includes).into_iter().chain(sorted(excludes)) {
        problems.extend(namespace_problems(name));
    }
    problems
}

fn sorted(list: &[String]) -> BTreeSet<&str> {
    list.iter().map(String::as_str).collect()
}

/// The problem of each item that both lists have.
pub(crate) fn overlap_of(includes: &[String], excludes: &[String]) -> Vec<String> {
    overlap(&sorted(includes), &sorted(excludes))
}

fn overlap(includes: &BTreeSet<&str>, excludes: &BTreeSet<&str>) -> Vec<String> {
    includes
        .intersection(excludes)
        .map(|item| format!("excludes list cannot contain an item in the includes list: {item}"))
        .collect()
}

fn namespace_problems(name: &str) -> Vec<String> {
    // compat: the empty name is no Kubernetes name, but stored backups may have it, meaning "no namespace".
    if name.is_empty() {
        return Vec::new();
    }
    if let Err(problem) = validate_wildcards(name) {
        return vec![problem];
    }
    let plain = name.replace(['*', '?', '[', ']'], "x");
    let mut problems = Vec::new();
    if plain.len() > 63 {
        problems.push("must be no more than 63 characters");
    }
    if !is_dns_word(&plain) {
        problems.push(if is_dns_subdomain(&plain) {
            "must not contain dots"
        } else {
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
             end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        });
    }
    problems.into_iter().map(|problem| format!("invalid namespace {name:?}: {problem}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list;

    #[test]
    fn excludes_win_over_includes() {
        for (includes, excludes, s, included, named) in [
            (&[][..], &[][..], "a", true, false),
            (&["*"], &[], "a", true, true),
            (&["a"], &[], "a", true, true),
            (&["a"], &[], "b", false, false),
            (&["a*"], &["ab"], "ab", false, false),
            (&["a*"], &["ab"], "ac", true, true),
            (&["*"], &["a*"], "ab", false, false),
            (&[], &["*"], "a", false, false),
            // The malformed include ends the search, unless the list says everything.
            (&["[", "a"], &[], "a", false, false),
            (&["[", "*"], &[], "a", true, true),
            (&["["], &[], "[", false, false),
        ] {
            let lists = IncludesExcludes::new(&list(includes), &list(excludes));
            assert_eq!((lists.includes(s), lists.names(s)), (included, named), "{includes:?} {excludes:?} {s}");
        }
    }

    #[test]
    fn knows_when_nothing_is_left_out() {
        for (includes, excludes, expected) in [
            (&[][..], &[][..], true),
            (&["*"], &[], true),
            (&["*", "a"], &[], false),
            (&["a"], &[], false),
            (&[], &["a"], false),
            (&["*"], &["a"], false),
        ] {
            let lists = IncludesExcludes::new(&list(includes), &list(excludes));
            assert_eq!(lists.includes_everything(), expected, "{includes:?} {excludes:?}");
        }
    }

    #[test]
    fn pairs_of_lists_are_checked() {
        const MORE: &str = "excludes list must either contain '*' only, or a non-empty list of items";
        const EMPTY: &str = "when exclude is '*', include cannot have value";
        const NONE: &str = "excludes list cannot contain '*'";
        const A: &str = "excludes list cannot contain an item in the includes list: a";
        const STAR: &str = "excludes list cannot contain an item in the includes list: *";
        const ALL: &str = INCLUDES_ALL_AND_MORE;
        for (includes, excludes, old, scoped) in [
            (&[][..], &[][..], &[][..], &[][..]),
            (&["*"], &["a"], &[], &[]),
            (&["*", "*"], &[], &[], &[]),
            (&["a", "*"], &[], &[ALL], &[ALL]),
            (&[], &["*"], &[NONE], &[]),
            (&[], &["*", "a"], &[NONE], &[MORE]),
            (&["b"], &["*"], &[NONE], &[EMPTY]),
            (&["*"], &["*"], &[NONE, STAR], &[EMPTY, STAR]),
            (&["b", "a"], &["a", "c"], &[A], &[A]),
        ] {
            assert_eq!(validate_lists(&list(includes), &list(excludes)), list(old), "{includes:?} {excludes:?}");
            assert_eq!(
                validate_scoped_lists(&list(includes), &list(excludes)),
                list(scoped),
                "{includes:?} {excludes:?}"
            );
        }
    }

    #[test]
    fn namespace_names_and_globs_are_checked() {
        const RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
        let long = "a".repeat(64);
        for (name, expected) in [
            ("", vec![]),
            ("*", vec![]),
            ("app-[ab]?-*", vec![]),
            ("App", vec![format!("invalid namespace \"App\": {RULE}")]),
            ("a_*", vec![format!("invalid namespace \"a_*\": {RULE}")]),
            ("-a", vec![format!("invalid namespace \"-a\": {RULE}")]),
            ("a.b", vec!["invalid namespace \"a.b\": must not contain dots".to_owned()]),
            (&long, vec![format!("invalid namespace \"{long}\": must be no more than 63 characters")]),
            ("A|", vec!["wildcard pattern contains unsupported characters: |, (, ), !, {, }, ,".to_owned()]),
        ] {
            assert_eq!(validate_namespace_lists(&list(&[name]), &[]), expected, "{name}");
            if name != "*" {
                assert_eq!(validate_namespace_lists(&[], &list(&[name])), expected, "{name}");
            }
        }
        assert_eq!(
            validate_namespace_lists(&list(&["a", "*"]), &list(&["B.", "a"])),
            [
                INCLUDES_ALL_AND_MORE.to_owned(),
                "excludes list cannot contain an item in the includes list: a".to_owned(),
                format!("invalid namespace \"B.\": {RULE}"),
            ]
        );
    }
}
