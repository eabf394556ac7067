//! Names and identities of objects.

use lifeboat_api::{NamespacedName, ObjectMeta};

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
        Self { key: meta.key(), uid: meta.uid.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_of_its_namespace() {
        let key = |namespace: &str, name: &str| NamespacedName { namespace: namespace.into(), name: name.into() };
        let meta = ObjectMeta { namespace: "a".into(), name: "b".into(), ..ObjectMeta::default() };
        assert_eq!(meta.key(), key("a", "b"));
        assert_ne!(key("a", "b"), key("c", "b"));
        assert_eq!(key("a", "b").beside("other"), key("a", "other"));
        assert!(key("a", "z") < key("b", "a"), "those of one namespace are together");
        assert_eq!(
            (key("a", "b").to_string(), format!("{:?}", Some(key("a", "b")))),
            ("a/b".into(), r#"Some("a/b")"#.into())
        );
    }
}
