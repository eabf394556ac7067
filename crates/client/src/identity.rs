//! Names and identities of objects.

use lifeboat_api::ObjectMeta;
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
    /// The name of the object with this metadata.
    #[must_use]
    pub fn of(meta: &ObjectMeta) -> Self {
        Self { namespace: meta.namespace.clone(), name: meta.name.clone() }
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

/// Names one object by name and UID: an object that gets the same name later is another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectIdentity {
    /// Its namespace and name.
    pub key: NamespacedName,
    /// Its UID.
    pub uid: String,
}

impl ObjectIdentity {
    /// The identity of the object with this metadata.
    #[must_use]
    pub fn of(meta: &ObjectMeta) -> Self {
        Self { key: NamespacedName::of(meta), uid: meta.uid.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_of_its_namespace() {
        let key = |namespace: &str, name: &str| NamespacedName { namespace: namespace.into(), name: name.into() };
        let meta = ObjectMeta { namespace: "a".into(), name: "b".into(), ..ObjectMeta::default() };
        assert_eq!(NamespacedName::of(&meta), key("a", "b"));
        assert_ne!(key("a", "b"), key("c", "b"));
        assert_eq!(key("a", "b").beside("other"), key("a", "other"));
        assert!(key("a", "z") < key("b", "a"), "those of one namespace are together");
        assert_eq!(
            (key("a", "b").to_string(), format!("{:?}", Some(key("a", "b")))),
            ("a/b".into(), r#"Some("a/b")"#.into())
        );
    }
}
