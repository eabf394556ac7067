//! The sources to which a policy applies.

use crate::format::snapshot::Source;
use std::collections::BTreeMap;

/// The sources to which a policy applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyTarget {
    /// All of them.
    Global,
    /// The sources of a host.
    Host {
        /// The host.
        host: String,
    },
    /// The sources of a user on a host.
    User {
        /// The host.
        host: String,
        /// The user.
        user: String,
    },
    /// A path and those below it.
    Path(Source),
}

impl PolicyTarget {
    /// The labels of the manifest of its policy.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let labels: &[(&str, &str)] = match self {
            Self::Global => &[("policyType", "global")],
            Self::Host { host } => &[("policyType", "host"), ("hostname", host)],
            Self::User { host, user } => &[("policyType", "user"), ("hostname", host), ("username", user)],
            Self::Path(source) => &[
                ("policyType", "path"),
                ("hostname", &source.host),
                ("username", &source.user),
                ("path", &source.path),
            ],
        };
        let labels = labels.iter().chain(&[("type", "policy")]);
        labels.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    /// The targets whose policies a source has, the nearest first: its path, the paths above, user, host, all.
    pub fn of_source(source: &Source) -> Vec<Self> {
        let mut targets = Vec::new();
        let mut path = source.path.clone();
        while !path.is_empty() {
            targets.push(Self::Path(Source { path: path.clone(), ..source.clone() }));
            let parent = parent_of(&path).to_owned();
            if parent == path {
                break;
            }
            path = parent;
        }
        targets.push(Self::User { host: source.host.clone(), user: source.user.clone() });
        targets.push(Self::Host { host: source.host.clone() });
        targets.push(Self::Global);
        targets
    }
}

/// The path above, which is itself for `/` and `.`.
fn parent_of(path: &str) -> &str {
    match path.rsplit_once('/') {
        None => ".",
        Some(("", _)) => "/",
        Some((parent, _)) => parent.trim_end_matches('/'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str) -> Source {
        Source { host: "h".to_owned(), user: "u".to_owned(), path: path.to_owned() }
    }

    fn paths(path: &str) -> Vec<String> {
        let targets = PolicyTarget::of_source(&source(path));
        let paths = targets.into_iter().filter_map(|target| match target {
            PolicyTarget::Path(source) => Some(source.path),
            _ => None,
        });
        paths.collect()
    }

    #[test]
    fn a_source_has_the_policies_of_all_paths_above_it() {
        assert_eq!(paths("/srv/a/b"), ["/srv/a/b", "/srv/a", "/srv", "/"]);
        assert_eq!(paths("data/kopia/ns"), ["data/kopia/ns", "data/kopia", "data", "."]);
        assert_eq!(paths("/"), ["/"]);
        let last = PolicyTarget::of_source(&source("/")).split_off(1);
        let user = PolicyTarget::User { host: "h".to_owned(), user: "u".to_owned() };
        assert_eq!(last, [user, PolicyTarget::Host { host: "h".to_owned() }, PolicyTarget::Global]);
    }

    #[test]
    fn a_target_is_found_by_the_labels_of_kopia() {
        let labels = PolicyTarget::Path(source("/x")).labels();
        let labels: Vec<(&str, &str)> = labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let expected =
            [("hostname", "h"), ("path", "/x"), ("policyType", "path"), ("type", "policy"), ("username", "u")];
        assert_eq!(labels, expected);
        assert_eq!(PolicyTarget::Global.labels().len(), 2);
    }
}
