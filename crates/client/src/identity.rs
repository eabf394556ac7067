//! Which object is meant.

use lifeboat_api::ObjectMeta;

/// An object, and no other that has its name later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl Identity {
    /// That of the object with this metadata.
    #[must_use]
    pub fn of(meta: &ObjectMeta) -> Self {
        Self { name: meta.name.clone(), uid: meta.uid.clone() }
    }
}
