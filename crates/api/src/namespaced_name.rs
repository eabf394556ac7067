//! Names of objects within a cluster.

use std::fmt;

/// The name of an object together with its namespace: of each kind there is one that is called so.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamespacedName {
    /// Its namespace.
    pub namespace: String,
    /// Its name there.
    pub name: String,
}

impl NamespacedName {
    /// A name from its parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The name of another object in the same namespace: objects name each other without it.
    #[must_use]
    pub fn beside(&self, name: &str) -> Self {
        Self { namespace: self.namespace.clone(), name: name.to_owned() }
    }
}

/// `velero/nightly`.
impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// `"velero/nightly"`: logs show what holds it in one line.
impl fmt::Debug for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}
