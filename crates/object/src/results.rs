//! Warnings and errors per object, in the shape of Velero's results files.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

/// Severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The operation did what was asked, and the user should know this.
    Warning,
    /// Something that was asked for was not done.
    Error,
}

/// The group of objects that a message belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultScope {
    /// The tool itself.
    Velero,
    /// A cluster-scoped object.
    Cluster,
    /// An object in this namespace.
    Namespace(String),
}

impl ResultScope {
    /// The place of an object: its namespace, or the cluster.
    #[must_use]
    pub fn of(namespace: Option<&str>) -> Self {
        namespace.map_or(Self::Cluster, |n| Self::Namespace(n.to_owned()))
    }
}

/// Messages of one severity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultSet {
    /// About the tool itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub velero: Vec<String>,
    /// About cluster-scoped objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster: Vec<String>,
    /// About objects in namespaces.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub namespaces: BTreeMap<String, Vec<String>>,
}

impl ResultSet {
    /// Adds a message.
    pub fn add(&mut self, place: &ResultScope, message: impl Into<String>) {
        match place {
            ResultScope::Velero => self.velero.push(message.into()),
            ResultScope::Cluster => self.cluster.push(message.into()),
            ResultScope::Namespace(n) => self.namespaces.entry(n.clone()).or_default().push(message.into()),
        }
    }

    /// Takes over those messages of another set that are not there.
    pub fn merge(&mut self, other: Self) {
        fn merge(into: &mut Vec<String>, from: Vec<String>) {
            let known: HashSet<String> = into.iter().cloned().collect();
            into.extend(from.into_iter().filter(|message| !known.contains(message)));
        }
        merge(&mut self.velero, other.velero);
        merge(&mut self.cluster, other.cluster);
        for (namespace, messages) in other.namespaces {
            merge(self.namespaces.entry(namespace).or_default(), messages);
        }
    }

    /// The number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.velero.len() + self.cluster.len() + self.namespaces.values().map(Vec::len).sum::<usize>()
    }

    /// Returns true if there are no messages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every message, the tool's own first, then the cluster's, then by namespace.
    pub fn messages(&self) -> impl Iterator<Item = &str> {
        self.velero.iter().chain(&self.cluster).chain(self.namespaces.values().flatten()).map(String::as_str)
    }
}

/// The results of an operation, serialised as Velero's results file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Results {
    /// Things that were asked for and not done.
    #[serde(default)]
    pub errors: ResultSet,
    /// Things the user should know, although all that was asked for was done.
    #[serde(default)]
    pub warnings: ResultSet,
    /// Things that the user may want to know later, and that nobody has to look after: they are counted nowhere. An addition of Lifeboat.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Results {
    /// Adds a message.
    pub fn add(&mut self, severity: Severity, place: &ResultScope, message: impl Into<String>) {
        match severity {
            Severity::Warning => self.warnings.add(place, message),
            Severity::Error => self.errors.add(place, message),
        }
    }

    /// Adds those of a later part of the same operation. A message that both have is there once.
    pub fn merge(&mut self, later: Self) {
        self.errors.merge(later.errors);
        self.warnings.merge(later.warnings);
        for note in later.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_merged_twice_is_there_once() {
        let set = |texts: &[(Option<&str>, &str)]| {
            let mut set = ResultSet::default();
            texts.iter().for_each(|(namespace, text)| set.add(&ResultScope::of(*namespace), *text));
            set
        };
        let mut merged = set(&[(None, "a"), (Some("n"), "b"), (Some("n"), "b")]);
        let other = set(&[(None, "c"), (Some("n"), "b"), (Some("m"), "b"), (Some("m"), "b")]);
        merged.merge(other.clone());
        merged.merge(other);
        let expected =
            [(None, "a"), (Some("n"), "b"), (Some("n"), "b"), (None, "c"), (Some("m"), "b"), (Some("m"), "b")];
        assert_eq!(merged, set(&expected));
    }

    #[test]
    fn empty_parts_are_left_out_but_both_outer_keys_stand() {
        let mut results = Results::default();
        assert_eq!(serde_json::to_string(&results).unwrap(), r#"{"errors":{},"warnings":{}}"#);
        results.add(Severity::Error, &ResultScope::of(Some("a")), "x");
        results.add(Severity::Warning, &ResultScope::of(None), "y");
        assert_eq!(
            serde_json::to_string(&results).unwrap(),
            r#"{"errors":{"namespaces":{"a":["x"]}},"warnings":{"cluster":["y"]}}"#
        );
        assert_eq!((results.errors.len(), results.warnings.len()), (1, 1));
        results.notes.push("z".to_owned());
        results.merge(results.clone());
        assert_eq!(
            serde_json::to_string(&results).unwrap(),
            r#"{"errors":{"namespaces":{"a":["x"]}},"warnings":{"cluster":["y"]},"notes":["z"]}"#
        );
    }
}
