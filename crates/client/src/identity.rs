//! Which object is meant.

use lifeboat_api::ObjectMeta;

/// Names one object by name and UID: an object that gets the same name later is another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl Identity {
    /// The identity of the object with this metadata.
    #[must_use]
    pub fn of(meta: &ObjectMeta) -> Self {
        Self { name: meta.name.clone(), uid: meta.uid.clone() }
    }
}
